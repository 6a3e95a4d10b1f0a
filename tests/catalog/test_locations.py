from __future__ import annotations

from collections.abc import Mapping

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.locations import NewFolder, namespace_folder, new_folder, new_view_folder
from iceberg_hms.coordinator.ports import OWNED_FOLDER, TableName
from iceberg_hms.errors import InvalidInput, MetastoreUnavailable
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.format.views.samples import schema

NAME = TableName("db", "t")


@pytest.mark.parametrize(
    ("properties", "folder"),
    [
        ({}, "file:///warehouse/db.db"),
        ({"location": "s3://b/db/"}, "s3://b/db"),
        ({"location": ""}, "file:///warehouse/db.db"),
        # ClickHouse refuses the first of these spellings.
        ({"location": "file:/w/db"}, "file:///w/db"),
        ({"location": "FILE:/w/db"}, "file:///w/db"),
        ({"location": "file:///w/db"}, "file:///w/db"),
        ({"location": "file://localhost/w/db"}, "file://localhost/w/db"),
        ({"location": "hdfs:/w/file:/db"}, "hdfs:/w/file:/db"),
        ({"location": "/w/db"}, "/w/db"),
    ],
)
def test_the_folder_of_a_namespace_is_its_own_or_the_warehouses(properties: dict[str, str], folder: str) -> None:
    with memory_catalog(warehouse="file:/warehouse/") as catalog:
        assert namespace_folder(catalog.services, NAME, properties) == folder
        chosen = new_folder(catalog.services, NAME, None, properties, staged=False)
        assert chosen == NewFolder(f"{folder}/t", is_owned=True, is_new=True)


def test_a_folder_that_a_table_has_gets_a_suffix() -> None:
    with memory_catalog() as catalog:
        catalog.create_namespace("db")
        catalog.create_table("db.t", schema())
        catalog.rename_table("db.t", "db.u")
        assert_suffixed(catalog, catalog.load_namespace_properties("db"))


def assert_suffixed(catalog: Catalog, namespace: Mapping[str, str]) -> None:
    found = [new_folder(catalog.services, NAME, None, namespace, staged=False) for _ in range(2)]
    assert len({each.location for each in found}) == 2
    assert all(each.is_owned and each.location.startswith("file:///warehouse/db.db/t-") for each in found)


def test_so_does_a_folder_that_holds_a_file_of_anybody() -> None:
    with memory_catalog() as catalog:
        catalog.create_namespace("db")
        catalog.services.ports.files.write("file:/warehouse/db.db/t/deep/hive.orc", b"")
        assert_suffixed(catalog, catalog.load_namespace_properties("db"))


WANTED = "file:/warehouse/db.db/wanted"


def test_a_wanted_folder_is_taken_as_it_is_spelled() -> None:
    with memory_catalog() as catalog:
        catalog.create_namespace("db")
        for wanted in (WANTED, f"{WANTED}/"):
            assert new_folder(catalog.services, NAME, wanted, {}, staged=False) == NewFolder(WANTED, True)
        assert catalog.create_table("db.t", schema(), location=WANTED).metadata.location == WANTED
        assert catalog.pointer("db.t").parameters[OWNED_FOLDER] == WANTED


def test_a_wanted_folder_that_holds_files_is_taken_and_not_owned() -> None:
    """As one that a client fills itself before its table is there."""
    with memory_catalog() as catalog:
        catalog.create_namespace("db")
        assert new_folder(catalog.services, NAME, WANTED, {}, staged=True) == NewFolder(WANTED, False)
        catalog.services.ports.files.write(f"{WANTED}/hive.orc", b"")
        assert new_folder(catalog.services, NAME, WANTED, {}, staged=False) == NewFolder(WANTED, False)
        catalog.create_table("db.t", schema(), location=WANTED)
        assert not catalog.pointer("db.t").owns_folder


@pytest.mark.parametrize("theirs", [WANTED, f"{WANTED}/deeper", "file:///warehouse//db.db/wanted/"])
@pytest.mark.parametrize("database", ["db", "default"])
def test_a_wanted_folder_of_a_hive_table_is_refused(theirs: str, database: str) -> None:
    pointer = MemoryTablePointer(namespaces=())
    with memory_catalog(pointer=pointer) as catalog:
        catalog.create_namespace("db")
        catalog.create_namespace("default", {"location": "file:/warehouse"})
        pointer.add_hive_table(TableName(database, "hive"), theirs)
        with pytest.raises(InvalidInput, match=rf"that of the table {database}\.hive"):
            catalog.create_table("db.t", schema(), location=WANTED)
        assert new_folder(catalog.services, NAME, WANTED, {}, staged=True) == NewFolder(WANTED, False)


def test_a_wanted_folder_is_not_owned_where_there_was_no_time_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object, **__: object) -> None:
        raise MetastoreUnavailable("too many tables")

    monkeypatch.setattr(MemoryTablePointer, "folders_in", slow)
    with memory_catalog() as catalog:
        catalog.create_namespace("db")
        catalog.create_table("db.t", schema(), location=WANTED)
        assert OWNED_FOLDER not in catalog.pointer("db.t").parameters


def test_a_view_always_has_a_folder_of_its_own() -> None:
    with memory_catalog() as catalog:
        found = {new_view_folder(catalog.services, NAME, {"location": "s3://b/db"}) for _ in range(2)}
    assert len(found) == 2
    assert all(each.startswith("s3://b/db/t-") for each in found)


def test_every_folder_gets_one_if_the_setting_says_so() -> None:
    with memory_catalog(unique_table_location=True) as catalog:
        assert_suffixed(catalog, {})
