from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Partition

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, StorageDescriptor, extended
from iceberg_hms.metastore.tables.hive_tables import HmsHiveTables
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.testing.contracts.hive_tables import CHECKS, Check, HivePlace
from tests.metastore.fake_hms import FakeHms
from tests.metastore.tables.test_table_pointer import hive_row

SETTINGS = Settings.load({}, environ={})


@pytest.mark.parametrize("filters", [True, False], ids=["filters", "reads all rows"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_hive_tables_keep_the_contract(check: Check, filters: bool, hms: FakeHms, pool: ClientPool) -> None:
    hms.filter_works = filters
    hms.add_database("other")

    def add(
        name: TableName,
        location: str,
        table_type: str = "MANAGED_TABLE",
        parameters: Mapping[str, str] | None = None,
        partitions: Sequence[str] = (),
    ) -> None:
        marks = {"EXTERNAL": "TRUE"} if table_type == "EXTERNAL_TABLE" else {}
        changed = {"transient_lastDdlTime": "1700000000"}
        row = hive_row(name, {**changed, **(parameters or {}), **marks}, table_type, location)
        row.partitionKeys = [FieldSchema(name="p", type="string")] if partitions else []
        hms.rows[name] = row
        hms.partitions[name] = {
            f"p={number}": extended(Partition)(values=[str(number)], sd=StorageDescriptor(location=each))
            for number, each in enumerate(partitions)
        }

    check(
        HmsHiveTables(pool, SETTINGS),
        HmsTablePointer(pool, SETTINGS),
        HivePlace("db", "other", "file:/w", add),
    )


def test_a_view_of_hive_has_no_files(hms: FakeHms, pool: ClientPool) -> None:
    hms.rows[TableName("db", "v")] = hive_row(TableName("db", "v"), {}, "VIRTUAL_VIEW", "file:/w/v")
    assert HmsHiveTables(pool, SETTINGS).load(TableName("db", "v")) is None
