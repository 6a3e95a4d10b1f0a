"""The part of a table in which changes by others conflict with an operation; filters bound to the table as it is."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.manifests.file_scope import EveryRow, Partitions, Where
from iceberg_hms.changes.partition_set import PartitionSet
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.expressions import col
from iceberg_hms.format.updates.apply import apply
from tests.changes.operations.files.test_append import NOW
from tests.changes.operations.stored_tables import StoredTable, data_file, equality_deletes, position_deletes
from tests.changes.tables import BY_LEVEL, FIELDS, UNPARTITIONED, table


def test_every_row_is_in_every_file() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    rows = EveryRow().bind(stored.metadata)
    assert rows.may_match(data_file("x"))
    assert rows.must_match(data_file("x"))
    assert rows.may_match_manifest(stored.state().manifests[0])
    assert (str(rows), rows.text) == ("the table", "all rows")


def test_partitions_have_their_own_deletes_and_equality_deletes_of_the_whole_table() -> None:
    stored = StoredTable(partitioned=True)
    spec = {"spec-id": 1, "fields": []}
    stored.metadata = apply(stored.metadata, [{"action": "add-spec", "spec": spec}], now_ms=NOW)
    scope = Partitions(PartitionSet([data_file("x", "info")]), stored.metadata)
    assert scope.may_match(data_file("a", "info"))
    assert scope.may_match(position_deletes("p", "info"))
    assert scope.may_match(equality_deletes("e", "info"))
    assert scope.may_match(equality_deletes("e", spec_id=1)), "it applies to every partition"
    for other in (data_file("a", "warn"), position_deletes("p", spec_id=1), equality_deletes("e", "warn")):
        assert not scope.may_match(other)
    stored.append(100, data_file("a", "warn"))
    stored.foreign(101, "delete", equality_deletes("e", spec_id=1))
    assert [scope.may_match_manifest(each) for each in stored.state().manifests] == [True, False]
    assert str(scope) == "one partition"


def test_a_filter_finds_its_columns_in_the_current_schema() -> None:
    where = Where(col("id") < 5, table().schema)
    scope = where.bind(table())
    assert str(scope) == "the rows where id < 5"
    assert scope.may_match(data_file("a", ids=(1, 3)))
    assert not scope.may_match(data_file("a", ids=(5, 9)))


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
    assert where.bind(table()).may_match(data_file("a", ids=(1, 3)))
    assert not where.bind(table()).may_match(data_file("a", ids=(5, 9)))
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
