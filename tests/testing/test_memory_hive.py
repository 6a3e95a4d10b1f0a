from __future__ import annotations

import pytest

from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.testing.contracts.hive_tables import CHECKS, Check, HivePlace
from iceberg_hms.testing.memory_hive import MemoryHiveTables
from iceberg_hms.testing.memory_pointer import MemoryTablePointer


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_tables_in_memory_keep_the_contract(check: Check) -> None:
    tables = MemoryTablePointer({"db", "other"})
    hive = MemoryHiveTables(tables)
    check(hive, tables, HivePlace("db", "other", "file:/w/db", hive.add))


def test_a_slow_search_runs_out_of_time() -> None:
    hive = MemoryHiveTables(MemoryTablePointer({"db"}))
    hive.slow = True
    with pytest.raises(MetastoreUnavailable):
        list(hive.iceberg_tables("db", timeout_seconds=10))
