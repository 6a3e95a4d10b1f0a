"""The partition of a data file, from its footer or from the names of its folders.

A data file belongs to one partition (spec: Partitioning). The footer proves it when the transform of the smallest and
of the largest value are the same, for transforms that keep the order, or when there is only one value. If the footer
proves nothing or the file lacks the column, as in Hive tables, a folder `column=value` gives the value. A caller who
knows the value gives it, for a Hive partition may lie in any folder; what the footer proves must not contradict it.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any

from iceberg_hms.datafiles.column_bounds import ColumnStatistics, is_floating
from iceberg_hms.datafiles.folder_names import hive_folders, unescaped
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import PartitionField
from iceberg_hms.format.schema.transforms import Bucket, UnknownTransform
from iceberg_hms.format.schema.types import NestedField, PrimitiveType

#: Hive's folder name for null.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

#: White space and control characters around a text, which Spark trims.
_TRIMMED = "".join(map(chr, range(0x21)))
_BOOLEANS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
# Python takes 20240131 and 2024-W05 for dates as well, which Spark does not. Spark reads on up to a blank or a T.
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_MOMENT = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(?: ?(Z|[+-]\d{2}(?::?[0-5]\d)?))?)?)?)?",
    re.ASCII,
)
_OFFSET_MAX = timedelta(hours=18)
#: Of a double's bits those that a float lacks, and what they are in the middle of two floats.
_BEYOND_FLOAT, _HALF_OF_THAT = 0x1FFF_FFFF, 0x1000_0000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Unknown:
    """The footer proves nothing. why: for the error if the folders give no value either."""

    why: str


def partition_of(
    location: str,
    metadata: TableMetadata,
    statistics: Mapping[int, ColumnStatistics],
    present: frozenset[int],
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Partition field name -> value by the table's default spec; empty for an unpartitioned table.

    statistics: by the column's field id. present: ids of the columns that the file has. given: the values that the
    caller knows, by field name.
    Raises InvalidInput with the file and the partition field: the file spans partitions, its partition is unknown, or
    it may have rows of another partition than the given one.
    """
    given = given or {}
    folders = {} if given.keys() >= {each.name for each in metadata.spec.fields} else hive_folders(location)
    found: dict[str, Any] = {}
    for field in metadata.spec.fields:
        source = metadata.schema.field(field.source_id)
        if str(field.transform) == "void" or source is None:
            found[field.name] = None
        elif field.name in given:
            found[field.name] = given[field.name]
            if source.id in present:
                _check_given(location, field, source, statistics.get(source.id), given[field.name])
        else:
            found[field.name] = _value(location, field, source, statistics, present, folders)
    return found


def path_columns(location: str, metadata: TableMetadata, given: Mapping[str, Any] | None = None) -> frozenset[int]:
    """Ids of the columns that readers take from the partition instead of the file: identity partition columns with a
    given value that is not null, or with a folder in the path."""
    given, folders = given or {}, hive_folders(location)
    identities = (field for field in metadata.spec.fields if str(field.transform) == "identity")
    return frozenset(
        field.source_id
        for field in identities
        if given.get(field.name) is not None
        or (field.name not in given and _folder(field, metadata, folders) is not None)
    )


def _folder(field: PartitionField, metadata: TableMetadata, folders: Mapping[str, str]) -> str | None:
    column = metadata.schema.name_of(field.source_id)
    return folders.get(field.name, folders.get(column or field.name))


def _value(
    location: str,
    field: PartitionField,
    source: NestedField,
    statistics: Mapping[int, ColumnStatistics],
    present: frozenset[int],
    folders: Mapping[str, str],
) -> Any:
    if isinstance(field.transform, UnknownTransform) or not isinstance(source.type, PrimitiveType):
        raise InvalidInput(f"Cannot write partition field {field.name}: transform {field.transform} is not known")
    text = folders.get(field.name, folders.get(source.name)) if str(field.transform) == "identity" else None
    proved: Any = _Unknown(
        f"column {source.name} is not in the file and no folder of its path is called {source.name}=..."
    )
    if source.id in present:
        proved = _from_footer(location, field, source.type, statistics.get(source.id))
    if not isinstance(proved, _Unknown):
        return proved
    if text is not None:
        return _parse(location, field, source.type, text)
    if source.id not in present and str(field.transform) != "identity" and source.initial_default is None:
        # Readers see null in a column that the file lacks.
        return None
    raise InvalidInput(
        f"{location}: the value of partition field {field.name} is not known: {proved.why}",
        next_step="give a DataFile with its partition values instead of the path",
    )


def _check_given(
    location: str, field: PartitionField, source: NestedField, found: ColumnStatistics | None, value: Any
) -> None:
    """Raises InvalidInput if rows may have another value than the partition. Of an identity field Java's readers take
    the partition's value, and those that follow the spec (Column Projection) the file's: all must be equal."""
    of = source.type
    if not isinstance(of, PrimitiveType):
        return
    proved = _from_footer(location, field, of, found)
    if isinstance(proved, _Unknown):
        if str(field.transform) != "identity":
            return
        why = proved.why
    elif proved == value:
        return
    else:
        why = f"the file has {field.transform.human(proved, field.transform.result_type(of))}"
    shown = field.transform.human(value, field.transform.result_type(of))
    raise InvalidInput(
        f"{location} has the column {source.name}, and is in partition {field.name}={shown}: that its rows have this "
        f"value is not proved, since {why}",
        next_step=f"write the file without the column {source.name}, or with this value in all rows",
    )


