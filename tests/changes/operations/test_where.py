"""A filter of rows is bound to the table as it is."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.where import Where
from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions import col
from tests.changes.operations.stored_tables import data_file
from tests.changes.tables import BY_LEVEL, FIELDS, UNPARTITIONED, table


def renamed(name: str) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, "fields": [{**FIELDS[0], "name": name}, FIELDS[1]]}


def test_a_filter_finds_its_columns_in_the_current_schema() -> None:
    where = Where(col("id") < 5)
    scope = where.scope(table())
    assert str(scope) == "the rows where id < 5"
    assert scope.may_contain(data_file("a", ids=(1, 3)))
    assert not scope.may_contain(data_file("a", ids=(5, 9)))
    with pytest.raises(InvalidInput, match="id"):
        where.bind(table(schemas=[renamed("number")]))


def test_one_filter_is_used_for_one_schema() -> None:
    where = Where(col("level") == "info")
    first = where.bind(table())
    assert where.bind(table(last_updated_ms=2_000)) is first
    partitioned = table(partition_specs=[UNPARTITIONED, {**BY_LEVEL, "spec-id": 1}], last_partition_id=1000)
    second = where.bind(partitioned)
    assert second is not first
    assert not second.may_match(data_file("a", "warn", spec_id=1))
    assert second.must_match(data_file("a", "info", spec_id=1))
