"""The working copy of `apply`: it copies what updates change, and shares the base's objects for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.rows import Rows, SnapshotIndex
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionFieldIds, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import SortOrder
from iceberg_hms.format.updates.entry_list import EntryList

#: In set-current-schema, set-default-spec and set-default-sort-order: what this request added last.
LAST_ADDED = -1
#: What each list of the layout holds, for messages.
ENTRY_NAMES: Final = {"schemas": "schema", "partition-specs": "partition spec", "sort-orders": "sort order"}


class MetadataDraft:
    """One run of `apply`.

    raw: the new metadata's JSON so far. Its lists and objects may be the base's: get objects by `mutable_object` before
    changing them, and change lists by the methods here. What `entries` and `remove_snapshots` change gets into it at
    the end. Only `append` extends the long lists; it makes them Rows.
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
        self._lists: dict[str, EntryList[Any]] = {}
        self._partition_field_ids: PartitionFieldIds | None = None
        self._snapshots_by_id: SnapshotIndex | None = None
        #: All snapshots by id, in their order, once some were removed.
        self._kept_snapshots: dict[int, Mapping[str, Any]] | None = None
        self._base_refs: Mapping[str, Any] | None = None
        #: Snapshot id -> the refs that name it, once snapshots are removed.
        self._refs_by_snapshot: dict[int, dict[str, None]] | None = None

    def put(self, key: str, value: Any) -> None:
        """Set a field of the JSON; no change if it has that value already."""
        if key not in self.raw or self.raw[key] != value:
            self.raw[key] = value
            self.changed = True

    def mutable_object(self, key: str) -> dict[str, Any]:
        """An object of the JSON that the caller may change, and marks the draft as changed if it does."""
        if key not in self._owned:
            self.raw[key] = dict(self.raw.get(key) or {})
            self._owned.add(key)
        return self.raw[key]  # type: ignore[no-any-return]

    def entries(self, key: str) -> EntryList[Any]:
        """One of the lists whose entries have ids: those of `_LISTS`. The caller marks the draft as changed if it adds
        or removes any."""
        found = self._lists.get(key)
        if found is None:
            kind = _LISTS[key]
            found = self._lists[key] = EntryList(kind.parsed(self), kind.id_of, kind.content_of)
        return found

    def has_entries(self, key: str) -> bool:
        """Whether such a list has any, without parsing it."""
        return bool(self._lists[key] if key in self._lists else self.raw.get(key))

    def rewrite(self, key: str, entries: Iterable[Any]) -> None:
        """Replace all entries of such a list."""
        kind = _LISTS[key]
        self._lists[key] = EntryList(entries, kind.id_of, kind.content_of)
        self._lists[key].changed = self.changed = True

    def are_untouched(self, keys: Sequence[str]) -> bool:
        """Whether the base has the same values of these fields, as the same objects."""
        if self.base is None or any(entries.changed for key, entries in self._lists.items() if key in keys):
            return False
        return all(map(is_, map(self.raw.get, keys), map(self.base.fields.get, keys)))

    def _write_lists(self) -> None:
        for key, entries in self._lists.items():
            if entries.changed:
                self.raw[key] = [_LISTS[key].raw_of(entry) for entry in entries]
        if self._kept_snapshots is not None:
            self.raw["snapshots"] = rows = Rows(self._kept_snapshots.values())
            self._snapshots_by_id = SnapshotIndex(rows)

    @property
    def format_version(self) -> int:
        return int(self.raw["format-version"])

    @property
    def schemas(self) -> EntryList[Schema]:
        return self.entries("schemas")

    @property
    def specs(self) -> EntryList[PartitionSpec]:
        return self.entries("partition-specs")

    @property
    def sort_orders(self) -> EntryList[SortOrder]:
        return self.entries("sort-orders")

    @property
    def current_schema(self) -> Schema:
        """Raises InvalidInput before a schema is added."""
        found = self.schemas.get(self.raw["current-schema-id"])
        if found is None:
            raise InvalidInput("a schema must be added first")
        return found

    @property
    def default_spec(self) -> PartitionSpec:
        """Raises InvalidInput before a spec is added."""
        found = self.specs.get(self.raw["default-spec-id"])
        if found is None:
            raise InvalidInput("a partition spec must be added first")
        return found

    @property
    def partition_field_ids(self) -> PartitionFieldIds:
        """Of all specs; the updates of specs maintain it."""
        if self._partition_field_ids is None:
            self._partition_field_ids = PartitionFieldIds(self.specs)
        return self._partition_field_ids

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
        if isinstance(found, Rows):
            return found
        if self.base is not None and found is self.base.fields.get(key):
            return self.base.rows(key)
        return Rows(found or ())

    def append(self, key: str, row: Mapping[str, Any]) -> None:
        """Append to one of the long lists; the caller marks the draft as changed."""
        self.raw[key] = self.rows(key).with_row(row)

    @property
    def snapshots_by_id(self) -> Mapping[int, Mapping[str, Any]]:
        """Snapshot id -> JSON; `add_snapshot` and `remove_snapshots` maintain it."""
        return self._index if self._kept_snapshots is None else self._kept_snapshots

    @property
    def _index(self) -> SnapshotIndex:
        if self._snapshots_by_id is None:
            self._snapshots_by_id = SnapshotIndex() if self.base is None else self.base.raw_snapshots_by_id
        return self._snapshots_by_id

    def add_snapshot(self, raw: Mapping[str, Any]) -> None:
        """Add one whose id the table does not have."""
        if self._kept_snapshots is None:
            self.append("snapshots", raw)
            self._snapshots_by_id = self._index.with_row(raw)
        else:
            self._kept_snapshots[raw["snapshot-id"]] = raw
        self.added_snapshots.add(raw["snapshot-id"])
        self.changed = True

    def remove_snapshots(self, snapshot_ids: Iterable[int]) -> list[int]:
        """Returns the ids of those that the table had."""
        found = [snapshot_id for snapshot_id in snapshot_ids if snapshot_id in self.snapshots_by_id]
        if not found:
            return found
        if self._kept_snapshots is None:
            self._kept_snapshots = {raw["snapshot-id"]: raw for raw in self.rows("snapshots")}
        for snapshot_id in found:
            del self._kept_snapshots[snapshot_id]
        self.removed_snapshots = True
        self.changed = True
        return found

    @property
    def refs(self) -> Mapping[str, Any]:
        """The refs, to read; with a `main` that the base implies."""
        if "refs" in self._owned or self.base is None:
            return self.raw.get("refs") or {}
        if self._base_refs is None:
            self._base_refs = self.base.raw_refs
        return self._base_refs

    def put_ref(self, name: str, raw: Mapping[str, Any]) -> None:
        """Create or move a ref. An implied `main` of the base becomes explicit."""
        refs = self._own_refs()
        was = refs.get(name)
        refs[name] = raw
        if self._refs_by_snapshot is not None:
            if was is not None:
                del self._refs_by_snapshot[was["snapshot-id"]][name]
            self._refs_by_snapshot.setdefault(raw["snapshot-id"], {})[name] = None
        self.changed = True

    def remove_ref(self, name: str) -> bool:
        """Returns whether there was one."""
        if name not in self.refs:
            return False
        was = self._own_refs().pop(name)
        if self._refs_by_snapshot is not None:
            del self._refs_by_snapshot[was["snapshot-id"]][name]
        self.changed = True
        return True

    def refs_to(self, snapshot_id: int) -> list[str]:
        """The names of the refs that name a snapshot."""
        if self._refs_by_snapshot is None:
            self._refs_by_snapshot = {}
            for name, raw in self.refs.items():
                self._refs_by_snapshot.setdefault(raw["snapshot-id"], {})[name] = None
        return list(self._refs_by_snapshot.get(snapshot_id, ()))

    def _own_refs(self) -> dict[str, Any]:
        if "refs" not in self._owned and self.base is not None:
            self.raw["refs"] = self.refs
        return self.mutable_object("refs")

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
        self._write_lists()
        if self.base is None:
            first = {key: self.raw[key] for key in ("format-version", "table-uuid", "location")}
            result = TableMetadata(first | self.raw)
        else:
            result = self.base.successor(self.raw)
        # So that the next change need not make them again.
        if self._snapshots_by_id is not None:
            result.__dict__["raw_snapshots_by_id"] = self._snapshots_by_id
        for key, entries in self._lists.items():
            attribute = _LISTS[key].attribute
            if entries.changed and attribute is not None:
                result.__dict__[attribute] = tuple(entries)
        return result


