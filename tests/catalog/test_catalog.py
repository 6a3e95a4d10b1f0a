"""The catalog over fakes of its ports; the same paths run on a real metastore in integration/test_catalog.py."""

import pyarrow as pa
import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    AlreadyExists,
    InvalidInput,
    NoSuchNamespace,
    NoSuchTable,
    NotAnIcebergTable,
    RequirementFailed,
)
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer

SCHEMA = pa.schema([("level", pa.string()), ("event_time", pa.timestamp("us")), ("message", pa.string())])


@pytest.fixture
def pointer():
    return MemoryTablePointer(namespaces=())


@pytest.fixture
def files():
    return MemoryFiles()


@pytest.fixture
def catalog(pointer, files):
    with memory_catalog(pointer=pointer, files=files) as made:
        made.create_namespace("logging")
        yield made


def test_a_namespaces_default_location_is_in_the_warehouse(catalog):
    assert catalog.load_namespace_properties("LOGGING")["location"] == "file:/warehouse/logging.db"
    catalog.create_namespace("elsewhere", {"location": "file:/data/elsewhere", "comment": "c"})
    assert catalog.load_namespace_properties("elsewhere") == {"location": "file:/data/elsewhere", "comment": "c"}
    assert catalog.list_namespaces() == ["elsewhere", "logging"]


def test_what_exists_is_not_created_again(catalog):
    catalog.create_namespace_if_not_exists("new", {"a": "1"})
    catalog.create_namespace_if_not_exists("new", {"a": "2"})
    assert catalog.load_namespace_properties("new")["a"] == "1"
    made = catalog.create_table_if_not_exists("logging.t", pa.schema([("id", pa.int64())]))
    found = catalog.create_table_if_not_exists("logging.t", pa.schema([("other", pa.string())]))
    assert found.metadata.uuid == made.metadata.uuid
    assert [field.name for field in found.schema().fields] == ["id"]


def test_a_table_is_created_in_its_namespaces_location(catalog):
    table = catalog.create_table(
        "logging.Events", SCHEMA, partition_spec=["day(event_time)"], properties={"owner": "me"}
    )
    assert table.name() == TableName("logging", "events")
    assert table.metadata.location == "file:///warehouse/logging.db/events"
    assert table.metadata_location.startswith("file:///warehouse/logging.db/events/metadata/00000-")
    assert [field.name for field in table.spec().fields] == ["event_time_day"]
    assert table.properties["owner"] == "me"
    assert table.current_snapshot() is None
    assert catalog.list_tables("logging") == [TableName("logging", "events")]
    assert catalog.load_table("logging.events").metadata == table.metadata


def test_unique_locations_differ():
    with memory_catalog(unique_table_location=True) as catalog:
        catalog.create_namespace("db")
        first = catalog.create_table("db.t", SCHEMA)
        catalog.drop_table("db.t")
        assert catalog.create_table("db.t", SCHEMA).metadata.location != first.metadata.location


def test_staging_a_table_makes_the_folder_of_its_metadata(catalog, files):
    catalog.stage_table("logging.events", SCHEMA)
    catalog.stage_table("logging.more", SCHEMA, properties={"write.metadata.path": "file:/warehouse/meta/"})
    assert files.folders() == ("/warehouse/logging.db/events/metadata", "/warehouse/meta")


def test_a_refused_staging_and_a_creation_make_no_folder(catalog, files):
    catalog.create_table("logging.events", SCHEMA)
    with pytest.raises(InvalidInput):
        catalog.stage_table("logging.more", SCHEMA, location="file:/warehouse/logging.db/events")
    with pytest.raises(NoSuchNamespace):
        catalog.stage_table("none.t", SCHEMA)
    assert files.folders() == ()


def test_a_taken_name_cannot_be_staged(catalog, files, pointer):
    catalog.create_table("logging.events", SCHEMA)
    pointer.add_hive_table(TableName("logging", "raw"))
    for name in ("logging.events", "logging.Events", "logging.raw"):
        with pytest.raises(AlreadyExists, match=f"Table already exists: {name.lower()}"):
            catalog.stage_table(name, SCHEMA)
    assert files.folders() == ()


def test_staging_a_table_writes_no_file_and_a_commit_creates_it(catalog, files, pointer):
    staged = catalog.stage_table("logging.events", SCHEMA, location="file:/my/place/")
    assert staged.metadata_location is None
    assert staged.metadata.location == "file:/my/place"
    assert files.locations() == ()
    assert not catalog.table_exists("logging.events")
    report = catalog.commit(
        "logging.events",
        [{"type": "assert-create"}],
        [
            {"action": "assign-uuid", "uuid": staged.metadata.uuid},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": staged.metadata.schema.raw},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": staged.metadata.spec.raw},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": staged.metadata.sort_order.raw},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": staged.metadata.location},
        ],
    )
    assert catalog.load("logging.events").metadata == report.metadata
    assert report.metadata.uuid == staged.metadata.uuid


