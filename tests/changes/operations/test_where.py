"""A filter of rows is bound to the table as it is."""

from __future__ import annotations

from iceberg_hms.changes.operations.where import Where
from tests.changes.operations.stored_tables import data_file
from tests.changes.operations.test_manifest_filter import Rows
from tests.changes.tables import table


def test_a_scope_is_bound_to_the_table_that_it_is_asked_for() -> None:
    where = Where("id < 5", lambda base: Rows("a" if base.format_version == 2 else "b"))
    assert where.scope(table(2)).may_contain(data_file("a"))
    assert not where.scope(table(3)).may_contain(data_file("a"))
    assert str(where.scope(table(2))) == "the rows where id < 5"
