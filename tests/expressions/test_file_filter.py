"""What partitions and bounds prove must be so for the rows themselves."""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.datafiles.column_bounds import lower_bound, upper_bound
from iceberg_hms.expressions import col, parse
from iceberg_hms.expressions.binding import Bound, BoundAnd, BoundOr, BoundPredicate, bind
from iceberg_hms.expressions.expression import ALWAYS_TRUE, Expression, Operator
from iceberg_hms.expressions.file_filter import FileFilter
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry
from iceberg_hms.format.manifests.manifest_writer import ManifestSummary
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import parse_transform
from tests.expressions.rows import matches

TYPES = [
    "int",
    "long",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamptz",
    "decimal(6,2)",
    "uuid",
    "boolean",
]
SCHEMA = Schema.parse(
    {
        "type": "struct",
        "fields": [
            {"id": at + 1, "name": kind.partition("(")[0], "required": False, "type": kind}
            for at, kind in enumerate(TYPES)
        ],
    }
)
TRANSFORMS = {
    "int": ("identity", "bucket[4]", "truncate[10]"),
    "long": ("identity", "bucket[4]", "truncate[10]"),
    "double": ("identity",),
    "string": ("identity", "bucket[4]", "truncate[2]"),
    "binary": ("identity", "bucket[4]", "truncate[2]"),
    "date": ("identity", "bucket[4]", "year", "month", "day"),
    "timestamp": ("identity", "year", "month", "day", "hour"),
    "timestamptz": ("bucket[4]", "year", "month", "day", "hour"),
    "decimal": ("identity", "bucket[4]", "truncate[50]"),
    "uuid": ("identity", "bucket[4]"),
    "boolean": ("identity", "void"),
}
DAY = 86_400_000_000
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-30, 30) | st.sampled_from([-(2**31) + 8, 2**31 - 1]),
    "long": st.integers(-30, 30) | st.sampled_from([-(2**63) + 8, 2**63 - 1]),
    "double": st.sampled_from([-1.5, -0.0, 0.0, 1.0, 2.5, math.nan, math.inf]),
    "string": st.text("abc\U0001f600", max_size=4),
    "binary": st.binary(max_size=3),
    "date": st.integers(-800, 800),
    "timestamp": st.integers(-800, 800).map(lambda days: days * DAY // 3),
    "timestamptz": st.integers(-800, 800).map(lambda days: days * DAY // 3),
    "decimal": st.integers(-300, 300).map(lambda digits: values.from_unscaled(digits, 2)),
    "uuid": st.integers(0, 3).map(lambda number: uuid.UUID(int=number << 126)),
    "boolean": st.booleans(),
}


@st.composite
def specs(draw: st.DrawFn) -> PartitionSpec:
    columns = draw(st.lists(st.sampled_from(list(TRANSFORMS)), max_size=3))
    fields = []
    for at, name in enumerate(columns):
        field = SCHEMA.find(name)
        assert field is not None
        transform = draw(st.sampled_from(TRANSFORMS[name]))
        fields.append({"source-id": field.id, "field-id": 1000 + at, "transform": transform, "name": f"{name}_{at}"})
    return PartitionSpec.parse({"spec-id": 3, "fields": fields})


@st.composite
def predicates(draw: st.DrawFn, names: Sequence[str]) -> BoundPredicate:
    """On stored values, of which literals are another form."""
    name = draw(st.sampled_from(names))
    field = SCHEMA.find(name)
    assert field is not None
    operators = [each for each in Operator if each not in (Operator.IS_NAN, Operator.NOT_NAN) or name == "double"]
    if name != "string":
        operators = [each for each in operators if not each.value.endswith("starts-with")]
    operator = draw(st.sampled_from(operators))
    value = VALUES[name].filter(lambda each: each == each)
    found: Any = ()
    if operator.is_set:
        found = frozenset(draw(st.lists(value, min_size=2, max_size=3)))
    elif not operator.is_unary:
        found = (draw(value),)
    transform = parse_transform(draw(st.sampled_from(TRANSFORMS[name])))
    if not found or str(transform) in ("identity", "void") or draw(st.booleans()):
        return BoundPredicate(operator, field.id, field.type, (name,), found)
    results = [transform.apply(each, field.type) for each in found]
    found = frozenset(results) if operator.is_set else tuple(results)
    of = transform.result_type(field.type)
    if values.kind_of(of) != "string" and operator.value.endswith("starts-with"):
        operator = Operator.EQ
    return BoundPredicate(operator, field.id, of, (name,), found, transform, field.type)


def filters(names: Sequence[str]) -> st.SearchStrategy[Bound]:
    leaves: st.SearchStrategy[Bound] = predicates(names)
    return st.recursive(
        leaves, lambda child: st.builds(BoundAnd, child, child) | st.builds(BoundOr, child, child), max_leaves=4
    )


@st.composite
def files_with_filters(draw: st.DrawFn) -> tuple[PartitionSpec, list[dict[str, Any]], DataFile, Bound]:
    spec = draw(specs())
    names = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=2, unique=True))
    names += [each for each in (name_of(field.source_id) for field in spec.fields) if each not in names]
    strategies = {name: st.none() | VALUES[name] for name in names}
    first = draw(st.fixed_dictionaries(strategies))
    rows = [first, *draw(st.lists(st.fixed_dictionaries(strategies), max_size=4))]
    rows = [row for row in rows if partition_of(row, spec) == partition_of(first, spec)]
    made = data_file(rows, names, spec, length=draw(st.sampled_from([None, 1, 2])), counts=draw(st.booleans()))
    return spec, rows, made, draw(filters(names))


