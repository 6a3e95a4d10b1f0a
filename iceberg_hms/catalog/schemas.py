"""Converts callers' schemas, partition specs and sort orders to this package's classes.

    to_schema(pyarrow.schema([("event_time", pyarrow.timestamp("us")), ("level", pyarrow.string())]))
    to_schema(pyiceberg.schema.Schema(...))
    to_spec(["day(event_time)", "level"], schema)
    to_order(["event_time desc"], schema)

Field ids from here are provisional: creating a table assigns fresh ones (spec: Schema Evolution).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson
import pyarrow as pa

from iceberg_hms.changes.operations.schema.update_spec import to_transform
from iceberg_hms.datafiles.arrow_schemas import from_arrow, type_from_arrow
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.partition_spec import (
    FIRST_PARTITION_FIELD_ID,
    UNPARTITIONED,
    PartitionField,
    PartitionSpec,
)
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import UNSORTED, SortField, SortOrder
from iceberg_hms.format.schema.transforms import Transform, parse_transform
from iceberg_hms.format.schema.types import ListType, MapType, NestedField, PrimitiveType, StructType, Type, parse_type

_TERM = re.compile(r"(?P<transform>\w+)\s*\((?P<arguments>[^()]*)\)")
_SORT_TERM = re.compile(
    r"(?P<term>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE | re.DOTALL
)
_ALIAS = re.compile(r"(?P<term>.+?)\s+as\s+(?P<name>\w+)", re.IGNORECASE | re.DOTALL)
#: How long a term may be: the expressions above take quadratic time. Columns with longer names need a PartitionSpec.
_MAX_TERM = 2_000
#: As Java's PartitionSpec.Builder names a field without a name.
_SUFFIXES: Mapping[str, str] = {
    "identity": "",
    "year": "_year",
    "month": "_month",
    "day": "_day",
    "hour": "_hour",
    "bucket": "_bucket",
    "truncate": "_trunc",
    "void": "_null",
}
_TIME_TRANSFORMS = ("year", "month", "day", "hour")


class SpecModel(Protocol):
    """A class of PyIceberg's (Schema, PartitionSpec, SortOrder, types, transforms): it writes the spec's JSON."""

    def model_dump_json(self) -> str: ...


def to_schema(source: Schema | pa.Schema | SpecModel | Mapping[str, Any]) -> Schema:
    """A schema from ours (returned as it is), pyarrow's, PyIceberg's, or the spec's JSON object.

    From pyarrow: `nullable=False` is required; a field's metadata `doc` or `comment` is its doc; nanosecond timestamps
    become timestamp_ns and timestamptz_ns, which need format version 3; integers below 32 bits become int; dictionaries
    become their values. Raises InvalidInput that names a column whose type Iceberg does not have.
    """
    if isinstance(source, Schema):
        return source
    if isinstance(source, pa.Schema):
        return from_arrow(source)
    source = _json(source)
    if isinstance(source, Mapping):
        schema = Schema.parse(source)
        schema.validate()
        return schema
    raise InvalidInput(
        f"Cannot make a schema of {type(source).__name__}: give pyarrow's or PyIceberg's, or the spec's JSON object"
    )


def to_type(source: Type | pa.DataType | SpecModel | Mapping[str, Any] | str, path: str) -> Type:
    """A column's type from ours (returned as it is), the spec's text or JSON object ("decimal(10, 2)"), pyarrow's or
    PyIceberg's, by the rules of `to_schema`. path: of the column, for messages. Raises InvalidInput that names it."""
    if isinstance(source, PrimitiveType | StructType | ListType | MapType):
        return source
    if isinstance(source, pa.DataType):
        return type_from_arrow(source, path)
    source = _json(source)
    if not isinstance(source, str | Mapping):
        raise InvalidInput(
            f"Column {path}: cannot make a type of {type(source).__name__}: give the spec's text, such as "
            "'decimal(10, 2)', a pyarrow type, or the spec's JSON object"
        )
    try:
        return parse_type(source)
    except InvalidInput as error:
        raise InvalidInput(f"Column {path}: {error.message}") from error


def any_transform(source: Transform | SpecModel | str) -> Transform:
    """As `to_transform`, of PyIceberg's too. Raises InvalidInput."""
    return to_transform(_json(source))


def to_spec(
    source: PartitionSpec | SpecModel | Mapping[str, Any] | Sequence[str] | str | None, schema: Schema
) -> PartitionSpec:
    """A partition spec for tables of `schema`, from ours, PyIceberg's, the spec's JSON object, or terms; None =
    unpartitioned.

    A term is a column or a transform of one, optionally with a name:
    "level", "year(t)", "month(t)", "day(t)", "hour(t)", "bucket(16, id)", "truncate(4, name)", "day(t) as event_day".
    Raises InvalidInput: unknown column or transform, a transform that does not take the column's type, names used twice
    or of another column, several time transforms of one column.
    """
    if source is None:
        return UNPARTITIONED
    source = [source] if isinstance(source, str) else _json(source)
    if isinstance(source, PartitionSpec):
        spec = source
    elif isinstance(source, Mapping):
        spec = PartitionSpec.parse(source)
    elif isinstance(source, Sequence):
        spec = PartitionSpec.of(
            _parse_term(term, schema, FIRST_PARTITION_FIELD_ID + position) for position, term in enumerate(source)
        )
    else:
        raise InvalidInput(f"Cannot make a partition spec of {type(source).__name__}: give a list of terms")
    spec.check_compatible(schema)
    _check_names(spec, schema)
    _check_redundant(spec, schema)
    return spec


