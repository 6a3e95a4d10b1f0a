"""What existing ORC files have. Reads their footers, never their rows."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from iceberg_hms.datafiles.column_bounds import ColumnStatistics, float_bounds, is_floating, of_floats
from iceberg_hms.datafiles.described_file import GREGORIAN_START, FoundInFile, offsets_in_order
from iceberg_hms.datafiles.file_columns import FileColumn, FoundColumn, TableOfFiles
from iceberg_hms.datafiles.orc_footer import (
    Message,
    OrcFooter,
    OrcType,
    double_of,
    int32_of,
    number_of,
    numbers_of,
    part_of,
    read_orc_footer,
    signed_of,
    text_of,
)
from iceberg_hms.errors import CorruptFile
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.types import MAX_NESTING, PrimitiveType, Type

_ID: Final = "iceberg.id"
_TIMESTAMP_UNIT: Final = "iceberg.timestamp-unit"
#: What Iceberg's writers mean by a long or a binary.
_LONG_TYPE: Final = "iceberg.long-type"
_BINARY_TYPE: Final = "iceberg.binary-type"
_MAX_ID: Final = (1 << 31) - 1
_NANOS_PER_MILLI: Final = 1_000_000
_GREGORIAN_START_MS: Final = GREGORIAN_START * 86_400_000
#: The kinds of columns that every reader of ORC reads as their writer meant them (Java's generic readers, Spark,
#: PyIceberg), and the kinds of the table's columns that they are read as; `can_read` has conditions besides.
_READ: Final[Mapping[str, tuple[str, ...]]] = {
    "boolean": ("boolean",),
    # Java promotes only ORC's int.
    "byte": ("int",),
    "short": ("int",),
    "int": ("int", "long"),
    "long": ("long",),
    "float": ("float", "double"),
    "double": ("double",),
    "string": ("string",),
    "varchar": ("string",),
    "binary": ("binary",),
    "date": ("date",),
    "decimal": ("decimal",),
    "timestamp": ("timestamp",),
    "timestamp_instant": ("timestamptz",),
}
#: In tables of later versions PyIceberg takes ORC's timestamps for those of nanoseconds, and fails.
_LAST_VERSION_WITH_TIMESTAMPS: Final = 2
#: How to write what no, or not every, reader reads from ORC: by the table's kind, and else by the file's.
_CURES: Final[Mapping[str, str]] = {
    "char": "write it as a string: readers of ORC pad a char with spaces, and find no row by its value",
    "union": "write a column for each of its types",
    **dict.fromkeys(
        ("uuid", "fixed", "time"), "write the file as Parquet: PyIceberg reads no uuid, fixed or time from ORC"
    ),
    **dict.fromkeys(
        ("timestamp_ns", "timestamptz_ns"), "write the file as Parquet: Java fails on filters of such columns in ORC"
    ),
    "variant": "write the file as Parquet: Spark reads no variant from ORC",
    "timestamp": "write it as ORC's timestamp; and into tables of version 3, of which PyIceberg reads no timestamps of "
    "ORC, as Parquet",
    "timestamptz": "write it as ORC's timestamp with local time zone; and into tables of version 3, of which PyIceberg "
    "reads no timestamps of ORC, as Parquet",
}
_SHAPES: Final[Mapping[str, Any]] = {"struct": "struct", "list": "list", "map": "map", "union": "other"}


def found_in_orc(location: str, table: TableOfFiles, open_input: Callable[[str], Any]) -> FoundInFile | None:
    """Read an ORC file's footer; None for a file without rows. Arguments and errors are those of `found_in_parquet`;
    UnsupportedFormat: encryption, or compression with LZO.

    Counts, sizes and bounds are those of Java's OrcMetrics, with three exceptions, since a bound must not be narrower
    than the values. A lower bound of a timestamp is rounded down, also before 1970. Dates and timestamps before October
    15, 1582 have no bounds unless the footer says that the writer counted them as Iceberg does. And a null struct
    counts as a null in each of its fields. There are no bounds where the writer shortened them, for NaN, or for `char`,
    which readers pad.
    """
    footer = read_orc_footer(location, open_input)
    if not footer.rows:
        return None
    found = table.find(location, _columns(location, footer, table.metadata.format_version))
    try:
        statistics = {
            column.field_id: each
            for column in found.columns
            if not column.repeated and (each := orc_statistics(footer, column)) is not None
        }
        shifted = tuple(column.field_id for column in found.columns if _is_shifted(footer, column.stored.index))
    except (ValueError, OverflowError, struct.error) as error:
        raise CorruptFile(location, f"the statistics in its footer cannot be read: {error}") from error
    return FoundInFile(
        file_format="ORC",
        size=footer.size,
        record_count=footer.rows,
        matched=found,
        statistics=statistics,
        split_offsets=offsets_in_order(footer.stripe_offsets, footer.size),
        shifted=shifted,
    )


def _columns(location: str, footer: OrcFooter, version: int) -> list[FileColumn]:
    try:
        return list(_children(footer, version, 0, 0))
    except ValueError as error:
        raise CorruptFile(location, f"its types cannot be read: {error}") from error


def _children(footer: OrcFooter, version: int, at: int, depth: int) -> tuple[FileColumn, ...]:
    if depth > MAX_NESTING:
        raise ValueError(f"they are nested deeper than {MAX_NESTING} levels")
    of = footer.types[at]
    names = {"list": ("element",), "map": ("key", "value")}.get(of.kind, of.names)
    if not names:
        # A union's parts have no names.
        names = tuple(f"tag_{number}" for number in range(len(of.subtypes)))
    return tuple(
        _column(footer, version, child, name, depth + 1) for name, child in zip(names, of.subtypes, strict=True)
    )


def _column(footer: OrcFooter, version: int, at: int, name: str, depth: int) -> FileColumn:
    of = footer.types[at]
    text = of.attributes.get(_ID)
    field_id = None if text is None else int(text)
    if field_id is not None and not 0 <= field_id <= _MAX_ID:
        raise ValueError(f"field id {field_id}")
    return FileColumn(
        name=name,
        field_id=field_id,
        index=at,
        shape=_SHAPES.get(of.kind, "leaf"),
        shown=f"decimal({of.precision}, {of.scale})" if of.kind == "decimal" else of.kind,
        reads=lambda wanted: can_read(of, wanted, version),
        known=of.kind != "union" and not of.kind.startswith("type "),
        children=_children(footer, version, at, depth),
        advice=lambda wanted: _advice(of, wanted),
    )


def _advice(of: OrcType, wanted: Type) -> str:
    found = _CURES.get(of.kind)
    return found or (_CURES.get(wanted.kind, "") if isinstance(wanted, PrimitiveType) else "")


def can_read(stored: OrcType, wanted: PrimitiveType, version: int) -> bool:
    """Whether every reader takes an ORC column for the table's (spec: Appendix A, ORC; Schema Evolution). version: the
    table's format version."""
    if wanted.kind not in _READ.get(stored.kind, ()):
        return False
    match stored.kind:
        case "decimal":
            return wanted.scale == stored.scale and stored.precision <= wanted.precision
        case "timestamp" | "timestamp_instant":
            nanos = stored.attributes.get(_TIMESTAMP_UNIT) == "NANOS"
            return not nanos and version <= _LAST_VERSION_WITH_TIMESTAMPS
        case "long":
            return stored.attributes.get(_LONG_TYPE, "LONG") == "LONG"
        case "binary":
            return stored.attributes.get(_BINARY_TYPE, "BINARY") == "BINARY"
        case _:
            return True