def name_of(field_id: int) -> str:
    found = SCHEMA.name_of(field_id)
    assert found is not None
    return found


def partition_of(row: Mapping[str, Any], spec: PartitionSpec) -> dict[str, Any]:
    found = {}
    for each in spec.fields:
        field = SCHEMA.field(each.source_id)
        assert field is not None
        found[each.name] = each.transform.apply(row.get(field.name), field.type)
    return found


def data_file(
    rows: Sequence[Mapping[str, Any]], names: Iterable[str], spec: PartitionSpec, *, length: int | None, counts: bool
) -> DataFile:
    """A file of these rows, with metrics as writers make them. length: of truncated bounds."""
    counted: dict[str, dict[int, Any]] = {key: {} for key in ("values", "nulls", "nans", "lower", "upper")}
    for name in names:
        field = SCHEMA.find(name)
        assert field is not None
        found = [row.get(name) for row in rows]
        counted["values"][field.id] = len(found)
        counted["nulls"][field.id] = sum(value is None for value in found)
        if name == "double":
            counted["nans"][field.id] = sum(value is not None and math.isnan(value) for value in found)
        ordered = [value for value in found if value is not None and value == value]
        if ordered:
            upper = upper_bound(field.type, max(ordered), length)  # type: ignore[arg-type]
            counted["lower"][field.id] = lower_bound(field.type, min(ordered), length)  # type: ignore[arg-type]
            if upper is not None:
                counted["upper"][field.id] = upper
    return DataFile(
        "file:/a",
        "PARQUET",
        len(rows),
        10,
        partition_of(rows[0], spec),
        value_counts=counted["values"] if counts else None,
        null_value_counts=counted["nulls"] if counts else None,
        nan_value_counts=counted["nans"] if counts else None,
        lower_bounds=counted["lower"],
        upper_bounds=counted["upper"],
        spec_id=spec.spec_id,
    )


def bound_filter(bound: Bound, *specs: PartitionSpec) -> FileFilter:
    return FileFilter(bound, {spec.spec_id: spec for spec in specs}, "the filter")


def file_filter(where: Expression, schema: Schema = SCHEMA, *specs: PartitionSpec) -> FileFilter:
    return bound_filter(bind(where, schema), *specs)


@given(files_with_filters())
@settings(max_examples=400)
def test_a_file_with_a_matching_row_may_match_and_one_that_must_match_has_no_other(
    drawn: tuple[PartitionSpec, list[dict[str, Any]], DataFile, Bound],
) -> None:
    spec, rows, made, bound = drawn
    judged = bound_filter(bound, spec)
    answers = [matches(bound, row) for row in rows]
    if any(answers):
        assert judged.may_match(made)
    if judged.must_match(made):
        assert all(answers)


@given(files_with_filters())
@settings(max_examples=200)
def test_a_manifest_may_match_if_one_of_its_files_may(
    drawn: tuple[PartitionSpec, list[dict[str, Any]], DataFile, Bound],
) -> None:
    spec, rows, made, bound = drawn
    summary = ManifestSummary(spec.partition_type(SCHEMA))
    summary.add(ManifestEntry(EntryStatus.ADDED, made, snapshot_id=1))
    manifest = summary.manifest_file("file:/m", 10, spec.spec_id, 1)
    if any(matches(bound, row) for row in rows):
        assert bound_filter(bound, spec).may_match_manifest(manifest)