def test_a_commit_takes_the_protocols_shapes(catalog):
    table = catalog.create_table("logging.events", SCHEMA)
    requirement = {"type": "assert-table-uuid", "uuid": table.metadata.uuid}
    report = catalog.commit("logging.events", [requirement], [{"action": "set-properties", "updates": {"a": "b"}}])
    assert report.metadata.properties["a"] == "b"
    assert table.properties.get("a") is None
    assert table.refresh().properties["a"] == "b"
    with pytest.raises(RequirementFailed):
        catalog.commit("logging.events", [{**requirement, "uuid": "another"}], [])
    with pytest.raises(InvalidInput, match="no-such-action"):
        catalog.commit("logging.events", [], [{"action": "no-such-action"}])


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-location", "location": 5},
        {"action": "set-properties", "updates": {"a": 5}},
        {"action": "set-current-schema", "schema-id": 0.0},
        {"action": "upgrade-format-version", "format-version": 3.0},
        {"action": "set-statistics", "statistics": {"snapshot-id": 1, "statistics-path": "file:/s"}},
        {"action": "set-partition-statistics", "partition-statistics": {"snapshot-id": "1"}},
        {"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "timestamp-ms": 1.5, "manifest-list": "file:/l"}},
    ],
    ids=lambda update: update["action"],
)
def test_malformed_updates_are_refused(catalog, pointer, update):
    """Each shape is looked at by the door or where it is applied."""
    catalog.create_table("logging.events", SCHEMA)
    before = dict(pointer.rows)
    with pytest.raises(InvalidInput):
        catalog.commit("logging.events", [], [update])
    assert pointer.rows == before


def test_other_tables_are_not_touched(catalog, pointer):
    name = TableName("logging", "hive")
    pointer.add_hive_table(name)
    before = dict(pointer.rows)
    for call in (
        lambda: catalog.load_table(name),
        lambda: catalog.purge_table(name),
        lambda: catalog.rename_table(name, "logging.other"),
        lambda: catalog.commit(name, [], [{"action": "set-properties", "updates": {"a": "b"}}]),
    ):
        with pytest.raises(NotAnIcebergTable, match="Hive or Spark"):
            call()
    with pytest.raises(AlreadyExists):
        catalog.create_table(name, SCHEMA)
    assert not catalog.table_exists(name)
    assert catalog.list_tables("logging") == []
    assert pointer.rows == before


def test_errors_name_what_is_missing_and_nothing_is_created(catalog, files):
    with pytest.raises(NoSuchTable, match=r"Table does not exist: logging\.none"):
        catalog.load_table("logging.none")
    with pytest.raises(NoSuchNamespace, match="Namespace does not exist: nowhere"):
        catalog.create_table("nowhere.t", SCHEMA)
    with pytest.raises(NoSuchNamespace):
        catalog.list_tables("nowhere")
    with pytest.raises(InvalidInput, match="not a valid name"):
        catalog.create_table("logging.a-b", SCHEMA)
    assert files.locations() == ()


def test_rename_and_register(catalog):
    table = catalog.create_table("logging.events", SCHEMA)
    catalog.create_namespace("archive")
    catalog.rename_table("logging.events", "archive.events_2021")
    assert catalog.load("archive.events_2021").metadata_location == table.metadata_location
    assert not catalog.table_exists("logging.events")
    with pytest.raises(InvalidInput, match=r"that of the table archive\.events_2021"):
        catalog.register_table("logging.again", table.metadata_location)
    catalog.drop_table("archive.events_2021")
    again = catalog.register_table("logging.again", table.metadata_location)
    assert again.metadata == table.metadata
    with pytest.raises(NoSuchNamespace):
        catalog.rename_table("logging.again", "nowhere.t")
    with pytest.raises(NoSuchNamespace):
        catalog.register_table("nowhere.t", table.metadata_location)


def test_the_default_wait_outlives_a_dead_writers_lock(catalog):
    assert catalog.default_wait_seconds == 310.0


def test_callers_can_read_the_row_and_the_manifests(catalog):
    table = catalog.create_table("logging.events", SCHEMA)
    assert catalog.pointer("logging.events").metadata_location == table.metadata_location
    assert catalog.manifests() is not None
