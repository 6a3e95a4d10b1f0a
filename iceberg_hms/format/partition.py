"""Partition specs: how rows are put into partitions (spec: Partitioning)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import raw as read
from iceberg_hms.format.schema import Schema
from iceberg_hms.format.transforms import Transform, parse_transform
from iceberg_hms.format.types import UNKNOWN, NestedField, PrimitiveType, StructType

#: Partition field ids start here; `last-partition-id` of a table without partition fields is one less.
FIRST_PARTITION_FIELD_ID: Final = 1000


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a spec.

    source_id: the id of the column; of a transform with several arguments (v3 `source-ids`) the first one.
    field_id: the id of the field in partition tuples, 1000 and up.
    transform: how the column's value becomes the partition's.
    name: unique in the spec.
    """

    source_id: int
    field_id: int
    transform: Transform
    name: str

    def to_json(self) -> dict[str, Any]:
        return {
            "source-id": self.source_id,
            "field-id": self.field_id,
            "transform": str(self.transform),
            "name": self.name,
        }

    def __str__(self) -> str:
        return f"{self.field_id}: {self.name}: {self.transform}({self.source_id})"


class PartitionSpec:
    """One partition spec of a table: an immutable view of its JSON form.

    raw: the JSON object, with fields that we do not know; never change it.
    """

    def __init__(self, raw: Mapping[str, Any], fields: tuple[PartitionField, ...]) -> None:
        self.raw = raw
        self.fields = fields

    @classmethod
    def parse(cls, raw: Any) -> PartitionSpec:
        """The spec of a JSON object. Fields without an id, as in v1, get 1000, 1001, ... in their order.

        Raises InvalidInput that names the field.
        """
        raw = read.require_object(raw, "partition spec")
        read.optional_int(raw, "spec-id", "partition spec")
        fields = read.require_list(raw, "fields", "partition spec")
        return cls(raw, tuple(_parse_field(field, position) for position, field in enumerate(fields)))

    @classmethod
    def of(cls, fields: Iterable[PartitionField], *, spec_id: int = 0) -> PartitionSpec:
        """A spec of fields."""
        fields = tuple(fields)
        return cls({"spec-id": spec_id, "fields": [field.to_json() for field in fields]}, fields)

    @property
    def spec_id(self) -> int:
        return self.raw.get("spec-id") or 0

    @property
    def is_unpartitioned(self) -> bool:
        """True without fields, or if all of them are void (v1's way to drop a field)."""
        return all(str(field.transform) == "void" for field in self.fields)

    @property
    def last_field_id(self) -> int:
        """The largest partition field id; 999 without fields."""
        return max((field.field_id for field in self.fields), default=FIRST_PARTITION_FIELD_ID - 1)

    def field(self, field_id: int) -> PartitionField | None:
        """The field with an id, or None."""
        return next((field for field in self.fields if field.field_id == field_id), None)

    def partition_type(self, schema: Schema) -> StructType:
        """The type of this spec's partition tuples. A field whose column was dropped has type unknown."""
        return StructType(tuple(_tuple_field(field, schema) for field in self.fields))

    def with_id(self, spec_id: int, field_ids: Iterable[int] | None = None) -> PartitionSpec:
        """The same spec under another id, with the field ids written out; `field_ids` gives other ones, in order."""
        ids = [field.field_id for field in self.fields] if field_ids is None else list(field_ids)
        fields = [{**raw, "field-id": new} for raw, new in zip(self.raw["fields"], ids, strict=True)]
        return PartitionSpec.parse({**self.raw, "spec-id": spec_id, "fields": fields})

    def compatible_with(self, other: PartitionSpec) -> bool:
        """True if both partition alike: equal columns, transforms and names in the same order, whatever the ids
        (spec: Partitioning, equivalent specs)."""
        return [_identity(field) for field in self.fields] == [_identity(field) for field in other.fields]

    def has_sequential_ids(self) -> bool:
        """True if the field ids are 1000, 1001, ... as v1 needs them."""
        return all(field.field_id == FIRST_PARTITION_FIELD_ID + at for at, field in enumerate(self.fields))

    def check_compatible(self, schema: Schema) -> None:
        """Raises InvalidInput if this spec cannot partition tables of a schema: a column is missing, is not a
        primitive, is inside of a list or map, or the transform does not take its type."""
        for field in self.fields:
            _check_source(field, schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self.spec_id == other.spec_id and self.fields == other.fields

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PartitionSpec({self.spec_id}: [{', '.join(str(field) for field in self.fields)}])"


UNPARTITIONED: Final = PartitionSpec.of(())


def _parse_field(raw: Any, position: int) -> PartitionField:
    raw = read.require_object(raw, "partition field")
    name = read.require_str(raw, "name", "partition field")
    what = f"partition field {name!r}"
    field_id = read.optional_int(raw, "field-id", what)
    return PartitionField(
        source_id=source_id_of(raw, what),
        field_id=FIRST_PARTITION_FIELD_ID + position if field_id is None else field_id,
        transform=parse_transform(read.require_str(raw, "transform", what)),
        name=name,
    )


def source_id_of(raw: Mapping[str, Any], what: str) -> int:
    """The column id of a partition or sort field; the first one of v3 `source-ids`. Raises InvalidInput."""
    if "source-id" not in raw and raw.get("source-ids") is not None:
        ids = read.require_int_list(raw, "source-ids", what)
        if not ids:
            raise InvalidInput(f"{what}: source-ids must not be empty")
        return ids[0]
    return read.require_int(raw, "source-id", what)


def _identity(field: PartitionField) -> tuple[int, str, str]:
    return field.source_id, str(field.transform), field.name


def _tuple_field(field: PartitionField, schema: Schema) -> NestedField:
    source = schema.field(field.source_id)
    type_ = UNKNOWN if source is None else field.transform.result_type(source.type)
    return NestedField(field.field_id, field.name, type_)


def _check_source(field: PartitionField, schema: Schema) -> None:
    source = schema.field(field.source_id)
    if source is None:
        if str(field.transform) == "void":
            return
        raise InvalidInput(f"Cannot find source column for partition field: {field}")
    if not isinstance(source.type, PrimitiveType):
        raise InvalidInput(f"Cannot partition by non-primitive source field: {source}")
    parent = schema.parent_of(source.id)
    while parent is not None:
        if not isinstance(parent.type, StructType):
            raise InvalidInput(f"Invalid partition field parent: {parent}")
        parent = schema.parent_of(parent.id)
    field.transform.result_type(source.type)
