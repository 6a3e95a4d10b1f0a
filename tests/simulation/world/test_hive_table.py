from __future__ import annotations

from iceberg_hms.metastore.tables.parameters import ICEBERG, TABLE_TYPE
from simulation.world.hive_table import HIVE, hive_table_row, is_hive


def test_it_begins_as_a_hive_table_and_can_become_another() -> None:
    row = hive_table_row()
    assert (row.dbName, row.tableName) == (HIVE.namespace, HIVE.name)
    assert is_hive(row)
    row.parameters[TABLE_TYPE] = ICEBERG
    assert not is_hive(row)
    assert is_hive(hive_table_row()), "each row is its own"
