"""Filters judged on columns: the answers of `FileFilter`, for all files at once."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions import ALWAYS_FALSE, ALWAYS_TRUE, Expression, parse
from iceberg_hms.expressions.binding import bind
from iceberg_hms.expressions.file_filter import FileFilter
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry
from iceberg_hms.format.manifests.manifest_writer import ManifestSummary
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import Day, IdentityTransform, Truncate
from iceberg_hms.planning.column_filter import ColumnFilter
from tests.planning.batches import batch_of_files
from tests.planning.drawn import SCHEMA, drawn_files, drawn_filters, drawn_specs


def answers(where: Expression, files: Sequence[DataFile], spec: PartitionSpec, schema: Schema) -> list[bool]:
    judged = ColumnFilter(where, schema, {spec.spec_id: spec})
    found = judged.matching(batch_of_files(files, spec, schema), spec.spec_id)
    return [True] * len(files) if found is None else found.to_pylist()


def expected(where: Expression, files: Sequence[DataFile], spec: PartitionSpec, schema: Schema) -> list[bool]:
    judged = FileFilter(bind(where, schema), {spec.spec_id: spec}, "the filter")
    return [judged.may_match(each) for each in files]


@given(st.data())
@settings(max_examples=200)
def test_a_column_of_files_is_judged_as_each_file_is(data: st.DataObject) -> None:
    where = data.draw(drawn_filters())
    spec = data.draw(drawn_specs(where))
    files = data.draw(drawn_files(spec, where))
    assert answers(where, files, spec, SCHEMA) == expected(where, files, spec, SCHEMA)


LOGS = Schema.parse(
    {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "level", "required": False, "type": "string"},
            {"id": 2, "name": "time", "required": False, "type": "timestamp"},
            {"id": 3, "name": "n", "required": True, "type": "long"},
        ],
    }
)
BY_DAY = PartitionSpec.of(
    [PartitionField(2, 1000, Day(), "day"), PartitionField(1, 1001, IdentityTransform(), "level")], spec_id=1
)


def of_partition(day: int | None, level: str | None = None, **changes: Any) -> DataFile:
    return DataFile("file:/f", "PARQUET", 10, 10, {"day": day, "level": level}, spec_id=1, **changes)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("time >= '2021-04-01' and time < '2021-04-02'", [True, False, False]),
        ("time <> '2021-04-01T00:00:00'", [True, True, False]),
        ("time is null", [False, False, True]),
        ("level = 'E'", [True, False, False]),
        ("level = 'E' or time < '2000-01-01'", [True, False, False]),
        ("level = 'E' and time > '2021-04-02'", [False, False, False]),
        ("level = 'W' or time is null", [False, True, True]),
        ("day(time) = date '2021-04-02'", [False, True, False]),
        ("bucket(4, level) = 1", [True, True, False]),
    ],
)
def test_partitions_decide(where: str, expected: list[bool]) -> None:
    files = [of_partition(18718, "E"), of_partition(18719, "W"), of_partition(None)]
    assert answers(parse(where), files, BY_DAY, LOGS) == expected


def test_partitions_and_bounds_both_rule_out() -> None:
    low, high = {3: struct.pack("<q", 1)}, {3: struct.pack("<q", 5)}
    files = [
        of_partition(18718, "E", lower_bounds=low, upper_bounds=high),
        of_partition(18718, "W", lower_bounds=low, upper_bounds=high),
        of_partition(18718, "E", lower_bounds=high),
        of_partition(18718, "W"),
    ]
    assert answers(parse("level = 'E' and n = 3"), files, BY_DAY, LOGS) == [True, False, False, False]
    assert answers(parse("level = 'W' or n = 9"), files, BY_DAY, LOGS) == [False, True, True, True]
    by_n = PartitionSpec.of([PartitionField(3, 1000, Truncate(10), "n")], spec_id=1)
    files = [replace(each, partition={"n": n}) for each, n in zip(files, (0, 0, 10, 0), strict=True)]
    assert answers(parse("n = 7"), files, by_n, LOGS) == [False, False, False, True]


def test_times_before_1970_allow_for_partitions_that_older_writers_got_wrong() -> None:
    files = [of_partition(day) for day in (-2, -1, 0, 1)]
    assert answers(parse("time = '1969-12-31T10:00:00'"), files, BY_DAY, LOGS) == [False, True, True, False]


def test_a_partition_decides_what_is_said_of_its_own_transform() -> None:
    """As in Java. Spark asks no row again, so that a partition too many would be rows too many."""
    files = [of_partition(day) for day in (-2, -1, 0, 1)]
    assert answers(parse("day(time) = -1"), files, BY_DAY, LOGS) == [False, True, False, False]
    assert answers(parse("day(time) <> -1"), files, BY_DAY, LOGS) == [True, False, True, True]


def test_a_partition_column_that_a_batch_lacks_proves_nothing() -> None:
    judged = ColumnFilter(parse("level = 'E'"), LOGS, {1: BY_DAY})
    batch = batch_of_files([of_partition(1, "E"), of_partition(1)], BY_DAY, LOGS)
    assert judged.matching(batch.drop_columns(["partition.1001"]), 1) is None
    found = judged.matching(batch, 1)
    assert found is not None
    assert found.to_pylist() == [True, False]


def test_a_spec_that_is_gone_proves_nothing() -> None:
    judged = ColumnFilter(parse("level = 'E'"), LOGS, {1: BY_DAY})
    assert judged.matching(batch_of_files([of_partition(1, "W")], BY_DAY, LOGS), 7) is None


def test_a_filter_of_all_or_no_rows_needs_no_column() -> None:
    batch = batch_of_files([of_partition(1), of_partition(2)], BY_DAY, LOGS)
    everything, nothing = (ColumnFilter(each, LOGS, {1: BY_DAY}) for each in (ALWAYS_TRUE, ALWAYS_FALSE))
    assert everything.matching(batch, 1) is None
    found = nothing.matching(batch, 1)
    assert found is not None
    assert found.to_pylist() == [False, False]
    assert everything.stats == nothing.stats == frozenset()


def test_a_filter_names_the_columns_whose_metrics_it_reads() -> None:
    assert ColumnFilter(parse("level = 'E' and not (time is null or n = 1)"), LOGS, {}).stats == {1, 2, 3}
    assert ColumnFilter(parse("level = 'E' and n is not null"), LOGS, {}).stats == {1}, "none of what is always so"


def test_manifests_are_judged_by_what_their_list_sums_up() -> None:
    summary = ManifestSummary(BY_DAY.partition_type(LOGS))
    summary.add(ManifestEntry(EntryStatus.ADDED, of_partition(18718, "E"), snapshot_id=1))
    manifest = summary.manifest_file("file:/m", 10, 1, 1)
    assert ColumnFilter(parse("level = 'E'"), LOGS, {1: BY_DAY}).by_file.may_match_manifest(manifest)
    assert not ColumnFilter(parse("level = 'W'"), LOGS, {1: BY_DAY}).by_file.may_match_manifest(manifest)


def test_a_filter_that_does_not_fit_the_schema_is_refused() -> None:
    with pytest.raises(InvalidInput, match="there is no column LEVEL"):
        ColumnFilter(parse("LEVEL = 'E'"), LOGS, {})
    assert ColumnFilter(parse("LEVEL = 'E'"), LOGS, {}, case_sensitive=False).stats == {1}


def test_a_manifest_without_files_has_no_answers() -> None:
    judged = ColumnFilter(parse("level = 'E' and n in (1, 2, 3, 4, 5)"), LOGS, {1: BY_DAY})
    batch = batch_of_files([of_partition(1, "E")], BY_DAY, LOGS).slice(0, 0)
    found = judged.matching(batch, 1)
    assert found is None or len(found) == 0
