"""Partitions, read in pages of names."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException, Partition
from thrift.Thrift import TApplicationException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.connection.faults import Fault, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import StorageDescriptor, extended
from iceberg_hms.metastore.tables.partitions import PARTITIONS_PER_CALL, PartitionRows
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from tests.metastore.fake_hms import FakeHms
from tests.metastore.tables.test_hive_tables import SETTINGS
from tests.metastore.tables.test_table_pointer import hive_row

NAME = TableName("db", "t")
#: As the metastore words it (HiveMetaStore.checkLimitNumberOfPartitions).
TOO_MANY = (
    "Number of partitions scanned (={}) on table 't' exceeds limit (={}). This is controlled on the metastore server "
    "by metastore.limit.partition.request."
)


def has(hms: FakeHms, count: int) -> list[str]:
    names = [f"p={number:04}" for number in range(count)]
    hms.partitions[NAME] = {
        each: extended(Partition)(values=[each[2:]], sd=StorageDescriptor(location=f"file:/{each}")) for each in names
    }
    return names


def limited(hms: FakeHms, limit: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many partitions were asked for."""
    asked: list[int] = []
    answer: Callable[..., Any] = hms.get_partitions_by_names

    def get_partitions_by_names(db_name: str, tbl_name: str, names: list[str]) -> Any:
        asked.append(len(names))
        if len(names) > limit:
            raise MetaException(TOO_MANY.format(len(names), limit))
        return answer(db_name, tbl_name, names)

    monkeypatch.setattr(hms, "get_partitions_by_names", get_partitions_by_names)
    return asked


@pytest.mark.parametrize("count", [0, 1, 3, 100, PARTITIONS_PER_CALL, 2 * PARTITIONS_PER_CALL + 1])
@pytest.mark.parametrize("limit", [1, 3, 100, PARTITIONS_PER_CALL])
def test_all_partitions_are_read_whatever_the_server_s_limit(
    hms: FakeHms, pool: ClientPool, monkeypatch: pytest.MonkeyPatch, count: int, limit: int
) -> None:
    names = has(hms, count)
    asked = limited(hms, limit, monkeypatch)
    partitions = PartitionRows(pool)
    assert partitions.names(NAME) == names
    assert [f"p={each.values[0]}" for each in partitions.records(NAME, names)] == names
    refused = sum(each > limit for each in asked)
    assert refused <= 9
    asked.clear()
    assert len(list(partitions.records(NAME, names))) == count
    assert max(asked, default=0) <= limit, "what the server refused is asked for once"


def test_a_page_of_one_that_is_refused_is_an_error(
    hms: FakeHms, pool: ClientPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = has(hms, 5)
    asked = limited(hms, 0, monkeypatch)
    with pytest.raises(ServerFault) as caught:
        list(PartitionRows(pool).records(NAME, names))
    assert caught.value.fault is Fault.TOO_MANY_PARTITIONS
    assert "hive.metastore.limit.partition.request" in caught.value.next_step
    assert asked == [5, 2, 1]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_table_that_is_gone_has_no_partitions_whatever_the_server_says_of_it(
    hms: FakeHms, pool: ClientPool, is_there: bool
) -> None:
    if is_there:
        hms.rows[NAME] = hive_row(NAME, {}, location="file:/w/t")
    # As 2.3.10 answers for a table that is not there.
    hms.misbehave["get_partition_names"].extend(
        [TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error")] * 9
    )
    folders = HmsTablePointer(pool, SETTINGS).partition_folders(NAME, timeout_seconds=60)
    if is_there:
        with pytest.raises(MetastoreError):
            list(folders)
    else:
        assert list(folders) == []


def test_the_caller_is_asked_before_each_page(hms: FakeHms, pool: ClientPool) -> None:
    names = has(hms, 2 * PARTITIONS_PER_CALL)
    pages: list[int] = []

    def stop_at_the_second() -> None:
        pages.append(len(pages))
        if len(pages) == 2:
            raise TimeoutError

    found: list[Any] = []
    with pytest.raises(TimeoutError):
        found.extend(chain(PartitionRows(pool).records(NAME, names, stop_at_the_second)))
    assert hms.calls.count("get_partitions_by_names") == 1