BY_DAY = PartitionSpec.parse(
    {"spec-id": 0, "fields": [{"source-id": 7, "field-id": 1000, "transform": "day", "name": "day"}]}
)


def with_bounds(field_id: int, bound: bytes) -> DataFile:
    """A file of one row, whose value is both bounds."""
    bounds = {field_id: bound}
    nulls = {field_id: 0}
    return DataFile("file:/a", "PARQUET", 1, 10, lower_bounds=bounds, upper_bounds=bounds, null_value_counts=nulls)


def of_day(day: int | None, **changes: Any) -> DataFile:
    return replace(DataFile("file:/a", "PARQUET", 10, 10, {"day": day}), **changes)


@pytest.mark.parametrize(
    ("where", "may", "must"),
    [
        ("timestamp >= '2021-04-01' and timestamp < '2021-04-02'", True, True),
        ("timestamp >= '2021-04-01T12:00:00'", True, False),
        ("timestamp < '2021-04-01'", False, False),
        ("timestamp > '2021-03-31T23:59:59.999999'", True, True),
        ("timestamp is null", False, False),
        ("timestamp is not null", True, True),
        ("not (timestamp < '2021-04-01')", True, True),
        ("timestamp <> '2021-05-01T00:00:00'", True, True),
    ],
)
def test_a_day_answers_for_its_times(where: str, may: bool, must: bool) -> None:
    judged = file_filter(parse(where), SCHEMA, BY_DAY)
    assert (judged.may_match(of_day(18718)), judged.must_match(of_day(18718))) == (may, must)


def test_a_null_partition_matches_is_null_alone() -> None:
    assert file_filter(parse("timestamp is null"), SCHEMA, BY_DAY).must_match(of_day(None))
    assert not file_filter(parse("timestamp < '2021-04-01'"), SCHEMA, BY_DAY).may_match(of_day(None))
    assert not file_filter(parse("timestamp <> '2021-04-01'"), SCHEMA, BY_DAY).may_match(of_day(None))


def test_each_file_is_judged_by_its_own_spec() -> None:
    plain = PartitionSpec.parse({"spec-id": 1, "fields": []})
    judged = file_filter(parse("timestamp < '2021-04-01'"), SCHEMA, BY_DAY, plain)
    assert not judged.may_match(of_day(18718))
    assert judged.may_match(replace(of_day(18718), spec_id=1, partition={}))
    assert judged.may_match(replace(of_day(18718), spec_id=9)), "nothing is known of a spec that is gone"


def test_times_before_1970_allow_for_partitions_that_older_writers_got_wrong() -> None:
    judged = file_filter(parse("timestamp = '1969-12-31T10:00:00'"), SCHEMA, BY_DAY)
    assert [judged.may_match(of_day(day)) for day in (-2, -1, 0, 1)] == [False, True, True, False]
    later = file_filter(parse("timestamp >= '1970-01-01'"), SCHEMA, BY_DAY)
    assert [later.must_match(of_day(day)) for day in (-1, 0, 1)] == [False, False, True]


def test_a_partition_without_its_void_field_is_judged_by_bounds() -> None:
    void = PartitionSpec.parse(
        {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "transform": "void", "name": "int"}]}
    )
    five = values.to_bytes(SCHEMA.field(1).type, 5)  # type: ignore[union-attr]
    made = DataFile(
        "file:/a", "PARQUET", 1, 10, {}, lower_bounds={1: five}, upper_bounds={1: five}, null_value_counts={1: 0}
    )
    judged = file_filter(col("int") == 5, SCHEMA, void)
    assert (judged.may_match(made), judged.must_match(made)) == (True, True)
    assert not file_filter(col("int") == 6, SCHEMA, void).may_match(made)


def test_bounds_of_a_column_that_was_an_int_serve_as_a_long() -> None:
    five = (5).to_bytes(4, "little")
    made = DataFile(
        "file:/a", "PARQUET", 1, 10, lower_bounds={2: five}, upper_bounds={2: five}, null_value_counts={2: 0}
    )
    plain = PartitionSpec.parse({"spec-id": 0, "fields": []})
    assert file_filter(col("long") == 5, SCHEMA, plain).must_match(made)
    assert not file_filter(col("long") > 5, SCHEMA, plain).may_match(made)