@dataclass(frozen=True, slots=True)
class _ListKind:
    """A list whose entries have ids.

    id_of, content_of: as EntryList has them. parse: makes an entry of its JSON; raw_of: the JSON of an entry.
    attribute: where TableMetadata keeps the entries.
    """

    key: str
    id_of: Callable[[Any], int]
    parse: Callable[[Any], Any] = lambda raw: raw
    attribute: str | None = None
    content_of: Callable[[Any], str] = lambda entry: entry.content
    raw_of: Callable[[Any], Any] = lambda entry: entry.raw

    def parsed(self, draft: MetadataDraft) -> Sequence[Any]:
        """The entries of a draft that has changed none of them yet."""
        raws, base = draft.raw.get(self.key) or (), draft.base
        if self.attribute is not None and base is not None and raws is base.fields.get(self.key):
            known: Sequence[Any] = getattr(base, self.attribute)
            return known
        return [self.parse(raw) for raw in raws]


def _file_list(key: str) -> _ListKind:
    return _ListKind(key, lambda file: int(file["snapshot-id"]), content_of=repr, raw_of=lambda file: file)


_LISTS: Final[Mapping[str, _ListKind]] = {
    kind.key: kind
    for kind in (
        _ListKind("schemas", lambda each: each.schema_id, Schema.parse, "schemas"),
        _ListKind("partition-specs", lambda each: each.spec_id, PartitionSpec.parse, "specs"),
        _ListKind("sort-orders", lambda each: each.order_id, SortOrder.parse, "sort_orders"),
        _file_list("statistics"),
        _file_list("partition-statistics"),
    )
}


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
