"""Partition transforms, which the fields of specs and sort orders apply to a source column (spec: partition
transforms, appendix B).

`parse_transform` accepts any text: a transform that this version does not know becomes an `UnknownTransform`, which
can be written back unchanged, but not applied.
"""

# ruff: noqa: ARG002 - an override takes what its base takes

from __future__ import annotations

import re
import struct
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.json_fields import MAX_INT, shown
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.types import PrimitiveType, Type

_PARAMETER = re.compile(r"(bucket|truncate)\[(-?)(\d+)\]", re.IGNORECASE)
#: The digits of the largest parameter that Java reads, an int.
_MAX_DIGITS = len(str(MAX_INT))
_INT = PrimitiveType("int")
_DATE = PrimitiveType("date")
_MICROS = frozenset({"timestamp", "timestamptz"})
_BITS = {"int": 32, "long": 64}
_NANOS = frozenset({"timestamp_ns", "timestamptz_ns"})
_TIMESTAMPS = _MICROS | _NANOS


@dataclass(frozen=True)
class Transform:
    """Base of all transforms. `str(transform)` is the text that specs store."""

    #: The text of a transform without a parameter; empty: it has one.
    name: ClassVar[str] = ""
    #: Names of the accepted source types, without parameters; empty: all primitive types.
    sources: ClassVar[frozenset[str]] = frozenset()
    #: The type of the partition values; None: that of the source.
    result: ClassVar[PrimitiveType | None] = None
    #: Whether no value's result is less than that of a lesser value.
    keeps_order: ClassVar[bool] = False

    def can_transform(self, source: Type) -> bool:
        """Whether the spec allows a column of this type as the source."""
        return isinstance(source, PrimitiveType) and (not self.sources or values.kind_of(source) in self.sources)

    def result_type(self, source: Type) -> Type:
        """The type of the partition values. Raises InvalidInput if the spec does not allow the source type."""
        if not self.can_transform(source):
            raise InvalidInput(f"Invalid source type {source} for transform: {self}")
        return self.result or source

    def apply(self, value: Any, source: Type) -> Any:
        """The partition value of a column's value (for values see `schema.values`); None stays None.
        Raises InvalidInput for a source type that is not allowed and for a value of another type."""
        self.result_type(source)
        if value is None:
            return None
        try:
            return self._apply(value, source)
        except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
            raise InvalidInput(f"{self} cannot be applied to {value!r} as {source}: {error}") from error

    def apply_in_order(self, bound: Any, source: Type) -> Any:
        """The result for a bound of values, if it bounds their results too; None: it proves nothing of them."""
        return self.apply(bound, source) if self.keeps_order else None

    def human(self, value: Any, result: Type) -> str:
        """A partition value as Java writes it in paths: `2021-04-01-10` for an hour; None is `null`."""
        return "null" if value is None else self._human(value, result)

    def _apply(self, value: Any, source: Type) -> Any:
        raise NotImplementedError

    def _human(self, value: Any, result: Type) -> str:
        return values.human(result, value)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class IdentityTransform(Transform):
    """The value itself."""

    name = "identity"
    keeps_order = True

    def can_transform(self, source: Type) -> bool:
        return super().can_transform(source) and values.kind_of(source) not in ("geometry", "geography", "variant")

    def _apply(self, value: Any, source: Type) -> Any:
        return value


@dataclass(frozen=True)
class Bucket(Transform):
    """Murmur3 hash of the value, modulo `buckets`."""

    buckets: int
    sources = frozenset({"int", "long", "decimal", "date", "time", "string", "uuid", "fixed", "binary"}) | _TIMESTAMPS
    result = _INT

    def _apply(self, value: Any, source: Type) -> int:
        return (hash_value(value, source) & 0x7FFF_FFFF) % self.buckets

    def __str__(self) -> str:
        return f"bucket[{self.buckets}]"


@dataclass(frozen=True)
class Truncate(Transform):
    """Numbers rounded down to a multiple of `width`; strings and binary cut to `width` code points or bytes.

    Below the least int or long the results wrap, as in Java (TruncateUtil): the least int is in a partition near the
    greatest one."""

    width: int
    keeps_order = True
    sources = frozenset({"int", "long", "decimal", "string", "binary"})

    def _apply(self, value: Any, source: Type) -> Any:
        match values.kind_of(source):
            case "int" | "long" as kind:
                limit = 1 << (_BITS[kind] - 1)
                return (value - value % self.width + limit) % (2 * limit) - limit
            case "decimal" if isinstance(source, PrimitiveType):
                number = values.unscaled(value, source.scale)
                return values.from_unscaled(number - number % self.width, source.scale)
            case _:
                return value[: self.width]

    def apply_in_order(self, bound: Any, source: Type) -> Any:
        first = self.first_in_order(source)
        return None if first is not None and bound is not None and bound < first else self.apply(bound, source)

    def first_in_order(self, source: Type) -> int | None:
        """The least int or long from which on results keep the order of their values; None: all do. It is beyond the
        type for ints with a width for which Java's sums wrap: there a partition says nothing of its rows."""
        bits = _BITS.get(values.kind_of(source))
        if bits is None:
            return None
        limit = 1 << (bits - 1)
        if bits == _BITS["int"] and self.width > limit // 2:
            return limit
        return limit % self.width - limit if limit % self.width else None

    def __str__(self) -> str:
        return f"truncate[{self.width}]"


