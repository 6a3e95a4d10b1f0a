"""Updates of schemas, partition specs and sort orders, as Java's TableMetadata.Builder makes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from iceberg_hms.errors import DoesNotFit, InvalidInput
from iceberg_hms.format.schema.new_schemas import new_table_schema
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import UNSORTED_ORDER_ID, SortField, SortOrder
from iceberg_hms.format.schema.transforms import UnknownTransform, Void
from iceberg_hms.format.schema.values import kind_of
from iceberg_hms.format.updates.draft import MetadataDraft

#: The types of partition values that all readers of manifests read alike. Java has a length before a fixed value,
#: against its own schema (apache/iceberg#17501).
_STORED: Final = frozenset(
    {"boolean", "int", "long", "float", "double", "decimal", "string", "uuid", "binary", "unknown"}
    | {"date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
)


@dataclass(frozen=True, slots=True)
class IdList:
    """A list of the metadata whose entries have ids and of which the table uses one, and what messages call it.

    key: its name in the JSON. id_key: the field of an update with the id of an entry. chosen_key: the JSON field with
    the id of the entry that the table uses. entry: what one entry is called; chosen: what the one is called that the
    table uses.
    """

    key: str
    id_key: str
    chosen_key: str
    entry: str
    chosen: str

    def choose(self, draft: MetadataDraft, update: Mapping[str, Any]) -> None:
        """`set-current-schema` and its like: -1 is the entry that this request added last. Raises DoesNotFit for an id
        that is not in the list, and for the id of an entry of this request that another writer's entry has by now."""
        id_ = draft.resolve_id(self.key, update[self.id_key], self.entry)
        for key, sent, found in draft.reassigned_ids if draft.base is not None else ():
            if (key, sent) == (self.key, id_):
                raise DoesNotFit(
                    f"Cannot set {self.chosen} to {id_}: the {self.entry} that was sent as {sent} is {found}"
                )
        if id_ not in draft.entries(self.key):
            raise DoesNotFit(f"Cannot set {self.chosen} to unknown {self.entry}: {id_}")
        draft.put(self.chosen_key, id_)

    def remove(self, draft: MetadataDraft, update: Mapping[str, Any]) -> list[Any]:
        """`remove-schemas` and its like: ignores unknown ids, and returns what it removed. Raises DoesNotFit for the
        entry that the table uses."""
        removed = set(update[f"{self.id_key}s"])
        if draft.raw[self.chosen_key] in removed:
            raise DoesNotFit(f"Cannot remove the {self.chosen}")
        entries = draft.entries(self.key)
        gone = [entry for id_ in removed for entry in entries.remove(id_)]
        draft.changed = draft.changed or bool(gone)
        return gone


SCHEMAS = IdList("schemas", "schema-id", "current-schema-id", entry="schema", chosen="current schema")
SPECS = IdList("partition-specs", "spec-id", "default-spec-id", entry="spec", chosen="default partition spec")
SORT_ORDERS = IdList(
    "sort-orders", "sort-order-id", "default-sort-order-id", entry="sort order", chosen="default sort order"
)


