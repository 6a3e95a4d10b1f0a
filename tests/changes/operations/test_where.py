"""A filter of rows is bound to the table as it is."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.where import Where
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.expressions import col
from tests.changes.operations.stored_tables import data_file
from tests.changes.tables import BY_LEVEL, FIELDS, UNPARTITIONED, table


def test_a_filter_finds_its_columns_in_the_current_schema() -> None:
    where = Where(col("id") < 5, table().schema)
    scope = where.scope(table())
    assert str(scope) == "the rows where id < 5"
    assert scope.may_contain(data_file("a", ids=(1, 3)))
    assert not scope.may_contain(data_file("a", ids=(5, 9)))


def test_a_column_that_was_renamed_or_whose_name_another_one_has_is_refused() -> None:
    where = Where((col("id") < 5) | col("level").is_null(), table().schema)
    for fields, says in (
        ([{**FIELDS[0], "name": "number"}, FIELDS[1]], "column id was renamed to number"),
        ([{**FIELDS[0], "name": "number"}, FIELDS[1], {**FIELDS[0], "id": 3}], "column id was renamed to number"),
        ([FIELDS[0], {**FIELDS[1], "id": 3}], r"column level was dropped, and another column has the name now"),
    ):
        with pytest.raises(RequirementFailed, match=says) as caught:
            where.bind(table(schemas=[{"type": "struct", "schema-id": 0, "fields": fields}]))
        assert caught.value.name == "seen-column"


def test_a_column_that_was_widened_serves_as_before() -> None:
    where = Where(col("id") < 5, table(schemas=[ints()]).schema)
    assert not where.bind(table()).may_match(data_file("a", ids=(5, 9)))


def ints() -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, "fields": [{**FIELDS[0], "type": "int"}, FIELDS[1]]}


def test_a_column_of_the_same_transaction_is_found_by_its_name() -> None:
    where = Where(col("level") == "info", table().schema, last_id=1)
    assert where.bind(
        table(schemas=[{"type": "struct", "schema-id": 0, "fields": [FIELDS[0], {**FIELDS[1], "id": 7}]}])
    )


def test_a_filter_that_does_not_fit_what_the_caller_saw_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="there is no column nope"):
        Where(col("nope") == 1, table().schema)


def test_a_filter_that_ignores_case_finds_the_column_that_the_caller_saw() -> None:
    seen, now = table().schema, {**FIELDS[0], "name": "Id"}
    where = Where(col("ID") < 5, seen, case_sensitive=False)
    assert where.scope(table()).may_contain(data_file("a", ids=(1, 3)))
    assert not where.scope(table()).may_contain(data_file("a", ids=(5, 9)))
    assert where.bind(table(schemas=[{"type": "struct", "schema-id": 0, "fields": [now, FIELDS[1]]}]))
    renamed = {**FIELDS[0], "name": "number"}
    with pytest.raises(RequirementFailed, match="column ID was renamed to number"):
        where.bind(table(schemas=[{"type": "struct", "schema-id": 0, "fields": [renamed, FIELDS[1]]}]))
    twice = [now, FIELDS[1], {**FIELDS[0], "id": 3}]
    with pytest.raises(InvalidInput, match="name ID is ambiguous: Id, id"):
        where.bind(table(schemas=[{"type": "struct", "schema-id": 0, "fields": twice}]))
    with pytest.raises(InvalidInput, match="there is no column ID"):
        Where(col("ID") < 5, seen)


def test_one_filter_is_used_for_one_schema() -> None:
    where = Where(col("level") == "info", table().schema)
    first = where.bind(table())
    assert where.bind(table(last_updated_ms=2_000)) is first
    partitioned = table(partition_specs=[UNPARTITIONED, {**BY_LEVEL, "spec-id": 1}], last_partition_id=1000)
    second = where.bind(partitioned)
    assert second is not first
    assert not second.may_match(data_file("a", "warn", spec_id=1))
    assert second.must_match(data_file("a", "info", spec_id=1))
