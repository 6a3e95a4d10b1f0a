"""The working copy of `apply`: it copies what updates change, and shares the base's objects for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.rows import Rows, SnapshotIndex
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import SortOrder

#: In set-current-schema, set-default-spec and set-default-sort-order: what this request added last.
LAST_ADDED = -1


class MetadataDraft:
    """One run of `apply`.

    raw: the new metadata's JSON so far. Its lists and objects may be the base's: get them by `mutable_list` or
    `mutable_object` before changing them. Only `append` extends the long lists; it makes them Rows.
    changed: whether any update had an effect.
    updated_ms: the new last-updated-ms. It never falls, whatever our clock or a writer's says.
    last_added: list name -> the id that -1 stands for; `record_added` sets it.
    reassigned_ids: entries that got another id than the client sent: the name of the list, the sent id, the new id.
    added_snapshots: ids of the snapshots that this run added. made_current: ids that it made current, in order.
    removed_snapshots: whether it removed any.
    """

    def __init__(self, base: TableMetadata | None, format_version: int, now_ms: int) -> None:
        self.base = base
        self.raw: dict[str, Any] = _empty(format_version) if base is None else _with_lists(base)
        self.changed = False
        self.updated_ms = now_ms if base is None else max(now_ms, base.last_updated_ms)
        self.last_added: dict[str, int] = {}
        self.reassigned_ids: list[tuple[str, int, int]] = []
        self.added_snapshots: set[int] = set()
        self.made_current: list[int] = []
        self.removed_snapshots = False
        self._owned: set[str] = set()
        self._parsed: dict[str, tuple[Any, list[Any]]] = {}
        self._snapshots_by_id: SnapshotIndex | None = None

    def put(self, key: str, value: Any) -> None:
        """Set a field of the JSON; no change if it has that value already."""
        if key not in self.raw or self.raw[key] != value:
            self.raw[key] = value
            self.changed = True

    def mutable_list(self, key: str) -> list[Any]:
        """A list of the JSON that the caller may change, and marks the draft as changed if it does."""
        if key not in self._owned:
            self.raw[key] = list(self.raw.get(key) or ())
            self._owned.add(key)
        return self.raw[key]  # type: ignore[no-any-return]

    def mutable_object(self, key: str) -> dict[str, Any]:
        """An object of the JSON that the caller may change, and marks the draft as changed if it does."""
        if key not in self._owned:
            self.raw[key] = dict(self.raw.get(key) or {})
            self._owned.add(key)
        return self.raw[key]  # type: ignore[no-any-return]

    def replace_list(self, key: str, values: list[Any]) -> None:
        """Replace a list."""
        self.raw[key] = values
        self._owned.add(key)
        self.changed = True

    @property
    def format_version(self) -> int:
        return int(self.raw["format-version"])

    @property
    def schemas(self) -> list[Schema]:
        return self._parse_list("schemas", Schema.parse)

    @property
    def specs(self) -> list[PartitionSpec]:
        return self._parse_list("partition-specs", PartitionSpec.parse)

    @property
    def sort_orders(self) -> list[SortOrder]:
        return self._parse_list("sort-orders", SortOrder.parse)

    @property
    def current_schema(self) -> Schema:
        """Raises InvalidInput before a schema is added."""
        found = next((item for item in self.schemas if item.schema_id == self.raw["current-schema-id"]), None)
        if found is None:
            raise InvalidInput("a schema must be added first")
        return found

    @property
    def current_snapshot_id(self) -> int | None:
        found = self.raw.get("current-snapshot-id")
        return None if found is None or found == -1 else int(found)

    def set_current_snapshot(self, snapshot_id: int | None) -> None:
        # As in Java: older readers of v1 and v2 expect -1 for none (spec: Appendix F).
        none = None if self.format_version >= 3 else -1
        self.put("current-snapshot-id", none if snapshot_id is None else snapshot_id)

    def rows(self, key: str) -> Rows:
        """One of the long lists, to read."""
        found = self.raw.get(key)
        if self.base is not None and found is self.base.fields.get(key):
            return self.base.rows(key)
        return found if isinstance(found, Rows) else Rows(found or ())

    def append(self, key: str, row: Mapping[str, Any]) -> None:
        """Append to one of the long lists; the caller marks the draft as changed."""
        self.raw[key] = self.rows(key).with_row(row)

    @property
    def snapshots_by_id(self) -> SnapshotIndex:
        """Snapshot id -> JSON; `add_snapshot` and `remove_snapshots` maintain it."""
        if self._snapshots_by_id is None:
            self._snapshots_by_id = SnapshotIndex() if self.base is None else self.base.raw_snapshots_by_id
        return self._snapshots_by_id

    def add_snapshot(self, raw: Mapping[str, Any]) -> None:
        self.append("snapshots", raw)
        self._snapshots_by_id = self.snapshots_by_id.with_row(raw)
        self.added_snapshots.add(raw["snapshot-id"])
        self.changed = True

    def remove_snapshots(self, snapshot_ids: set[int]) -> bool:
        """Returns whether the table had any of them."""
        if not any(snapshot_id in self.snapshots_by_id for snapshot_id in snapshot_ids):
            return False
        kept = Rows(raw for raw in self.rows("snapshots") if raw["snapshot-id"] not in snapshot_ids)
        self.raw["snapshots"] = kept
        self._snapshots_by_id = SnapshotIndex(kept)
        self.removed_snapshots = True
        self.changed = True
        return True

    def mutable_refs(self) -> dict[str, Any]:
        """The refs, to change. An implied `main` of the base becomes explicit."""
        if "refs" not in self._owned and self.base is not None:
            self.raw["refs"] = self.base.raw_refs
        return self.mutable_object("refs")

    @property
    def refs(self) -> Mapping[str, Any]:
        """The refs, to read."""
        if "refs" not in self._owned and self.base is not None:
            return self.base.raw_refs
        return self.raw.get("refs") or {}

    def record_added(self, key: str, id_: int, sent: object) -> None:
        """Record that a schema, spec or sort order was added under `id_`, or already had that id.

        key: the name of its list. sent: the id in the request; None or a negative one makes no claim."""
        self.last_added[key] = id_
        if isinstance(sent, int) and sent >= 0 and sent != id_:
            self.reassigned_ids.append((key, sent, id_))

    def resolve_id(self, key: str, wanted: int, what: str) -> int:
        """`wanted`, or the id that -1 stands for. Raises InvalidInput for -1 if nothing was added."""
        if wanted != LAST_ADDED:
            return wanted
        if key not in self.last_added:
            raise InvalidInput(f"Cannot set last added {what}: no {what} has been added")
        return self.last_added[key]

    def finish(self) -> TableMetadata:
        """The new metadata, unchecked. The draft must not be used afterwards."""
        if self.base is None:
            first = {key: self.raw[key] for key in ("format-version", "table-uuid", "location")}
            result = TableMetadata(first | self.raw)
        else:
            result = self.base.successor(self.raw)
        if self._snapshots_by_id is not None:
            # So that the next change need not rebuild it.
            result.__dict__["raw_snapshots_by_id"] = self._snapshots_by_id
        return result

    def _parse_list(self, key: str, parse: Any) -> list[Any]:
        raws = self.raw[key]
        known, items = self._parsed.get(key, (None, []))
        if known is not raws or len(items) != len(raws):
            items = [parse(raw) for raw in raws]
            self._parsed[key] = (raws, items)
        return items


def _empty(format_version: int) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "format-version": format_version,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": FIRST_PARTITION_FIELD_ID - 1,
        "default-sort-order-id": 0,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": None if format_version >= 3 else -1,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    if format_version >= 2:
        raw["last-sequence-number"] = 0
    if format_version >= 3:
        raw["next-row-id"] = 0
    return raw


def _with_lists(base: TableMetadata) -> dict[str, Any]:
    """The base's JSON; an old v1 file's single schema and spec become lists, as newer writers write them."""
    raw = dict(base.fields)
    if not raw.get("schemas"):
        raw["schemas"] = [schema.with_id(schema.schema_id).raw for schema in base.schemas]
        raw["current-schema-id"] = base.current_schema_id
    if not raw.get("partition-specs"):
        raw["partition-specs"] = [spec.with_id(spec.spec_id).raw for spec in base.specs]
        raw["default-spec-id"] = base.default_spec_id
    if not raw.get("sort-orders"):
        raw["sort-orders"] = [order.raw for order in base.sort_orders]
        raw["default-sort-order-id"] = base.default_sort_order_id
    raw["last-partition-id"] = base.last_partition_id
    return raw
