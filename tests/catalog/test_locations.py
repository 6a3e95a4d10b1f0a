from __future__ import annotations

import pytest

from iceberg_hms.catalog.locations import namespace_folder, new_folder, new_view_folder
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.testing.memory_catalog import memory_catalog
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
        assert new_folder(catalog.services, NAME, properties) == f"{folder}/t"


def test_a_folder_that_a_table_has_gets_a_suffix() -> None:
    with memory_catalog() as catalog:
        catalog.create_namespace("db")
        catalog.create_table("db.t", schema())
        catalog.rename_table("db.t", "db.u")
        found = {new_folder(catalog.services, NAME, catalog.load_namespace("db")) for _ in range(2)}
    assert len(found) == 2
    assert all(each.startswith("file:///warehouse/db.db/t-") for each in found)


def test_a_view_always_has_a_folder_of_its_own() -> None:
    with memory_catalog() as catalog:
        found = {new_view_folder(catalog.services, NAME, {"location": "s3://b/db"}) for _ in range(2)}
    assert len(found) == 2
    assert all(each.startswith("s3://b/db/t-") for each in found)


def test_every_folder_gets_one_if_the_setting_says_so() -> None:
    with memory_catalog(unique_table_location=True) as catalog:
        assert new_folder(catalog.services, NAME, {}).startswith("file:///warehouse/db.db/t-")
