"""Random legal updates: each is made for the metadata that it is applied to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from iceberg_hms.format.metadata.table_metadata import TableMetadata

Update = dict[str, Any]
TYPES = ["int", "long", "string", "timestamp", "decimal(9, 2)", "date"]


def add_column(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    fields = [*metadata.schema.raw["fields"]]
    new = {
        "id": metadata.last_column_id + 1,
        "name": f"c{step}",
        "required": False,
        "type": draw(st.sampled_from(TYPES)),
    }
    schema = {**metadata.schema.raw, "fields": [*fields, new]}
    return [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]


def use_an_old_schema(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    schema = draw(st.sampled_from(metadata.schemas))
    sources = {field.source_id for field in metadata.spec.fields} | {f.source_id for f in metadata.sort_order.fields}
    if any(schema.field(source) is None for source in sources):
        return []
    return [{"action": "set-current-schema", "schema-id": schema.schema_id}]


def add_spec(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    column = draw(st.sampled_from(metadata.schema.fields))
    transform = draw(st.sampled_from(["bucket[4]", "bucket[8]", "void"]))
    field = {"source-id": column.id, "transform": transform, "name": f"{column.name}_{transform[:-1]}"}
    if metadata.format_version > 1:
        known = [
            f
            for spec in metadata.specs
            for f in spec.fields
            if (f.source_id, str(f.transform)) == (column.id, transform)
        ]
        field["field-id"] = max((f.field_id for f in known), default=metadata.last_partition_id + 1)
    updates: list[Update] = [{"action": "add-spec", "spec": {"spec-id": 77, "fields": [field]}}]
    known_too = any(_alike(spec.raw["fields"], [field]) for spec in metadata.specs)
    return updates if known_too else [*updates, {"action": "set-default-spec", "spec-id": -1}]


def add_sort_order(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    column = draw(st.sampled_from(metadata.schema.fields))
    direction = draw(st.sampled_from(["asc", "desc"]))
    field = {"source-id": column.id, "transform": "identity", "direction": direction, "null-order": "nulls-last"}
    updates: list[Update] = [{"action": "add-sort-order", "sort-order": {"order-id": 9, "fields": [field]}}]
    known = any(_alike(order.raw["fields"], [field]) for order in metadata.sort_orders)
    return updates if known else [*updates, {"action": "set-default-sort-order", "sort-order-id": -1}]


def add_snapshot(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    branch = draw(st.sampled_from(["main", "audit", None]))
    parent = metadata.refs.get(branch or "main")
    snapshot: dict[str, Any] = {
        "snapshot-id": 1_000_000 + step + len(metadata.snapshots) * 1000,
        "timestamp-ms": metadata.last_updated_ms + draw(st.integers(0, 1000)),
        "manifest-list": f"s3://a/{step}.avro",
        "summary": {"operation": "append"},
        "schema-id": metadata.current_schema_id,
    }
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent.snapshot_id
    if metadata.format_version > 1:
        snapshot["sequence-number"] = metadata.next_sequence_number
    if metadata.format_version > 2:
        snapshot |= {"first-row-id": metadata.next_row_id, "added-rows": draw(st.integers(0, 50))}
    updates: list[Update] = [{"action": "add-snapshot", "snapshot": snapshot}]
    if branch is not None:
        ref = {"ref-name": branch, "type": "branch", "snapshot-id": snapshot["snapshot-id"]}
        updates.append({"action": "set-snapshot-ref", **ref})
    return updates


def move_ref(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    if not metadata.snapshots:
        return []
    snapshot = draw(st.sampled_from(list(metadata.snapshots)))
    name = draw(st.sampled_from(["main", "audit", "kept"]))
    type_ = "tag" if name == "kept" else "branch"
    return [{"action": "set-snapshot-ref", "ref-name": name, "type": type_, "snapshot-id": snapshot.snapshot_id}]


def remove_ref(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    return [{"action": "remove-snapshot-ref", "ref-name": draw(st.sampled_from(["main", "audit", "kept", "none"]))}]


def remove_snapshots(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    ids = [
        snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.snapshot_id != metadata.current_snapshot_id
    ]
    return [{"action": "remove-snapshots", "snapshot-ids": draw(st.lists(st.sampled_from([*ids, 5]), max_size=2))}]


def properties(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    names = st.sampled_from(["a", "b", "c"])
    return [
        {"action": "set-properties", "updates": draw(st.dictionaries(names, st.text("xy", max_size=2)))},
        {"action": "remove-properties", "removals": draw(st.lists(names, max_size=2))},
    ]


def location(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    return [{"action": "set-location", "location": draw(st.sampled_from(["s3://a/b", "file:/c d"]))}]


def upgrade(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    version = draw(st.integers(metadata.format_version, 3))
    return [{"action": "upgrade-format-version", "format-version": version}]


def statistics(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    snapshot_id = draw(st.sampled_from([snapshot.snapshot_id for snapshot in metadata.snapshots] or [1]))
    file: dict[str, Any] = {"snapshot-id": snapshot_id, "statistics-path": f"s3://s/{step}", "file-size-in-bytes": 9}
    full = {**file, "file-footer-size-in-bytes": 4, "blob-metadata": []}
    return draw(
        st.sampled_from(
            [
                [{"action": "set-statistics", "statistics": full}],
                [{"action": "remove-statistics", "snapshot-id": snapshot_id}],
                [{"action": "set-partition-statistics", "partition-statistics": file}],
                [{"action": "remove-partition-statistics", "snapshot-id": snapshot_id}],
            ]
        )
    )


def remove_unused(draw: st.DrawFn, metadata: TableMetadata, step: int) -> list[Update]:
    schemas = [schema.schema_id for schema in metadata.schemas if schema.schema_id != metadata.current_schema_id]
    specs = [spec.spec_id for spec in metadata.specs if spec.spec_id != metadata.default_spec_id]
    return [
        {"action": "remove-schemas", "schema-ids": schemas[:1]},
        {"action": "remove-partition-specs", "spec-ids": specs[:1]},
    ]


KINDS: list[Callable[[st.DrawFn, TableMetadata, int], list[Update]]] = [
    *(add_column, use_an_old_schema, add_spec, add_sort_order, add_snapshot, add_snapshot, move_ref, remove_ref),
    *(remove_snapshots, properties, location, upgrade, statistics, remove_unused),
]


def _alike(fields: list[Update], others: list[Update]) -> bool:
    keys = ("source-id", "transform", "name", "direction", "null-order")
    return [[f.get(key) for key in keys] for f in fields] == [[f.get(key) for key in keys] for f in others]