def orc_statistics(footer: OrcFooter, column: FoundColumn) -> ColumnStatistics | None:
    """A column's statistics in the footer; None if the writer wrote none. Raises ValueError, OverflowError,
    struct.error."""
    if not footer.statistics:
        return None
    message = footer.statistics[column.stored.index]
    there = number_of(message, 1)
    if there is None:
        return None
    if there > footer.rows:
        raise ValueError(f"{there} values in {footer.rows} rows")
    nulls = footer.rows - there
    size = number_of(message, 11)
    if not there:
        return ColumnStatistics(size, footer.rows, nulls, bounded=True)
    pair = _bounds(footer, column, message)
    if pair is None or not isinstance(column.type, PrimitiveType):
        return ColumnStatistics(size, footer.rows, nulls)
    for each in pair:
        values.to_bytes(column.type, each)
    found = ColumnStatistics(size, footer.rows, nulls, pair[0], pair[1], bounded=True)
    if is_floating(column.type):
        return of_floats(found, may_have_nan=_may_have_nan(part_of(message, 3)))
    return found


def _may_have_nan(of_doubles: Message | None) -> bool:
    """Unless the sum of the values is a number. The smallest and the largest leave NaN out."""
    total = None if of_doubles is None else double_of(of_doubles, 3)
    return total is None or math.isnan(total)


