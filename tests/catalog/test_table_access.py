"""What a catalog and its tables share; forked children are tested in tests/test_assembly.py."""

import pytest

from iceberg_hms.catalog.table_access import TableAccess
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import NoSuchTable
from iceberg_hms.testing.memory_catalog import memory_catalog

SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "n", "type": "long", "required": False}]}
TABLE = TableName("db", "t")


@pytest.fixture
def catalog():
    with memory_catalog(lock_timeout_ms=5_000) as made:
        made.create_namespace("db")
        yield made


@pytest.fixture
def access(catalog):
    return TableAccess(lambda: catalog.services)


def test_services_are_made_at_once_and_only_once_in_a_process(catalog):
    made = []

    def make():
        made.append(1)
        return catalog.services

    access = TableAccess(make)
    assert access.services is access.services is catalog.services
    assert len(made) == 1


def test_a_load_sees_every_earlier_commit(catalog, access):
    assert not access.exists(TABLE)
    with pytest.raises(NoSuchTable):
        access.load(TABLE)
    table = catalog.create_table("db.t", SCHEMA)
    assert access.exists(TABLE)
    loaded = access.load(TABLE)
    assert (loaded.name, loaded.metadata_location) == (TABLE, table.metadata_location)
    report = catalog.commit("db.t", [], [{"action": "set-properties", "updates": {"a": "b"}}])
    assert access.load(TABLE).metadata_location == report.metadata_location


def test_a_commit_waits_as_long_as_its_caller_or_the_settings_say(access):
    assert access.wait_seconds(None) == access.default_wait_seconds == 5
    assert access.wait_seconds(0.5) == 0.5
