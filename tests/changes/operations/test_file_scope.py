"""The part of a table in which changes by others conflict with an operation."""

from __future__ import annotations

from iceberg_hms.changes.operations.file_scope import MatchingRows, Partitions, WholeTable
from iceberg_hms.changes.partition_set import PartitionSet
from iceberg_hms.format.updates.apply import apply
from tests.changes.operations.stored_tables import StoredTable, data_file, equality_deletes, position_deletes
from tests.changes.operations.test_append import NOW
from tests.changes.operations.test_manifest_filter import Rows


def test_the_whole_table_has_every_file() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    assert WholeTable().may_contain(data_file("x"))
    assert WholeTable().may_contain_manifest(stored.state().manifests[0])
    assert str(WholeTable()) == "the table"


def test_rows_that_may_match_a_filter() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    scope = MatchingRows(Rows("a", partly=("b",), manifest=lambda _: False), "id < 5")
    assert [scope.may_contain(data_file(name)) for name in "abc"] == [True, True, False]
    assert not scope.may_contain_manifest(stored.state().manifests[0])
    assert str(scope) == "the rows where id < 5"


def test_partitions_have_their_own_deletes_and_equality_deletes_of_the_whole_table() -> None:
    stored = StoredTable(partitioned=True)
    spec = {"spec-id": 1, "fields": []}
    stored.metadata = apply(stored.metadata, [{"action": "add-spec", "spec": spec}], now_ms=NOW)
    scope = Partitions(PartitionSet([data_file("x", "info")]), stored.metadata)
    assert scope.may_contain(data_file("a", "info"))
    assert scope.may_contain(position_deletes("p", "info"))
    assert scope.may_contain(equality_deletes("e", "info"))
    assert scope.may_contain(equality_deletes("e", spec_id=1)), "it applies to every partition"
    for other in (data_file("a", "warn"), position_deletes("p", spec_id=1), equality_deletes("e", "warn")):
        assert not scope.may_contain(other)
    stored.append(100, data_file("a", "warn"))
    stored.foreign(101, "delete", equality_deletes("e", spec_id=1))
    assert [scope.may_contain_manifest(each) for each in stored.state().manifests] == [True, False]
    assert str(scope) == "one partition"