def to_order(
    source: SortOrder | SpecModel | Mapping[str, Any] | Sequence[str] | str | None, schema: Schema
) -> SortOrder:
    """A sort order for tables of `schema`, from ours, PyIceberg's, the spec's JSON object, or terms; None = unsorted.

    A term is a column or a transform of one, then a direction and where nulls go: "level", "event_time desc",
    "bucket(16, id) asc nulls last". Ascending is the default, and nulls come first there, last in descending order, as
    in Spark. Raises InvalidInput: unknown column or transform, a transform that does not take the column's type.
    """
    if source is None:
        return UNSORTED
    source = [source] if isinstance(source, str) else _json(source)
    if isinstance(source, SortOrder):
        order = source
    elif isinstance(source, Mapping):
        order = SortOrder.parse(source)
    elif isinstance(source, Sequence):
        order = SortOrder.of(_parse_sort_term(term, schema) for term in source)
    else:
        raise InvalidInput(f"Cannot make a sort order of {type(source).__name__}: give a list of terms")
    order.check_compatible(schema)
    return order


def _json(source: Any) -> Any:
    """PyIceberg's objects as the spec's JSON; others as they are. No module of PyIceberg is imported for that."""
    dump = getattr(source, "model_dump_json", None)
    return source if dump is None else orjson.loads(dump())


def _parse_term(term: object, schema: Schema, field_id: int) -> PartitionField:
    if not isinstance(term, str):
        raise InvalidInput(f"A partition term is a string such as 'day(event_time)', found {term!r}")
    _check_length("partition", term)
    text, name = term.strip(), None
    # Column names may look like terms, so a column's name wins over the syntax.
    if schema.find(text) is None and (alias := _ALIAS.fullmatch(text)):
        text, name = alias["term"].strip(), alias["name"]
    transform, source = _source(text, schema)
    if name is None:
        column = schema.name_of(source.id) or source.name
        name = column + _SUFFIXES[str(transform).partition("[")[0]]
    return PartitionField(source.id, field_id, transform, name)


def _parse_sort_term(term: object, schema: Schema) -> SortField:
    if isinstance(term, str):
        _check_length("sort", term)
    match = _SORT_TERM.fullmatch(term.strip()) if isinstance(term, str) else None
    if match is None:
        raise InvalidInput(f"A sort term is a string such as 'event_time desc', found {term!r}")
    transform, source = _source(match["term"], schema)
    direction = (match["direction"] or "asc").lower()
    nulls = (match["nulls"] or ("first" if direction == "asc" else "last")).lower()
    return SortField(source.id, transform, direction, f"nulls-{nulls}")


def _check_length(kind: str, term: str) -> None:
    if len(term) > _MAX_TERM:
        raise InvalidInput(f"A {kind} term has at most {_MAX_TERM} characters, found {len(term)}")


def _source(text: str, schema: Schema) -> tuple[Transform, NestedField]:
    transform, column = _split(text, schema)
    source = schema.find(column)
    if source is None:
        known = ", ".join(field.name for field in schema.fields)
        raise InvalidInput(f"No column {column!r} among {known}")
    return transform, source


def _split(text: str, schema: Schema) -> tuple[Transform, str]:
    match = _TERM.fullmatch(text)
    if match is None or schema.find(text) is not None:
        return parse_transform("identity"), text
    arguments = [argument.strip() for argument in match["arguments"].split(",")]
    name = match["transform"].lower()
    if name in ("bucket", "truncate"):
        numbers = [argument for argument in arguments if argument.isdecimal()]
        columns = [argument for argument in arguments if not argument.isdecimal()]
        if len(numbers) != 1 or len(columns) != 1:
            raise InvalidInput(f"Invalid partition term {text!r}: write {name}(number, column)")
        return parse_transform(f"{name}[{numbers[0]}]"), columns[0]
    with contextlib.suppress(InvalidInput):
        if len(arguments) == 1:
            return to_transform(name), arguments[0]
    known = "identity, year, month, day, hour, bucket(n, column), truncate(width, column), void"
    raise InvalidInput(f"Invalid partition term {text!r}: the transforms are {known}")


def _check_names(spec: PartitionSpec, schema: Schema) -> None:
    spec.check_names()
    for field in spec.fields:
        column = schema.find(field.name)
        if column is not None and not (str(field.transform) in ("identity", "void") and column.id == field.source_id):
            raise InvalidInput(f"Cannot create partition from name that exists in schema: {field.name}")


def _check_redundant(spec: PartitionSpec, schema: Schema) -> None:
    seen: dict[tuple[int, str], PartitionField] = {}
    for field in spec.fields:
        text = str(field.transform)
        if text == "void":
            continue
        key = field.source_id, "time" if text in _TIME_TRANSFORMS else text
        if key in seen:
            column = schema.name_of(field.source_id)
            raise InvalidInput(f"Cannot add redundant partition: {text} of {column} beside {seen[key].transform}")
        seen[key] = field
