"""Strategies of hypothesis for what planning judges: specs, filters, and files with metrics of all sorts."""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from iceberg_hms.expressions.expression import (
    Expression,
    Operator,
    Predicate,
    both,
    column_names,
    either,
)
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import Bucket, IdentityTransform, Void, parse_transform
from iceberg_hms.format.schema.types import Type

_TYPES = [
    "int",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "fixed[2]",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "timestamp_ns",
    "decimal(6,2)",
    "decimal(38,2)",
    "uuid",
    "boolean",
]
#: The first column within the struct `s`.
_FIRST_NESTED = 32
_NESTED = ["int", "double", "string"]
SCHEMA = Schema.parse(
    {
        "type": "struct",
        "fields": [
            *({"id": at, "name": f"c{at}", "required": False, "type": kind} for at, kind in enumerate(_TYPES, 1)),
            {"id": 30, "name": "must", "required": True, "type": "int"},
            {
                "id": 31,
                "name": "s",
                "required": False,
                "type": {
                    "type": "struct",
                    "fields": [
                        {"id": at, "name": f"n{at}", "required": True, "type": kind}
                        for at, kind in enumerate(_NESTED, _FIRST_NESTED)
                    ],
                },
            },
        ],
    }
)
#: The columns that filters name: full name -> id.
COLUMNS = {
    **{f"c{at}": at for at in range(1, len(_TYPES) + 1)},
    "must": 30,
    **{f"s.n{at}": at for at in range(_FIRST_NESTED, _FIRST_NESTED + len(_NESTED))},
}
_TRANSFORMS = {
    "int": ("identity", "bucket[4]", "truncate[10]"),
    "long": ("identity", "bucket[4]", "truncate[10]"),
    "float": ("identity",),
    "double": ("identity",),
    "string": ("identity", "bucket[4]", "truncate[1]"),
    "binary": ("identity", "bucket[4]", "truncate[1]"),
    "fixed": ("identity", "bucket[4]"),
    "date": ("identity", "bucket[4]", "year", "month", "day"),
    "time": ("identity", "bucket[4]"),
    "timestamp": ("identity", "year", "month", "day", "hour"),
    "timestamptz": ("bucket[4]", "year", "month", "day", "hour"),
    "timestamp_ns": ("identity", "day", "hour"),
    "decimal": ("identity", "bucket[4]", "truncate[50]"),
    "uuid": ("identity", "bucket[4]"),
    "boolean": ("identity", "void"),
}
_HOUR = 3_600_000_000
_FLOATS = st.sampled_from([-1.5, -0.0, 0.0, 1.0, 2.5, math.inf, -math.inf])
_TEXTS = st.text("ab\U0001f600", max_size=3)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-15, 15) | st.sampled_from([-(2**31) + 8, 2**31 - 1]),
    "long": st.integers(-15, 15) | st.sampled_from([-(2**63) + 8, 2**63 - 1, 2**40]),
    "float": _FLOATS,
    "double": _FLOATS,
    "string": _TEXTS,
    "binary": st.binary(max_size=2),
    "fixed": st.binary(min_size=2, max_size=2),
    "date": st.integers(-40, 40),
    "time": st.integers(0, 3),
    "timestamp": st.integers(-60, 60).map(lambda hours: hours * _HOUR // 2),
    "timestamptz": st.integers(-60, 60).map(lambda hours: hours * _HOUR // 2),
    "timestamp_ns": st.integers(-60, 60).map(lambda hours: hours * _HOUR * 500),
    "decimal": st.integers(-300, 300).map(lambda digits: values.from_unscaled(digits, 2)),
    "uuid": st.integers(0, 3).map(lambda number: uuid.UUID(int=number << 126)),
    "boolean": st.booleans(),
}


def type_of(column_id: int) -> Type:
    field = SCHEMA.field(column_id)
    assert field is not None
    return field.type


def column_values(column_id: int) -> st.SearchStrategy[Any]:
    """Values of a column as it stores them; no null, no NaN."""
    return _VALUES[values.kind_of(type_of(column_id))]


@st.composite
def drawn_specs(draw: st.DrawFn, where: Expression) -> PartitionSpec:
    """Specs, most of whose fields are of columns that a filter names."""
    named = [COLUMNS[each] for each in column_names(where)]
    fields = []
    for at in range(draw(st.integers(0, 3))):
        column_id = draw(st.sampled_from(named) if draw(st.integers(0, 3)) else st.sampled_from([*COLUMNS.values()]))
        transform = draw(st.sampled_from(_TRANSFORMS[values.kind_of(type_of(column_id))]))
        fields.append(PartitionField(column_id, 1000 + at, parse_transform(transform), f"p{at}"))
    return PartitionSpec.of(fields, spec_id=3)


@st.composite
def drawn_predicates(draw: st.DrawFn) -> Expression:
    """A predicate whose values are spelled as the column's text is: filters are unbound."""
    name = draw(st.sampled_from(list(COLUMNS)))
    of = type_of(COLUMNS[name])
    kind = values.kind_of(of)
    operators = [
        each
        for each in Operator
        if (kind in ("float", "double") or "nan" not in each.value)
        and (kind == "string" or "starts-with" not in each.value)
    ]
    operator = draw(st.sampled_from(operators))
    transform = parse_transform(draw(st.sampled_from(["identity", *_TRANSFORMS[kind]])))
    if isinstance(transform, Void) or (kind == "string" and isinstance(transform, Bucket)):
        transform = IdentityTransform()
    if operator.is_unary:
        return Predicate(operator, name, (), transform if kind not in ("float", "double") else None)
    result = transform.result_type(of)
    value = column_values(COLUMNS[name]).map(lambda each: _literal(result, transform.apply(each, of)))
    sizes = {"min_size": 0, "max_size": 6} if operator.is_set else {"min_size": 1, "max_size": 1}
    found = tuple(draw(st.lists(value, **sizes)))  # type: ignore[arg-type]
    return Predicate(operator, name, found, None if isinstance(transform, IdentityTransform) else transform)


def _literal(of: Type, value: Any) -> Any:
    kind = values.kind_of(of)
    return values.human(of, value) if kind in ("date", "time", "uuid") or kind.startswith("timestamp") else value


def drawn_filters() -> st.SearchStrategy[Expression]:
    return st.recursive(
        drawn_predicates(), lambda child: st.builds(both, child, child) | st.builds(either, child, child), max_leaves=4
    )


@st.composite
def _bounds(draw: st.DrawFn, column_id: int) -> bytes | None:
    """A bound: of a value, NaN, cut, of a type before promotion, of a wrong length, or none."""
    of = type_of(column_id)
    kind = values.kind_of(of)
    whole = draw(column_values(column_id).map(lambda each: values.to_bytes(of, each)))
    choices = [whole, whole, whole, None, whole[:-1], whole + b"\x00"]
    if kind in ("float", "double"):
        choices.append(values.to_bytes(of, math.nan))
    if kind in ("long", "timestamp", "timestamp_ns"):
        choices.append(struct.pack("<i", draw(st.integers(-20, 20))))
    if kind == "double":
        choices += [struct.pack("<f", draw(st.sampled_from([1.0, math.nan])))]
    if kind == "string":
        choices.append(b"a\xff")
    if kind == "decimal":
        choices.append(b"\x7f" * draw(st.sampled_from([20, 40])))
    return draw(st.sampled_from(choices))


@st.composite
def _file(draw: st.DrawFn, spec: PartitionSpec, columns: list[int]) -> DataFile:
    rows = draw(st.integers(1, 4))
    maps: dict[str, dict[int, Any]] = {}
    counts = st.none() | st.integers(0, 4) | st.just(rows)
    for name in ("value_counts", "null_value_counts", "nan_value_counts"):
        drawn_counts = {each: draw(counts) for each in columns}
        maps[name] = {each: found for each, found in drawn_counts.items() if found is not None}
    for name in ("lower_bounds", "upper_bounds"):
        drawn_bounds = {each: draw(_bounds(each)) for each in columns}
        maps[name] = {each: found for each, found in drawn_bounds.items() if found is not None}
    chosen: dict[str, Any] = {name: draw(st.sampled_from([found, found, None])) for name, found in maps.items()}
    partition = {}
    for field in spec.fields:
        of = type_of(field.source_id)
        drawn = column_values(field.source_id)
        if values.kind_of(of) in ("float", "double"):
            drawn = drawn | st.just(math.nan)
        partition[field.name] = field.transform.apply(draw(st.none() | drawn), of)
    return DataFile("file:/f", "PARQUET", rows, 10, partition, spec_id=spec.spec_id, **chosen)


def drawn_files(spec: PartitionSpec, where: Expression) -> st.SearchStrategy[list[DataFile]]:
    """Files of one spec, with metrics, that no writer might give, of the columns of a filter: judges take them as they
    are."""
    columns = sorted({COLUMNS[each] for each in column_names(where)})
    return st.lists(_file(spec, columns), min_size=1, max_size=4)


@st.composite
def drawn_rows(draw: st.DrawFn, spec: PartitionSpec, where: Expression) -> list[dict[str, Any]]:
    """Rows with values of the columns of a filter and a spec; struct columns are mappings."""
    ids = sorted({COLUMNS[each] for each in column_names(where)} | {field.source_id for field in spec.fields})
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        row: dict[str, Any] = {"s": {} if draw(st.booleans()) else None}
        for column_id in ids:
            field = SCHEMA.field(column_id)
            assert field is not None
            drawn = column_values(column_id)
            if values.kind_of(field.type) in ("float", "double"):
                drawn = drawn | st.just(math.nan)
            if column_id < _FIRST_NESTED:
                row[field.name] = draw(drawn if field.required else st.none() | drawn)
            elif row["s"] is not None:
                row["s"][field.name] = draw(drawn)
        rows.append(row)
    return rows


def partition_of(row: Mapping[str, Any], spec: PartitionSpec) -> dict[str, Any]:
    """The partition tuple of a row."""
    found = {}
    for each in spec.fields:
        field = SCHEMA.field(each.source_id)
        assert field is not None
        around = row if each.source_id < _FIRST_NESTED else row["s"] or {}
        found[each.name] = each.transform.apply(around.get(field.name), field.type)
    return found
