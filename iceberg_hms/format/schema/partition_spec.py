"""Partition specs: how rows are assigned to partitions (spec: Partitioning)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import Transform, UnknownTransform, parse_transform
from iceberg_hms.format.schema.types import UNKNOWN, NestedField, PrimitiveType, StructType

#: Partition field ids start here; `last-partition-id` of a table without partition fields is one less.
FIRST_PARTITION_FIELD_ID: Final = 1000


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a spec.

    source_id: the id of the column; the first one of a transform with several arguments (v3 `source-ids`).
    field_id: the id of the field in partition tuples, 1000 and up.
    transform: from the column's value to the partition's. No transform with several arguments is known.
    name: unique in the spec.
    more_source_ids: the other columns of a transform with several arguments.
    """

    source_id: int
    field_id: int
    transform: Transform
    name: str
    more_source_ids: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """In Java's order: the text of a table's default spec is a parameter of its row."""
        return {
            "name": self.name,
            "transform": str(self.transform),
            **sources_to_json((self.source_id, *self.more_source_ids)),
            "field-id": self.field_id,
        }

    def __str__(self) -> str:
        sources = ", ".join(str(each) for each in (self.source_id, *self.more_source_ids))
        return f"{self.field_id}: {self.name}: {self.transform}({sources})"


class PartitionSpec:
    """One partition spec of a table: an immutable view of its JSON form.

    raw: the JSON object, including unknown fields; never change it.
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
        fields = tuple(fields)
        return cls({"spec-id": spec_id, "fields": [field.to_json() for field in fields]}, fields)

    @property
    def spec_id(self) -> int:
        return self.raw.get("spec-id") or 0

    @property
    def is_unpartitioned(self) -> bool:
        """True without fields, or if all of them are void, which is how v1 drops a field."""
        return all(str(field.transform) == "void" for field in self.fields)

    @property
    def last_field_id(self) -> int:
        """The largest partition field id; 999 without fields."""
        return max((field.field_id for field in self.fields), default=FIRST_PARTITION_FIELD_ID - 1)

    def field(self, field_id: int) -> PartitionField | None:
        return next((field for field in self.fields if field.field_id == field_id), None)

    def partition_type(self, schema: Schema) -> StructType:
        """The type of this spec's partition tuples. A field whose column was dropped has type unknown."""
        return StructType(tuple(_tuple_field(field, schema) for field in self.fields))

    def with_id(self, spec_id: int, field_ids: Iterable[int] | None = None) -> PartitionSpec:
        """The same spec under another id, with explicit field ids; `field_ids` replaces them, in order."""
        ids = [field.field_id for field in self.fields] if field_ids is None else list(field_ids)
        fields = [{**raw, "field-id": new} for raw, new in zip(self.raw["fields"], ids, strict=True)]
        return PartitionSpec.parse({**self.raw, "spec-id": spec_id, "fields": fields})

    @property
    def content(self) -> str:
        """What two specs share that partition rows the same way: equal columns, transforms and names in the same order,
        whatever the ids (spec: Partitioning, equivalent specs)."""
        return repr([_identity(field) for field in self.fields])

    def has_sequential_ids(self) -> bool:
        """True if the field ids are 1000, 1001, ..., as v1 requires."""
        return all(field.field_id == FIRST_PARTITION_FIELD_ID + at for at, field in enumerate(self.fields))

    def check_compatible(self, schema: Schema) -> None:
        """Raises InvalidInput if this spec cannot partition tables of a schema: a column is missing, is not a
        primitive, is inside a list or map, or the transform does not accept its type."""
        for field in self.fields:
            _check_source(field, schema)

    def check_names(self) -> None:
        """Raises InvalidInput if a field has no name, or the name of another field of this spec."""
        seen: set[str] = set()
        for field in self.fields:
            if not field.name:
                raise InvalidInput("Cannot use empty partition name")
            if field.name in seen:
                raise InvalidInput(f"Cannot use partition name more than once: {field.name}")
            seen.add(field.name)

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
    source_id, *more = source_ids_of(raw, what)
    return PartitionField(
        source_id=source_id,
        field_id=FIRST_PARTITION_FIELD_ID + position if field_id is None else field_id,
        transform=transform_of(raw, what, arguments=1 + len(more)),
        name=name,
        more_source_ids=tuple(more),
    )


