"""A migrated table becomes a Hive table again, or stays what it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iceberg_hms.errors import InvalidInput, NoSuchTable, NotAnIcebergTable
from iceberg_hms.migration.reversal import keep, undo
from tests.migration.hive_files import rows, write
from tests.migration.lake import FLIGHTS, Lake

MONTHS = {"month=1": [0, 3], "month=2": [6]}


def test_an_undo_brings_row_and_folder_back(lake: Lake) -> None:
    lake.table(MONTHS, parameters={"colour": "red"})
    before, row = lake.files(), lake.pointer.rows[FLIGHTS]
    lake.migrate()
    undo(lake.catalog, "nyc.flights")
    assert lake.files() == before
    found = lake.pointer.rows[FLIGHTS]
    assert replace(found, parameters={**found.parameters, "transient_lastDdlTime": ""}) == replace(
        row, parameters={**row.parameters, "transient_lastDdlTime": ""}
    )


def test_a_table_can_be_migrated_after_an_undo(lake: Lake) -> None:
    lake.table(MONTHS)
    lake.migrate()
    undo(lake.catalog, "nyc.flights")
    report = lake.migrate()
    assert (report.outcome, report.files, report.reused_files) == ("done", 3, 0)
    assert len(lake.data_files()) == 3


def test_an_undo_after_a_commit_of_files_is_refused_and_names_the_snapshot(lake: Lake) -> None:
    folder = lake.table(MONTHS)
    lake.migrate()
    location = write(Path(folder) / "month=1" / "100", rows(100))
    report = lake.catalog.load_table(FLIGHTS).append([location])
    with pytest.raises(InvalidInput, match=str(report.snapshot_ids[-1])):
        undo(lake.catalog, "nyc.flights")
    assert len(lake.data_files()) == 4


def test_a_table_that_stays_owns_its_files_and_cannot_go_back(lake: Lake) -> None:
    lake.table(MONTHS)
    lake.migrate()
    keep(lake.catalog, "nyc.flights")
    keep(lake.catalog, "nyc.flights")
    properties = lake.catalog.load(FLIGHTS).metadata.properties
    assert not {"gc.enabled", "write.metadata.path"} & properties.keys()
    assert len(lake.data_files()) == 3
    with pytest.raises(InvalidInput, match="given up"):
        undo(lake.catalog, "nyc.flights")


def test_a_hive_table_has_nothing_to_undo_or_to_keep(lake: Lake) -> None:
    with pytest.raises(NoSuchTable):
        undo(lake.catalog, "nyc.flights")
    lake.table(MONTHS)
    for change in (undo, keep):
        with pytest.raises(NotAnIcebergTable):
            change(lake.catalog, "nyc.flights")