@pytest.mark.parametrize("bound", [b"", b"123", b"\xff" * 9])
def test_a_bound_that_cannot_be_read_proves_nothing(bound: bytes) -> None:
    made = DataFile(
        "file:/a", "PARQUET", 1, 10, lower_bounds={1: bound}, upper_bounds={1: bound}, null_value_counts={1: 0}
    )
    judged = file_filter(col("int") == 5, SCHEMA, PartitionSpec.parse({"spec-id": 0, "fields": []}))
    assert (judged.may_match(made), judged.must_match(made)) == (True, False)


def test_a_filter_of_all_or_no_rows_needs_no_file() -> None:
    everything: Expression = ALWAYS_TRUE
    judged = file_filter(everything, SCHEMA, BY_DAY)
    nothing = file_filter(~everything, SCHEMA, BY_DAY)
    assert (judged.may_match(of_day(1)), judged.must_match(of_day(1))) == (True, True)
    assert (nothing.may_match(of_day(1)), nothing.must_match(of_day(1))) == (False, False)


def test_the_decimal_of_a_filter_has_the_column_s_scale() -> None:
    assert bind(col("decimal") == Decimal("1.5"), SCHEMA) == bind(parse("decimal = 1.50"), SCHEMA)


IN_STRUCT = Schema.parse(
    {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "x", "required": False, "type": "float"},
            {
                "id": 2,
                "name": "s",
                "required": False,
                "type": {"type": "struct", "fields": [{"id": 3, "name": "n", "required": False, "type": "int"}]},
            },
        ],
    }
)


def of_metrics(
    column: int, values: int, low: bytes | None = None, high: bytes | None = None, nans: int = 0
) -> DataFile:
    """Ten rows, no null counted."""
    return DataFile(
        "file:/f",
        "ORC",
        10,
        1,
        value_counts={column: values},
        null_value_counts={column: 0},
        nan_value_counts={column: nans},
        lower_bounds={} if low is None else {column: low},
        upper_bounds={} if high is None else {column: high},
    )


def test_writers_that_leave_out_rows_of_null_structs_prove_nothing_of_nulls() -> None:
    low, high = struct.pack("<i", 1), struct.pack("<i", 4)
    some, every = of_metrics(3, 8, low, high), of_metrics(3, 10, low, high)
    for text in ("s.n is not null", "s.n < 5"):
        judged = file_filter(parse(text), IN_STRUCT)
        assert not judged.must_match(some)
        assert judged.must_match(every)
    judged = file_filter(parse("s.n is null"), IN_STRUCT)
    assert judged.may_match(some)
    assert not judged.may_match(every)


@pytest.mark.parametrize("nan_is_lower", [True, False])
def test_a_bound_that_is_nan_makes_the_other_one_worthless(nan_is_lower: bool) -> None:
    bounds = (struct.pack("<f", math.nan), struct.pack("<f", 1.0))
    file = of_metrics(1, 10, *(bounds if nan_is_lower else bounds[::-1]))
    for text in ("x > 5", "x < 0", "x = 7", "x <> 7"):
        judged = file_filter(parse(text), IN_STRUCT)
        assert judged.may_match(file)
        assert not judged.must_match(file)


def test_nan_does_not_match_a_comparison_with_more_than_a_float_holds() -> None:
    file = of_metrics(1, 10, nans=5)
    assert not file_filter(parse("x < 1e300"), IN_STRUCT).must_match(file)
    assert not file_filter(parse("x > -1e300"), IN_STRUCT).must_match(file)


def test_bounds_serve_transforms_that_keep_order_alone() -> None:
    bound = (1).to_bytes(4, "little"), (19).to_bytes(4, "little")
    made = DataFile(
        "file:/a", "PARQUET", 2, 10, lower_bounds={1: bound[0]}, upper_bounds={1: bound[1]}, null_value_counts={1: 0}
    )
    plain = PartitionSpec.parse({"spec-id": 0, "fields": []})
    for text, may, must in [
        ("truncate(10, int) < 20", True, True),
        ("truncate(10, int) <= 0", True, False),
        ("truncate(10, int) = 20", False, False),
        ("truncate(10, int) is not null", True, True),
    ]:
        judged = file_filter(parse(text), SCHEMA, plain)
        assert (judged.may_match(made), judged.must_match(made)) == (may, must), text
    for bucket in range(4):
        judged = file_filter(parse(f"bucket(4, int) = {bucket}"), SCHEMA, plain)
        assert (judged.may_match(made), judged.must_match(made)) == (True, False)
