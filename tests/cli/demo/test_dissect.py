"""Scene 5 shows every layer of a table, from the pointer to the bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.cli.demo import dissect
from iceberg_hms.errors import EngineError
from tests.cli.demo import tables
from tests.cli.demo.theatre import printed, stage


def test_every_layer_is_shown(tmp_path: Path) -> None:
    with tables.catalog() as catalog:
        made = stage(tmp_path, catalog=catalog)
        dissect.play(made)
        snapshot = catalog.load("logging.events").metadata.current_snapshot
        location = catalog.load("logging.events").metadata_location
    text = printed(made)
    assert snapshot is not None
    assert str(location).rpartition("/")[2] in text.replace("\n", "").replace(" ", "")
    assert f'"snapshot-id": {snapshot.snapshot_id}' in text
    assert "event_time_day: 2021-04-01 .. 2021-04-02" in text
    assert "18718.parquet" in text
    assert "event_time_day=2021-04-01" in text
    assert "ERROR" in text
    assert "WARN" in text


def test_a_table_without_a_snapshot_is_told(tmp_path: Path) -> None:
    with tables.catalog() as catalog:
        catalog.drop_table("logging.events")
        catalog.create_table("logging.events", tables.EVENTS)
        with pytest.raises(EngineError, match="no snapshot"):
            dissect.play(stage(tmp_path, catalog=catalog))
