"""Sort orders: how writers should sort rows within files (spec: Sorting)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.schema.partition_spec import source_ids_of, sources_to_json, transform_of
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import Transform
from iceberg_hms.format.schema.types import PrimitiveType

#: The reserved id of the order without fields.
UNSORTED_ORDER_ID: Final = 0


@dataclass(frozen=True, slots=True)
class SortField:
    """One field of an order.

    source_id: the id of the column; more_source_ids: the other columns of a transform with several arguments (v3).
    direction: "asc" or "desc". null_order: "nulls-first" or "nulls-last".
    """

    source_id: int
    transform: Transform
    direction: str
    null_order: str
    more_source_ids: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "transform": str(self.transform),
            **sources_to_json((self.source_id, *self.more_source_ids)),
            "direction": self.direction,
            "null-order": self.null_order,
        }

    def __str__(self) -> str:
        sources = ", ".join(str(each) for each in (self.source_id, *self.more_source_ids))
        return f"{self.transform}({sources}) {self.direction} {self.null_order}"


class SortOrder:
    """One sort order of a table: an immutable view of its JSON form.

    raw: the JSON object, including unknown fields; never change it.
    """

    def __init__(self, raw: Mapping[str, Any], fields: tuple[SortField, ...]) -> None:
        self.raw = raw
        self.fields = fields

    @classmethod
    def parse(cls, raw: Any) -> SortOrder:
        """The order of a JSON object. Raises InvalidInput that names the field."""
        raw = read.require_object(raw, "sort order")
        order_id = read.optional_int(raw, "order-id", "sort order")
        fields = read.require_list(raw, "fields", "sort order")
        if fields and order_id == UNSORTED_ORDER_ID:
            raise InvalidInput("Sort order ID 0 is reserved for unsorted order")
        return cls(raw, tuple(_parse_field(field) for field in fields))

    @classmethod
    def of(cls, fields: Iterable[SortField], *, order_id: int = 1) -> SortOrder:
        """An order of fields; without fields it is the unsorted order, whose id is 0."""
        fields = tuple(fields)
        raw = {
            "order-id": order_id if fields else UNSORTED_ORDER_ID,
            "fields": [field.to_json() for field in fields],
        }
        return cls.parse(raw)

    @property
    def order_id(self) -> int:
        return self.raw.get("order-id") or UNSORTED_ORDER_ID

    @property
    def is_unsorted(self) -> bool:
        return not self.fields

    @property
    def content(self) -> str:
        """What two orders share that sort rows the same way, whatever the ids."""
        return repr(self.fields)

    def with_id(self, order_id: int) -> SortOrder:
        return SortOrder({**self.raw, "order-id": order_id}, self.fields)

    def check_compatible(self, schema: Schema) -> None:
        """Raises InvalidInput if this order cannot sort rows of a schema: a column is missing or is not a primitive, or
        the transform does not accept its type."""
        for field in self.fields:
            source = schema.field(field.source_id)
            if source is None:
                raise InvalidInput(f"Cannot find source column for sort field: {field}")
            if not isinstance(source.type, PrimitiveType):
                raise InvalidInput(f"Cannot sort by non-primitive source field: {source}")
            field.transform.result_type(source.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SortOrder) and self.order_id == other.order_id and self.fields == other.fields

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SortOrder({self.order_id}: [{', '.join(str(field) for field in self.fields)}])"


UNSORTED: Final = SortOrder.of(())


def _parse_field(raw: Any) -> SortField:
    what = "sort field"
    raw = read.require_object(raw, what)
    source_id, *more = source_ids_of(raw, what)
    return SortField(
        source_id=source_id,
        transform=transform_of(raw, what, arguments=1 + len(more)),
        direction=_one_of(raw, "direction", ("asc", "desc")),
        null_order=_one_of(raw, "null-order", ("nulls-first", "nulls-last")),
        more_source_ids=tuple(more),
    )


def _one_of(raw: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    value = read.require_str(raw, key, "sort field").lower()
    if value not in allowed:
        raise InvalidInput(f"sort field: {key} must be {' or '.join(allowed)}, but is {raw[key]!r}")
    return value
