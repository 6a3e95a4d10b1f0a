"""A table object: the state that it has, and how it follows the table."""

import pytest

from iceberg_hms.errors import NoSuchTable
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@pytest.fixture
def catalog():
    with memory_catalog() as made:
        made.create_namespace("logging")
        yield made


@pytest.fixture
def table(catalog):
    return catalog.create_table("logging.events", SCHEMA, properties={"owner": "ops"})


def data_file(name):
    return DataFile(f"file:/in/{name}.parquet", "PARQUET", 1, 10)


def test_a_new_table_has_its_schema_and_properties_and_no_snapshot(table):
    assert [field.name for field in table.schema.fields] == ["id"]
    assert table.spec.fields == ()
    assert table.properties["owner"] == "ops"
    assert (table.current_snapshot, table.snapshots(), table.history()) == (None, [], [])
    assert repr(table) == f"Table(logging.events, {table.metadata_location})"


def test_a_commit_brings_its_table_object_to_the_state_that_it_left(table):
    before = table.metadata_location
    report = table.append([data_file("a")])
    assert table.metadata_location == report.metadata_location != before
    assert table.current_snapshot.snapshot_id == report.snapshot_ids[0]
    assert [each.snapshot_id for each in table.snapshots()] == list(report.snapshot_ids)
    assert [each["snapshot-id"] for each in table.history()] == list(report.snapshot_ids)


def test_another_object_of_the_table_follows_when_it_is_refreshed(table, catalog):
    other = catalog.load_table("logging.events")
    table.append([data_file("a")])
    assert other.current_snapshot is None
    assert other.refresh().current_snapshot == table.current_snapshot


def test_a_dropped_table_cannot_be_refreshed(table, catalog):
    catalog.drop_table("logging.events")
    with pytest.raises(NoSuchTable):
        table.refresh()
