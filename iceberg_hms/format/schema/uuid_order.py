"""The two orders of UUIDs that readers and writers of bounds have.

The specification gives UUIDs no order. Most compare their bytes, as Parquet does; Java, at least up to 1.11, compares
the halves as signed numbers (java.util.UUID.compareTo), so that what begins with 8 to f comes before what begins with 0
to 7. A bound that is written serves all readers only if it bounds the values in both orders; one that is read may be of
either, so it rules out nothing.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

#: The type whose values have two orders (`format.schema.values.kind_of`).
KIND: Final = "uuid"
_HALF: Final = 64
_SIGN: Final = 1 << (_HALF - 1)


def signed(value: UUID) -> tuple[int, int]:
    """A sort key of Java's order; the order of the bytes is Python's own."""
    high, low = divmod(value.int, 1 << _HALF)
    return high ^ _SIGN, low ^ _SIGN


def signs(value: object) -> int:
    """Of a UUID, which of four groups it is in; both orders agree within a group. For null the group of most UUIDs, and
    for what is no UUID."""
    if not isinstance(value, UUID):
        return 1
    return (value.int >> 2 * _HALF - 1) << 1 | value.int >> _HALF - 1 & 1


def shared_bounds(lower: UUID, upper: UUID) -> tuple[UUID | None, UUID | None]:
    """Bounds of values by their bytes, without those that some value between them may exceed in Java's order."""
    (lower_high, lower_low), (upper_high, upper_low) = signed(lower), signed(upper)
    if (lower_high ^ upper_high) & _SIGN:
        return None, None
    # A value with the upper half of a bound may have any lower half that its bytes allow.
    one_sign = lower_high == upper_high and not (lower_low ^ upper_low) & _SIGN
    return (
        lower if one_sign or not lower_low & _SIGN else None,
        upper if one_sign or upper_low & _SIGN else None,
    )