def source_ids_of(raw: Mapping[str, Any], what: str) -> Sequence[int]:
    """The column ids of a partition or sort field: `source-id`, or v3's `source-ids`. Raises InvalidInput."""
    if raw.get("source-ids") is None:
        return [read.require_int(raw, "source-id", what)]
    ids = read.require_int_list(raw, "source-ids", what)
    if not ids:
        raise InvalidInput(f"{what}: source-ids must not be empty")
    if len(ids) == 1 and "source-id" in raw:
        return [read.require_int(raw, "source-id", what)]
    return ids


def transform_of(raw: Mapping[str, Any], what: str, *, arguments: int) -> Transform:
    """The transform of a partition or sort field. With more than one argument it is an `UnknownTransform`, whatever
    its text: `bucket[16]` of two columns is not `bucket[16]` of the first (spec: Partition Transforms)."""
    text = read.require_str(raw, "transform", what)
    return parse_transform(text) if arguments == 1 else UnknownTransform(text)


def sources_to_json(source_ids: Sequence[int]) -> dict[str, Any]:
    """`source-id` for one column, `source-ids` for several (spec: Appendix C, Partition Specs)."""
    return {"source-id": source_ids[0]} if len(source_ids) == 1 else {"source-ids": list(source_ids)}


def _identity(field: PartitionField) -> tuple[int, tuple[int, ...], str, str]:
    return field.source_id, field.more_source_ids, str(field.transform), field.name


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
    for parent in schema.ancestors_of(source.id):
        if not isinstance(parent.type, StructType):
            raise InvalidInput(f"Invalid partition field parent: {parent}")
    field.transform.result_type(source.type)


class PartitionFieldIds:
    """Which ids the partition fields of a table have (spec: Partitioning): equal fields of different specs share one. A
    table upgraded from v1 may have several fields with one id, and several ids of equal fields."""

    def __init__(self, specs: Iterable[PartitionSpec]) -> None:
        # How many specs have a field so, by its identity and its id.
        self._ids: dict[str, dict[int, int]] = {}
        self._identities: dict[int, dict[str, int]] = {}
        for spec in specs:
            self.add(spec)

    def id_of(self, field: PartitionField) -> int | None:
        """The id that an equal field got last; None if there is none."""
        ids = self._ids.get(_source_and_transform(field))
        return next(reversed(ids)) if ids else None

    def belongs_to_another(self, field: PartitionField) -> bool:
        """Whether the id of this field is that of other fields, and of no equal one."""
        known = self._identities.get(field.field_id)
        return bool(known) and _source_and_transform(field) not in (known or ())

    def add(self, spec: PartitionSpec) -> None:
        for field in spec.fields:
            identity, id_ = _source_and_transform(field), field.field_id
            ids, identities = self._ids.setdefault(identity, {}), self._identities.setdefault(id_, {})
            # Put in anew, so that the last one is last.
            ids[id_] = ids.pop(id_, 0) + 1
            identities[identity] = identities.get(identity, 0) + 1

    def remove(self, spec: PartitionSpec) -> None:
        """Of a spec that was added."""
        for field in spec.fields:
            identity, id_ = _source_and_transform(field), field.field_id
            _lower(self._ids[identity], id_)
            _lower(self._identities[id_], identity)


def _source_and_transform(field: PartitionField) -> str:
    # As text, which Python hashes with a secret: nobody can make up fields that collide.
    return f"{field.source_id} {field.more_source_ids} {field.transform}"


def _lower(counts: dict[int, int] | dict[str, int], key: int | str) -> None:
    counts[key] -= 1  # type: ignore[index]
    if not counts[key]:  # type: ignore[index]
        del counts[key]  # type: ignore[arg-type]