@dataclass(frozen=True)
class Year(Transform):
    """Years from 1970."""

    name = "year"
    keeps_order = True
    sources = _TIMESTAMPS | {"date"}
    result = _INT

    def _apply(self, value: int, source: Type) -> int:
        return values.civil(_days(value, source))[0] - 1970

    def _human(self, value: int, result: Type) -> str:
        return f"{value + 1970:04d}"


@dataclass(frozen=True)
class Month(Transform):
    """Months from 1970-01."""

    name = "month"
    keeps_order = True
    sources = _TIMESTAMPS | {"date"}
    result = _INT

    def _apply(self, value: int, source: Type) -> int:
        year, month, _ = values.civil(_days(value, source))
        return (year - 1970) * 12 + month - 1

    def _human(self, value: int, result: Type) -> str:
        years, month = divmod(value, 12)
        return f"{years + 1970:04d}-{month + 1:02d}"


@dataclass(frozen=True)
class Day(Transform):
    """Days from 1970-01-01; the result is a date."""

    name = "day"
    keeps_order = True
    sources = _TIMESTAMPS | {"date"}
    result = _DATE

    def _apply(self, value: int, source: Type) -> int:
        return _days(value, source)

    def _human(self, value: int, result: Type) -> str:
        return values.date_text(value)


@dataclass(frozen=True)
class Hour(Transform):
    """Hours from 1970-01-01 00:00."""

    name = "hour"
    keeps_order = True
    sources = _TIMESTAMPS
    result = _INT

    def _apply(self, value: int, source: Type) -> int:
        return value // (3_600 * _units_per_second(source))

    def _human(self, value: int, result: Type) -> str:
        days, hour = divmod(value, 24)
        return f"{values.date_text(days)}-{hour:02d}"


@dataclass(frozen=True)
class Void(Transform):
    """Always null: replaces the transform of a partition field that was dropped from a v1 table."""

    name = "void"

    def can_transform(self, source: Type) -> bool:
        return True

    def apply(self, value: Any, source: Type) -> None:
        return None


@dataclass(frozen=True)
class UnknownTransform(Transform):
    """A transform of a later specification: kept unchanged; nothing may be written with it (spec: partitioning)."""

    text: str
    # As in Java: readers ignore the field, and a string holds any text.
    result = PrimitiveType("string")

    def can_transform(self, source: Type) -> bool:
        return True

    def apply(self, value: Any, source: Type) -> Any:
        raise InvalidInput(f"Cannot apply unknown transform: {self.text}")

    def __str__(self) -> str:
        return self.text


_BY_NAME: dict[str, Transform] = {
    str(each): each for each in (IdentityTransform(), Year(), Month(), Day(), Hour(), Void())
}


def parse_transform(text: str) -> Transform:
    """The transform of a text, ignoring case as in Java. An unknown text becomes an `UnknownTransform`.
    Raises InvalidInput for `bucket` and `truncate` if the parameter is not positive, or is larger than Java's int."""
    match = _PARAMETER.fullmatch(text)
    if match:
        digits = match[3].lstrip("0")
        number = int(digits or "0") if len(digits) <= _MAX_DIGITS else MAX_INT + 1
        if match[2] or not 0 < number <= MAX_INT:
            raise InvalidInput(f"Invalid transform {shown(text)}: its parameter must be > 0 and at most {MAX_INT}")
        return Bucket(number) if match[1].lower() == "bucket" else Truncate(number)
    return _BY_NAME.get(text.lower()) or UnknownTransform(text)


def hash_value(value: Any, source: Type) -> int:
    """The unsigned 32-bit hash of a value (spec appendix B). Raises InvalidInput for types without one."""
    name = values.kind_of(source)
    if name in ("int", "long", "date", "time") or name in _MICROS:
        return murmur3(struct.pack("<q", value))
    if name in _NANOS:
        # Hash microseconds, so that a column promoted to nanoseconds keeps its buckets.
        return murmur3(struct.pack("<q", value // 1000))
    if name == "string":
        return murmur3(str.encode(value, "utf-8"))
    if name in ("fixed", "binary"):
        return murmur3(b"" + value)
    if name == "uuid":
        return murmur3(value.bytes if isinstance(value, uuid.UUID) else uuid.UUID(value).bytes)
    if isinstance(source, PrimitiveType) and name == "decimal":
        return murmur3(values.minimal_bytes(values.unscaled(Decimal(value), source.scale)))
    raise InvalidInput(f"Type {source} cannot be hashed for bucketing")


def murmur3(data: bytes) -> int:
    """Murmur3, 32 bits, x86 variant, seed 0; unsigned."""
    mask = 0xFFFF_FFFF
    value = 0
    whole = len(data) - len(data) % 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * 0xCC9E_2D51 & mask
        mixed = (mixed << 15 | mixed >> 17) & mask
        value ^= mixed * 0x1B87_3593 & mask
        value = (value << 13 | value >> 19) & mask
        value = (value * 5 + 0xE654_6B64) & mask
    if whole < len(data):
        mixed = int.from_bytes(data[whole:], "little") * 0xCC9E_2D51 & mask
        mixed = (mixed << 15 | mixed >> 17) & mask
        value ^= mixed * 0x1B87_3593 & mask
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EB_CA6B & mask
    value = (value ^ value >> 13) * 0xC2B2_AE35 & mask
    return value ^ value >> 16


def _units_per_second(source: Type) -> int:
    return 1_000_000_000 if values.kind_of(source) in _NANOS else 1_000_000


def _days(value: int, source: Type) -> int:
    if values.kind_of(source) == "date":
        return value
    return value // (86_400 * _units_per_second(source))