def _bounds(footer: OrcFooter, column: FoundColumn, message: Message) -> tuple[Any, Any] | None:
    """The smallest and the largest value, of the table's type; None if unknown."""
    stored = footer.types[column.stored.index]
    kind = column.type.kind if isinstance(column.type, PrimitiveType) else ""
    match stored.kind:
        case "boolean":
            return _booleans(part_of(message, 5), number_of(message, 1) or 0)
        case "byte" | "short" | "int" | "long":
            return _pair(part_of(message, 2), signed_of)
        case "float" | "double":
            found = _pair(part_of(message, 3), double_of)
            return None if found is None else float_bounds(*found)
        case "string" | "varchar":
            return _pair(part_of(message, 4), text_of)
        case "decimal":
            return _decimals(_both(part_of(message, 6), text_of), stored.scale)
        case "date":
            return None if _is_shifted(footer, column.stored.index) else _pair(part_of(message, 7), signed_of)
        case "timestamp" | "timestamp_instant":
            return _timestamps(footer, part_of(message, 9), nanos=kind.endswith("_ns"))
    return None


def _is_shifted(footer: OrcFooter, at: int) -> bool:
    """Whether a column has days that its writer counted in another calendar, as far as its statistics tell."""
    if footer.proleptic or not footer.statistics:
        return False
    message = footer.statistics[at]
    match footer.types[at].kind:
        case "date":
            first, start = _lower(part_of(message, 7), 1), GREGORIAN_START
        case "timestamp" | "timestamp_instant":
            first, start = _lower(part_of(message, 9), 3), _GREGORIAN_START_MS
        case _:
            return False
    return first is not None and first < start


def _lower(message: Message | None, number: int) -> int | None:
    return None if message is None else signed_of(message, number)


def _pair(message: Message | None, read: Callable[[Message, int], Any]) -> tuple[Any, Any] | None:
    found = _both(message, read)
    return None if found is None or found[0] > found[1] else found


def _both(message: Message | None, read: Callable[[Message, int], Any]) -> tuple[Any, Any] | None:
    if message is None:
        return None
    lower, upper = read(message, 1), read(message, 2)
    return None if lower is None or upper is None else (lower, upper)


def _booleans(message: Message | None, there: int) -> tuple[bool, bool] | None:
    """The statistics count the values that are true."""
    trues = None if message is None else next(numbers_of(message, 1), None)
    return None if trues is None else (trues >= there, trues > 0)


def _decimals(pair: tuple[str, str] | None, scale: int) -> tuple[Decimal, Decimal] | None:
    if pair is None:
        return None
    try:
        lower, upper = (values.from_unscaled(values.unscaled(Decimal(each), scale), scale) for each in pair)
    except InvalidOperation as error:
        raise ValueError(f"{pair} are no decimals") from error
    return (lower, upper) if lower <= upper else None


def _timestamps(footer: OrcFooter, message: Message | None, *, nanos: bool) -> tuple[int, int] | None:
    """Old writers wrote milliseconds in their own time zone alone, which the footer does not name: no bounds."""
    if message is None:
        return None
    lower_ms, upper_ms = signed_of(message, 3), signed_of(message, 4)
    if lower_ms is None or upper_ms is None:
        return None
    if not footer.proleptic and lower_ms < _GREGORIAN_START_MS:
        return None
    # The nanoseconds within the millisecond, plus one; those that are not there are the extremes.
    lower_nanos, upper_nanos = int32_of(message, 5), int32_of(message, 6)
    lower = lower_ms * _NANOS_PER_MILLI + (0 if lower_nanos is None else lower_nanos - 1)
    upper = upper_ms * _NANOS_PER_MILLI + (_NANOS_PER_MILLI - 1 if upper_nanos is None else upper_nanos - 1)
    if lower > upper:
        return None
    if nanos:
        return lower, upper
    # Readers differ in how they round before 1970; both results are within these bounds.
    return lower // 1_000, upper // 1_000 if upper >= 0 else -(-upper // 1_000)