def _from_footer(location: str, field: PartitionField, of: PrimitiveType, found: ColumnStatistics | None) -> Any:
    column = f"the footer has no statistics of the column, or they prove nothing for {of}"
    if found is None or found.nulls is None or not found.bounded:
        return _Unknown(column)
    if found.all_null:
        return None
    if found.nulls > 0:
        _refuse(location, field, "null", values.human(of, found.lower))
    if is_floating(of):
        # Footers leave out NaN, so equal bounds do not prove that there is only one value.
        return _Unknown(column)
    transform = field.transform
    if isinstance(transform, Bucket):
        if found.lower != found.upper:
            return _Unknown("the file has several values, and the smallest and the largest do not give the bucket")
        return transform.apply(found.lower, of)
    lowest, highest = transform.apply(found.lower, of), transform.apply(found.upper, of)
    if lowest != highest:
        result = transform.result_type(of)
        _refuse(location, field, transform.human(lowest, result), transform.human(highest, result))
    return lowest


def _refuse(location: str, field: PartitionField, one: str, other: str) -> None:
    raise InvalidInput(
        f"{location} spans partitions: {field.name} goes from {one} to {other}",
        next_step="write one file for each partition, as docs/files.md shows",
    )


def _parse(location: str, field: PartitionField, of: PrimitiveType, text: str) -> Any:
    try:
        value = unescaped(text)
        return None if value == HIVE_NULL else value_of_text(of, value)
    except InvalidInput as error:
        raise InvalidInput(f"{location}: {field.name}={error.message}", next_step=error.next_step) from error


def has_text(of: PrimitiveType) -> bool:
    """Whether `value_of_text` knows how Hive writes values of a type."""
    return of.kind in _PARSERS


def value_of_text(of: PrimitiveType, text: str, *, time_zone: tzinfo | None = None) -> Any:
    """The value of a partition's text, which is not null: the one that Spark's cast makes of it (Cast.scala,
    SparkDateTimeUtils.scala). time_zone: of a timestamptz without one; None: it needs one.
    Raises InvalidInput for a text that Spark refuses, or whose value depends on the reader."""
    parse = _PARSERS.get(of.kind)
    plain = text if of.kind in ("string", "uuid") else text.strip(_TRIMMED)
    # Python parses more than Spark: 1_000, and digits of other scripts.
    odd = of.kind != "string" and ("_" in plain or not plain.isascii())
    if parse is None or odd:
        raise InvalidInput(f"{text} is no value of type {of}")
    try:
        value: Any = _moment(plain, of, time_zone) if of.kind in ("timestamp", "timestamptz") else parse(plain)
        if of.kind == "decimal":
            value = _decimal(value, of)
        # As a reader gets it back: a float has fewer digits than Python's.
        return values.from_bytes(of, values.to_bytes(of, value))
    except (ValueError, InvalidOperation, OverflowError) as error:
        raise InvalidInput(f"{text} is no value of type {of}: {error}") from error


def _decimal(value: Decimal, of: PrimitiveType) -> Decimal:
    unscaled = values.unscaled(value, of.scale)
    if abs(unscaled) >= 10**of.precision:
        raise ValueError(f"it has more than {of.precision} digits")
    return values.from_unscaled(unscaled, of.scale)


def _boolean(text: str) -> bool:
    known = text.lower()
    if known not in _BOOLEANS:
        raise ValueError("neither true nor false")
    return _BOOLEANS[known]


def _date(text: str) -> int:
    parts = _DATE.fullmatch(text)
    if parts is None:
        raise ValueError("it is not written as 2024-01-31")
    return (date(*(int(each or 1) for each in parts.groups())) - _EPOCH.date()).days


def _float(text: str) -> float:
    found = float(text)
    (bits,) = struct.unpack("<Q", struct.pack("<d", found))
    if bits & _BEYOND_FLOAT == _HALF_OF_THAT and Decimal(text) != Decimal(found):
        # Spark rounds the text, and this would be rounded once more.
        raise ValueError("it lies too near to the middle of two floats")
    return found


def _moment(text: str, of: PrimitiveType, time_zone: tzinfo | None) -> int:
    """Microseconds since 1970, UTC for a timestamptz."""
    parts = _MOMENT.fullmatch(text)
    if parts is None:
        raise ValueError("it is not written as 2024-01-31 23:59:59")
    *numbers, fraction, offset = parts.groups()
    year, month, day, hour, minute, second = (int(each or 0) for each in numbers)
    found = datetime(year, month, day, hour, minute, second, int((fraction or "")[:6].ljust(6, "0")), UTC)
    zone = time_zone if offset is None else _zone(offset)
    if of.kind == "timestamptz":
        if zone is None:
            raise ValueError("it has no time zone")
        found = found.replace(tzinfo=zone).astimezone(UTC)
    elif offset is not None:
        raise ValueError("it has a time zone, and the column has none")
    elif zone is not None and not _exists(found, zone):
        # Spark's column has a zone, whose clocks show an hour later.
        raise ValueError(f"the clocks of {zone} skipped it")
    # Not the difference of two in one zone: that is of what its clocks show.
    return (found - _EPOCH) // timedelta(microseconds=1)


def _zone(text: str) -> tzinfo:
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2] or 0), minutes=int(digits[2:] or 0))
    if offset > _OFFSET_MAX:
        raise ValueError("its offset is more than 18 hours")
    return timezone(-offset if text[0] == "-" else offset)


def _exists(local: datetime, zone: tzinfo) -> bool:
    there = local.replace(tzinfo=zone)
    return there.astimezone(UTC).astimezone(zone).replace(tzinfo=UTC) == local


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "boolean": _boolean,
    "int": int,
    "long": int,
    "float": _float,
    "double": float,
    "date": _date,
    "timestamp": str,
    "timestamptz": str,
    "decimal": Decimal,
    "string": str,
    "uuid": uuid.UUID,
}