def add_schema(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`add-schema`: if the table has an equal schema, that one is used. `last-column-id` never falls; the request's
    `last-column-id` is ignored, as in Java since 1.8."""
    schema = new_table_schema(update.get("schema"), draft.format_version, draft.schemas)
    same = draft.schemas.same_as(schema)
    if same is None:
        schema_id = draft.schemas.next_id(0)
        draft.schemas.add(schema.with_id(schema_id))
        draft.changed = True
    else:
        schema_id = same.schema_id
    draft.put("last-column-id", max(draft.raw["last-column-id"], schema.highest_field_id))
    draft.record_added("schemas", schema_id, schema.raw.get("schema-id"))


def add_spec(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`add-spec`: if the table has an equivalent spec, that one is used. Fields without an id get the id of an equal
    field of another spec, else the next one after `last-partition-id` (spec: Partitioning)."""
    spec = PartitionSpec.parse(update.get("spec"))
    same = draft.specs.same_as(spec)
    if same is not None:
        draft.record_added("partition-specs", same.spec_id, spec.raw.get("spec-id"))
        return
    _check_transforms(spec.fields)
    spec.check_names()
    schema = draft.current_schema
    with _judged(draft):
        _check_identity_names(spec, schema)
        spec.check_compatible(schema)
        _check_values(spec, schema)
    spec_id = draft.specs.next_id(0)
    ids = _field_ids(draft, spec)
    new = PartitionSpec.of(map(_with_field_id, spec.fields, ids), spec_id=spec_id)
    _check_field_ids(draft, new)
    fields = draft.partition_field_ids
    draft.specs.add(new)
    fields.add(new)
    draft.changed = True
    draft.put("last-partition-id", max(draft.raw["last-partition-id"], new.last_field_id))
    draft.record_added("partition-specs", spec_id, spec.raw.get("spec-id"))


def remove_partition_specs(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`remove-partition-specs`: as `IdList.remove`."""
    fields = draft.partition_field_ids
    for spec in SPECS.remove(draft, update):
        fields.remove(spec)


def add_sort_order(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`add-sort-order`: if the table has an equal order, that one is used; the unsorted order's id is 0."""
    order = SortOrder.parse(update.get("sort-order"))
    if order.is_unsorted and order.order_id != UNSORTED_ORDER_ID:
        raise InvalidInput(f"Unsorted order ID must be 0, but is {order.order_id}")
    same = draft.sort_orders.same_as(order)
    if same is not None:
        draft.record_added("sort-orders", same.order_id, order.raw.get("order-id"))
        return
    _check_transforms(order.fields)
    schema = draft.current_schema
    with _judged(draft):
        order.check_compatible(schema)
    order_id = UNSORTED_ORDER_ID
    if not order.is_unsorted:
        order_id = draft.sort_orders.next_id(UNSORTED_ORDER_ID + 1)
    draft.sort_orders.add(SortOrder.of(order.fields, order_id=order_id))
    draft.changed = True
    draft.record_added("sort-orders", order_id, order.raw.get("order-id"))


def check_layout(draft: MetadataDraft) -> None:
    """Raises InvalidInput unless the default spec and order exist and fit the current schema; DoesNotFit if one of the
    three is the table's."""
    schema = draft.current_schema
    spec = draft.default_spec
    order = draft.sort_orders.get(draft.raw["default-sort-order-id"])
    if order is None:
        raise InvalidInput("a sort order must be added first")
    for each, chosen in (spec, SPECS), (order, SORT_ORDERS):
        with _judged(draft, chosen):
            each.check_compatible(schema)


@contextmanager
def _judged(draft: MetadataDraft, *chosen: IdList) -> Iterator[None]:
    """For a body that checks an entry of the request, or the chosen ones of lists, against the current schema. What it
    raises becomes DoesNotFit unless the request has added all of them: then no other writer can be the cause."""
    try:
        yield
    except InvalidInput as error:
        if all(draft.last_added.get(each.key) == draft.raw[each.chosen_key] for each in (SCHEMAS, *chosen)):
            raise
        raise DoesNotFit(error.message, next_step=error.next_step or None) from error


def _check_transforms(fields: Iterable[PartitionField | SortField]) -> None:
    # Unknown transforms of existing specs are kept; nobody could write data with a new one (spec: Partitioning).
    for field in fields:
        if isinstance(field.transform, UnknownTransform):
            several = " of several columns" if field.more_source_ids else ""
            raise InvalidInput(f"Unknown transform: {field.transform}{several}")


def _check_values(spec: PartitionSpec, schema: Schema) -> None:
    """Raises InvalidInput for a field whose values not all readers find in a manifest."""
    for field, result in zip(spec.fields, spec.partition_type(schema).fields, strict=True):
        kind = kind_of(result.type)
        # A field that was dropped from a table of version 1 has no values.
        if kind not in _STORED and not (kind == "fixed" and isinstance(field.transform, Void)):
            raise InvalidInput(
                f"Cannot partition by {field.transform} of {schema.name_of(field.source_id)}: readers of manifests do "
                f"not agree on the form of values of type {result.type}",
                next_step="partition by bucket of the column, or by a column of type binary",
            )


def _check_identity_names(spec: PartitionSpec, schema: Schema) -> None:
    for field in spec.fields:
        column = schema.find(field.name)
        if column is not None and column.id != field.source_id:
            raise InvalidInput(f"Cannot create identity partition sourced from different field in schema: {field.name}")


def _field_ids(draft: MetadataDraft, spec: PartitionSpec) -> list[int]:
    if draft.format_version == 1:
        return [field.field_id for field in spec.fields]
    given = [raw.get("field-id") for raw in spec.raw["fields"]]
    used = {field_id for field_id in given if field_id is not None}
    last = max(draft.raw["last-partition-id"], *used, 0)
    ids = []
    for field, field_id in zip(spec.fields, given, strict=True):
        if field_id is None:
            field_id = draft.partition_field_ids.id_of(field)
            if field_id is None or field_id in used:
                last += 1
                field_id = last
            used.add(field_id)
        ids.append(field_id)
    return ids


def _with_field_id(field: PartitionField, field_id: int) -> PartitionField:
    return replace(field, field_id=field_id)


def _check_field_ids(draft: MetadataDraft, spec: PartitionSpec) -> None:
    if draft.format_version == 1:
        if not spec.has_sequential_ids():
            raise InvalidInput(f"Spec does not use sequential IDs that are required in v1: {spec}")
        return
    if len({field.field_id for field in spec.fields}) < len(spec.fields):
        raise InvalidInput(f"Partition field ids must be unique: {spec}")
    # A table upgraded from v1 may have several fields with one id; the new field may equal any of them.
    for field in spec.fields:
        if draft.partition_field_ids.belongs_to_another(field):
            raise DoesNotFit(f"Partition field id {field.field_id} belongs to another field already: {field}")
