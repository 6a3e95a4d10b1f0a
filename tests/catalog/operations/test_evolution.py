"""Properties, location, format version and statistics through the API."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema as PyIcebergSchema
from pyiceberg.types import LongType
from pyiceberg.types import NestedField as PyIcebergField

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import CommitFailed, InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.format.missing_values import MISSING

PARTITION_STATISTICS = {"statistics-path": "file:/warehouse/p.parquet", "file-size-in-bytes": 9}
STATISTICS = {
    "statistics-path": "file:/warehouse/s.puffin",
    "file-size-in-bytes": 9,
    "file-footer-size-in-bytes": 4,
    "blob-metadata": [],
}

COLUMN = {"id": 2, "name": "c", "required": False, "type": "long"}


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    with memory_catalog(user="ann") as made:
        made.create_namespace("logging")
        yield made


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("logging.events", pa.schema([("level", pa.string())]), properties={"a": "1"})


def test_properties_are_set_and_removed(table: Table, catalog: Catalog) -> None:
    other = catalog.load_table("logging.events")
    table.set_properties({"b": "2", "c": "3"})
    report = other.remove_properties("a", "c", "none")
    assert report.metadata is other.metadata
    assert "a" not in other.properties
    assert "c" not in other.properties
    assert other.properties["b"] == "2"
    with pytest.raises(InvalidInput, match="upgrade_table_version"):
        table.set_properties({"format-version": "3"})


def test_a_commit_that_changes_nothing_writes_nothing(table: Table) -> None:
    before = table.metadata_location
    table.set_properties({"a": "1"})
    table.remove_properties("none")
    table.update_schema().commit()
    assert table.metadata_location == before


def test_no_column_gets_the_name_of_a_metadata_column(table: Table, catalog: Catalog) -> None:
    before = table.metadata_location
    named = pa.schema([("_pos", pa.int64())])
    add = {"action": "add-schema", "schema": {"type": "struct", "fields": [{**COLUMN, "name": "_pos"}]}}
    attempts: list[Callable[[], object]] = [
        lambda: catalog.create_table("logging.more", named),
        lambda: catalog.create_table("logging.more", PyIcebergSchema(PyIcebergField(1, "_pos", LongType()))),
        lambda: catalog.commit(("logging", "events"), [], [add]),
        lambda: table.update_schema().add_column("_pos", pa.int64()).commit(),
        lambda: table.update_schema().rename_column("level", "_pos").commit(),
        lambda: table.update_schema().union_by_name(named).commit(),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match=r"Cannot call a column _pos: .*give the column another name"):
            attempt()
    assert table.refresh().metadata_location == before
    assert not catalog.table_exists("logging.more")


def test_a_table_of_others_with_such_a_column_takes_commits_and_a_rename(catalog: Catalog) -> None:
    made = catalog.create_table("logging.others", pa.schema([("pos", pa.int64())]))
    text = made.metadata.to_bytes().replace(b'"name":"pos"', b'"name":"_pos"')
    place = f"{made.metadata.location}/metadata/00001-others.metadata.json"
    catalog.services.ports.files.write(place, text)
    catalog.drop_table("logging.others")
    table = catalog.register_table("logging.others", place)
    table.set_properties({"b": "2"})
    table.update_schema().add_column("more", pa.string()).commit()
    assert [field.name for field in table.metadata.schema.fields] == ["_pos", "more"]
    table.update_schema().rename_column("_pos", "place").commit()
    assert [field.name for field in table.metadata.schema.fields] == ["place", "more"]
    with pytest.raises(InvalidInput, match="Cannot call a column _pos"):
        table.update_schema().add_column("_pos", pa.int64()).commit()


def test_a_property_is_never_set_to_what_would_stop_commits(table: Table, catalog: Catalog) -> None:
    before = table.metadata_location
    bad = {"commit.manifest.min-count-to-merge": "x"}
    attempts = [
        lambda: table.set_properties(bad),
        lambda: catalog.commit(("logging", "events"), [], [{"action": "set-properties", "updates": bad}]),
        lambda: catalog.create_table("logging.more", pa.schema([("level", pa.string())]), properties=bad),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match="min-count-to-merge must be a whole number from 1"):
            attempt()
    assert table.refresh().metadata_location == before


def test_the_location_is_set(table: Table) -> None:
    table.set_location("file:/warehouse/elsewhere")
    assert table.metadata.location == "file:/warehouse/elsewhere"
    table.append([DataFile("file:/in/a.parquet", "PARQUET", 1, 10)])
    assert table.metadata_location.startswith("file:/warehouse/elsewhere/metadata/")


def test_the_folder_of_another_table_is_refused(table: Table, catalog: Catalog) -> None:
    other = catalog.create_table("logging.other", pa.schema([("level", pa.string())]))
    before = table.metadata_location
    with pytest.raises(InvalidInput, match=r"logging\.other"):
        table.set_location(other.metadata.location)
    assert table.refresh().metadata_location == before


def test_the_format_version_is_upgraded_with_rows_that_get_ids(table: Table) -> None:
    table.append([DataFile("file:/in/a.parquet", "PARQUET", 5, 10)])
    table.upgrade_table_version(3)
    table.append([DataFile("file:/in/b.parquet", "PARQUET", 7, 10)])
    head = table.current_snapshot()
    assert head is not None
    assert (head.first_row_id, table.metadata.next_row_id) == (0, 12)
    with pytest.raises(InvalidInput, match="Cannot downgrade v3 table to v2"):
        table.upgrade_table_version(2)


def test_statistics_are_set_and_removed(table: Table) -> None:
    table.append([DataFile("file:/in/a.parquet", "PARQUET", 1, 10)])
    head = table.current_snapshot()
    assert head is not None
    table.set_statistics({"snapshot-id": head.snapshot_id, **STATISTICS})
    table.set_partition_statistics({"snapshot-id": head.snapshot_id, **PARTITION_STATISTICS})
    assert [len(table.metadata.raw[key]) for key in ("statistics", "partition-statistics")] == [1, 1]
    table.remove_statistics(head.snapshot_id)
    table.remove_partition_statistics(head.snapshot_id)
    assert [len(table.metadata.raw[key]) for key in ("statistics", "partition-statistics")] == [0, 0]
    with pytest.raises(InvalidInput, match="no snapshot 5"):
        table.set_statistics({"snapshot-id": 5, **STATISTICS})


def test_all_of_them_are_steps_of_a_transaction(table: Table) -> None:
    before = table.metadata_location
    with table.transaction() as tx:
        tx.upgrade_table_version(3)
        tx.set_properties({"b": "2"})
        tx.remove_properties("a")
        tx.set_location("file:/warehouse/moved")
        tx.update_schema().add_column("v", "variant").commit()
        tx.append([DataFile("file:/in/a.parquet", "PARQUET", 1, 10)])
    assert tx.report is not None
    assert tx.report.previous_metadata_location == before
    assert (table.metadata.format_version, table.metadata.location) == (3, "file:/warehouse/moved")
    assert str(table.schema().fields[-1].type) == "variant"
    assert "a" not in table.properties
    assert table.current_snapshot() is not None


def test_a_replaced_table_is_another_one(table: Table, catalog: Catalog) -> None:
    catalog.drop_table("logging.events")
    catalog.create_table("logging.events", pa.schema([("level", pa.string())]))
    for change in (
        lambda: table.set_properties({"b": "2"}),
        lambda: table.update_schema().add_column("n", "int").commit(),
        lambda: table.upgrade_table_version(3),
    ):
        with pytest.raises(CommitFailed, match="UUID does not match"):
            change()


def test_a_name_that_is_reserved_is_refused(table: Table) -> None:
    with pytest.raises(InvalidInput, match="reserved table properties: uuid"):
        table.remove_properties("uuid")


def test_an_update_without_its_commit_leaves_a_warning_that_names_the_call(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    table.update_schema().add_column("host", "string")
    table.update_spec().add_field("level", "identity").add_field("level", "truncate[2]")
    with table.transaction() as tx:
        tx.update_sort_order().asc("level")
    gc.collect()
    warnings = [each.getMessage() for each in caplog.records if each.name.endswith("builders")]
    assert [each.partition(" dropped")[0] for each in warnings] == [
        "update_schema(): 1 steps were",
        "update_spec(): 2 steps were",
        "update_sort_order(): 1 steps were",
    ]


def test_a_refused_type_or_transform_leaves_no_warning(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    for refused in (
        lambda: table.update_schema().add_column("host", "string").add_column("size", "number"),
        lambda: table.update_schema().add_column("host", "string").update_column("level", "number"),
        lambda: table.update_spec().add_field("level", "identity").add_field("level", "weekly"),
        lambda: table.update_sort_order().asc("level").desc("level", transform="weekly"),
    ):
        with pytest.raises(InvalidInput):
            refused()
    gc.collect()
    assert [each for each in caplog.records if each.name.endswith("builders")] == []


@pytest.mark.parametrize("of", ["boolean", "int", "double", "decimal(9, 2)", "string", "date", "timestamp_ns"])
def test_a_missing_value_is_no_default_no_doc_and_no_property(table: Table, of: str) -> None:
    table.upgrade_table_version(3)
    table.update_schema().add_column("old", of).commit()
    before = table.metadata_location
    for missing in MISSING.values():
        builder = table.update_schema()
        for refused in (
            lambda builder=builder, missing=missing: builder.add_column("new", of, default_value=missing),
            lambda builder=builder, missing=missing: builder.set_default_value("old", missing),
            lambda missing=missing: table.update_schema().add_column("new", of, doc=missing).commit(),
            lambda missing=missing: table.set_properties({"owner": missing}),
        ):
            with pytest.raises(InvalidInput):
                refused()
    assert table.metadata_location == before
