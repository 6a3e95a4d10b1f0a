"""Data files that an operation adds; how an append uses them is in test_append.py."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles, check_bounds
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import PrimitiveType, parse_type
from iceberg_hms.format.schema.values import to_bytes
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.operations.files.test_append import data_file
from tests.changes.tables import BY_LEVEL, UNPARTITIONED, table

BOTH_SPECS = [UNPARTITIONED, {**BY_LEVEL, "spec-id": 1}]


def added(*files: DataFile, specs: tuple[int, ...] = (0,), **changes: Any) -> NewDataFiles:
    return NewDataFiles(files, snapshot_id=100, schema_id=0, schema=None, specs=dict.fromkeys(specs), **changes)


def test_files_of_several_specs_get_manifests_of_their_own() -> None:
    manifests = MemoryManifestStore().open()
    base = table(partition_specs=BOTH_SPECS, last_partition_id=1000)
    new = added(data_file("a", "info", spec_id=1), data_file("b"), data_file("c", "warn", spec_id=1), specs=(0, 1))
    new.check(base)
    written = new.manifests(base, manifests)
    assert [(each.partition_spec_id, each.added_files_count) for each in written] == [(0, 1), (1, 2)]
    assert new.manifests(base, manifests) is written, "a replay writes none again"


def test_a_rewrite_states_the_sequence_number_that_its_rows_had() -> None:
    manifests = MemoryManifestStore().open()
    (written,) = added(data_file("a"), sequence_number=4).manifests(table(), manifests)
    (entry,) = manifests.entries([written])
    assert (entry.sequence_number, entry.file_sequence_number) == (4, None)
    assert written.min_sequence_number == 4


def test_a_spec_that_was_removed_is_named() -> None:
    with pytest.raises(RequirementFailed, match="spec 1 was removed") as caught:
        added(data_file("a", "info", spec_id=1), specs=(1,)).check(table())
    assert caught.value.name == "files-spec"


def test_a_file_of_a_spec_that_the_operation_is_not_for_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"a.parquet was made for partition spec 1, the operation is for 0"):
        added(data_file("a", "info", spec_id=1))


def test_bounds_outside_the_partition_are_refused_for_the_files_own_spec() -> None:
    base = table(partition_specs=BOTH_SPECS, last_partition_id=1000)
    bounds = {"lower_bounds": {2: b"debug"}, "upper_bounds": {2: b"error"}}
    added(data_file("a", **bounds)).check(base)
    with pytest.raises(InvalidInput, match=r"a\.parquet is in partition level='info'"):
        added(data_file("a", "info", spec_id=1, **bounds), specs=(0, 1)).check(base)


DAY = 86_400_000_000


def check(of: str, low: Any, high: Any, transform: str | None = None, value: Any = None) -> None:
    """A file with these bounds of one column, in a partition by a transform of it."""
    column = {"id": 1, "name": "c", "required": False, "type": of}
    schema = Schema.parse({"type": "struct", "schema-id": 0, "fields": [column]})
    fields = [{"name": "p", "transform": transform, "source-id": 1, "field-id": 1000}] if transform else []
    kind = parse_type(of)
    assert isinstance(kind, PrimitiveType)
    lower, upper = ({} if bound is None else {1: to_bytes(kind, bound)} for bound in (low, high))
    partition = {"p": value} if transform else {}
    file = DataFile("file:/data/a.parquet", "PARQUET", 1, 10, partition, lower_bounds=lower, upper_bounds=upper)
    check_bounds(file, schema, PartitionSpec.parse({"spec-id": 0, "fields": fields}))


@pytest.mark.parametrize(("low", "high"), [(4, 4), (-1, 1), (5, None), (None, 4)])
def test_bounds_that_a_value_is_within_pass(low: int | None, high: int | None) -> None:
    check("long", low, high)


def test_bounds_that_no_value_is_within_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"a\.parquet has bounds of c that no value is within: 5 to 4"):
        check("long", 5, 4)


INSIDE = [
    ("int", 7, 7, "identity", 7),
    ("int", None, None, "identity", 7),
    ("int", None, 7, "identity", 7),
    ("int", None, None, "identity", None),
    ("int", 11, 19, "truncate[10]", 10),
    ("decimal(9, 2)", Decimal("1.50"), Decimal("1.50"), "identity", Decimal("1.50")),
    ("timestamp", DAY, 2 * DAY - 1, "day", 1),
    ("date", 1, 30, "month", 0),
    ("double", -0.0, 0.0, "identity", 0.0),
    ("double", None, None, "identity", float("nan")),
    ("string", "a long tex", "a long tey", "identity", "a long text"),
    ("string", "abc", "abd", "truncate[5]", "abcde"),
    ("int", 1, 9, "bucket[4]", 3),
    ("int", 34, 34, "bucket[16]", 3),
    ("int", 1, 9, "void", None),
    ("int", 1, 9, "of-another-release", 5),
]
OUTSIDE = [
    ("int", 7, 7, "identity", 8),
    ("int", 7, 8, "identity", 7),
    ("int", 8, None, "identity", 7),
    ("int", None, 6, "identity", 7),
    ("int", 7, 7, "identity", None),
    ("int", 11, 20, "truncate[10]", 10),
    ("timestamp", DAY, 2 * DAY, "day", 1),
    ("timestamp", 3 * DAY, 3 * DAY, "day", 1),
    ("double", 1.0, 1.0, "identity", float("nan")),
    ("string", "b", "c", "identity", "a long text"),
    ("string", "a", "a long", "identity", "a long text"),
    ("int", 34, 34, "bucket[16]", 4),
]


@pytest.mark.parametrize(("of", "low", "high", "transform", "value"), INSIDE)
def test_bounds_of_rows_that_may_be_in_the_partition_pass(
    of: str, low: Any, high: Any, transform: str, value: Any
) -> None:
    check(of, low, high, transform, value)


@pytest.mark.parametrize(("of", "low", "high", "transform", "value"), OUTSIDE)
def test_bounds_of_rows_that_are_in_another_partition_are_refused(
    of: str, low: Any, high: Any, transform: str, value: Any
) -> None:
    with pytest.raises(InvalidInput, match=r"a\.parquet is in partition p=.* and its bounds of c are") as caught:
        check(of, low, high, transform, value)
    assert "one file for each partition" in caught.value.next_step
