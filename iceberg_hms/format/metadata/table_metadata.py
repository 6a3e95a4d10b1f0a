"""Table metadata of format versions 1, 2 and 3 (spec: Table Metadata).

`TableMetadata` wraps the JSON object itself: unknown fields survive a round trip, and each part is converted on first
access, since metadata may hold ten thousand snapshots. For the same reason a version of a table shares its snapshots
and their JSON text with the version before it (`rows.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from typing import Any, Final

import orjson

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.cached_property import cached_property
from iceberg_hms.format.metadata.check import check_default_id, check_fields, check_history, check_refs
from iceberg_hms.format.metadata.gzip_parts import join_text
from iceberg_hms.format.metadata.parsed_size import TextSize
from iceberg_hms.format.metadata.rows import RowBlock, Rows, SnapshotIndex
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Ref, Snapshot
from iceberg_hms.format.metadata.table_properties import PREVIOUS_VERSIONS_MAX
from iceberg_hms.format.schema.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import UNSORTED, SortOrder
from iceberg_hms.memory_budget import HeldMemory

#: The fields that grow with every commit.
LONG_LISTS: Final = ("snapshots", "snapshot-log")
_WHAT = "table metadata"


class TableMetadata:
    """One version of a table's metadata. Immutable: `format.updates.apply` makes a new one.

    fields: the JSON object, in which `snapshots` and `snapshot-log` may be Rows; never change it. `raw` has plain
    lists instead.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        """Wrap JSON that is known to be valid; use `parse` for other JSON."""
        self.fields = fields
        self._text: bytes | None = None
        #: What counts its memory, for as long as somebody has this metadata.
        self.memory: HeldMemory | None = None

    @cached_property
    def raw(self) -> Mapping[str, Any]:
        """The JSON object; never change it. Copies the long lists if `apply` made this version."""
        grown = {key: list(rows) for key in LONG_LISTS if isinstance(rows := self.fields.get(key), Rows)}
        return {**self.fields, **grown} if grown else self.fields

    @classmethod
    def parse(cls, data: bytes | str | Mapping[str, Any]) -> TableMetadata:
        """Metadata of JSON text, or of a parsed JSON object.

        Checks everything except snapshots, refs and logs, which `verify` checks. Raises InvalidInput that names the
        field, UnsupportedFormat for format version 4 and later and for encrypted tables.
        """
        raw = read.load_object(data, _WHAT)
        check_fields(raw)
        metadata = cls(raw)
        check_default_id("current-schema-id", metadata.current_schema_id, metadata.schemas_by_id)
        check_default_id("default-spec-id", metadata.default_spec_id, metadata.specs_by_id)
        check_default_id("default-sort-order-id", metadata.default_sort_order_id, metadata.sort_orders_by_id)
        return metadata

    def to_bytes(self) -> bytes:
        """The JSON text, UTF-8; cached. Raises InvalidInput for values that JSON cannot express: lone surrogates."""
        text = self._text
        if text is None:
            try:
                text = self._text = join_text(self.json_parts())
            except TypeError as error:
                raise InvalidInput(f"{_WHAT} cannot be written as JSON: {error}") from error
        return text

    def text_size(self) -> TextSize:
        """Of the text; blocks that versions of the table share are counted once. Raises TypeError as `json_parts`."""
        parts = self.json_parts()
        return TextSize.sum(TextSize.of(part) if isinstance(part, bytes) else part.text_size for part in parts)

    def forget_text(self) -> None:
        """Drop the cached text, to free its memory."""
        self._text = None

    def json_parts(self) -> Iterator[bytes | RowBlock]:
        """The text that orjson makes of `raw`, in parts. Blocks of the long lists are parts that versions of the table
        share. Raises TypeError for values that JSON cannot express."""
        # Another thread may call `forget_text` at any time.
        text = self._text
        if text is not None and not any(self.rows(key).blocks for key in LONG_LISTS):
            yield text
            return
        between: dict[str, Any] = {}
        separator = b"{"
        for key, value in self.fields.items():
            if key not in LONG_LISTS or not isinstance(value, list | Rows):
                between[key] = value
                continue
            if between:
                yield separator + orjson.dumps(between)[1:-1]
                between, separator = {}, b","
            yield separator + orjson.dumps(key) + b":"
            yield from self.rows(key).json_parts()
            separator = b","
        yield separator + orjson.dumps(between)[1:] if between else (b"{}" if separator == b"{" else b"}")

    def verify(self) -> TableMetadata:
        """Check what `parse` skips: each snapshot, ref and log entry, and that every ref's snapshot exists.

        Returns itself. Raises InvalidInput that names what is wrong.
        """
        check_history(self.raw)
        check_refs(self.refs, self.current_snapshot_id, self.raw_snapshots_by_id)
        return self

    @property
    def format_version(self) -> int:
        return int(self.fields["format-version"])

    @property
    def uuid(self) -> str | None:
        """None in v1 only."""
        return self.fields.get("table-uuid")

    def has_uuid(self, uuid: str) -> bool:
        """Whether this is its UUID, in whatever case."""
        found = self.uuid
        return found is not None and (found == uuid or found.lower() == uuid.lower())

    @cached_property
    def location(self) -> str:
        """The table's base location, without trailing slashes."""
        return strip_trailing_slash(self.fields["location"])

    @property
    def last_sequence_number(self) -> int:
        """0 in v1."""
        return self.fields.get("last-sequence-number") or 0

    @property
    def next_sequence_number(self) -> int:
        """The next snapshot's sequence number; 0 in v1."""
        return self.last_sequence_number + 1 if self.format_version > 1 else 0

    @property
    def last_updated_ms(self) -> int:
        return int(self.fields["last-updated-ms"])

    @property
    def last_column_id(self) -> int:
        return int(self.fields["last-column-id"])

    @cached_property
    def schemas(self) -> tuple[Schema, ...]:
        return tuple(Schema.parse(raw) for raw in self.fields.get("schemas") or [self.fields["schema"]])

    @property
    def current_schema_id(self) -> int:
        found = self.fields.get("current-schema-id")
        return int(found) if self.fields.get("schemas") and found is not None else self.schemas[0].schema_id

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas_by_id[self.current_schema_id]

    def schema_by_id(self, schema_id: int) -> Schema | None:
        return self.schemas_by_id.get(schema_id)

    @cached_property
    def specs(self) -> tuple[PartitionSpec, ...]:
        raws = self.fields.get("partition-specs") or [{"spec-id": 0, "fields": self.fields["partition-spec"]}]
        return tuple(PartitionSpec.parse(raw) for raw in raws)

    @property
    def default_spec_id(self) -> int:
        found = self.fields.get("default-spec-id")
        return int(found) if self.fields.get("partition-specs") and found is not None else self.specs[0].spec_id

    @property
    def spec(self) -> PartitionSpec:
        """The default spec."""
        return self.specs_by_id[self.default_spec_id]

    def spec_by_id(self, spec_id: int) -> PartitionSpec | None:
        return self.specs_by_id.get(spec_id)

    @property
    def last_partition_id(self) -> int:
        """The largest partition field id that was ever assigned; 999 if none was."""
        found = self.fields.get("last-partition-id")
        if found is None:
            return max((spec.last_field_id for spec in self.specs), default=FIRST_PARTITION_FIELD_ID - 1)
        return int(found)

    @cached_property
    def sort_orders(self) -> tuple[SortOrder, ...]:
        return tuple(SortOrder.parse(raw) for raw in self.fields.get("sort-orders") or [UNSORTED.raw])

    @property
    def default_sort_order_id(self) -> int:
        return (self.fields.get("default-sort-order-id") or 0) if self.fields.get("sort-orders") else UNSORTED.order_id

    @property
    def sort_order(self) -> SortOrder:
        """The default sort order."""
        return self.sort_orders_by_id[self.default_sort_order_id]

    @property
    def properties(self) -> Mapping[str, str]:
        return self.fields.get("properties") or {}

    @property
    def snapshots(self) -> Sequence[Snapshot]:
        """All snapshots, in the file's order; made on each access."""
        return tuple(map(Snapshot, self.snapshot_rows))

    @cached_property
    def snapshot_rows(self) -> Rows:
        """The snapshots' JSON objects, in the file's order."""
        return _as_rows(self.fields.get("snapshots"))

    @cached_property
    def log_rows(self) -> Rows:
        """The entries of `snapshot_log`."""
        return _as_rows(self.fields.get("snapshot-log"))

    def rows(self, key: str) -> Rows:
        """The rows of one of LONG_LISTS."""
        return self.snapshot_rows if key == "snapshots" else self.log_rows

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        raw = self.raw_snapshots_by_id.get(snapshot_id)
        return None if raw is None else Snapshot(raw)

    @cached_property
    def raw_snapshots_by_id(self) -> SnapshotIndex:
        """The snapshots' JSON objects by id."""
        return SnapshotIndex(self.snapshot_rows)

    @property
    def current_snapshot_id(self) -> int | None:
        """None without one, which older versions of Java write as -1 (spec: Appendix F)."""
        found = self.fields.get("current-snapshot-id")
        return None if found is None or found == -1 else int(found)

    @property
    def current_snapshot(self) -> Snapshot | None:
        found = self.current_snapshot_id
        return None if found is None else self.snapshot_by_id(found)

    @cached_property
    def refs(self) -> Mapping[str, Ref]:
        """Branches and tags by name, including a `main` that only the current snapshot implies."""
        return {name: Ref.parse(raw, name) for name, raw in self.raw_refs.items()}

    def ref(self, name: str) -> Ref | None:
        return self.refs.get(name)

    @property
    def raw_refs(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON objects of `refs`, with an implied `main`; never change it."""
        raw: Mapping[str, Mapping[str, Any]] = self.fields.get("refs") or {}
        if MAIN_BRANCH in raw or self.current_snapshot_id is None:
            return raw
        return {MAIN_BRANCH: Ref(self.current_snapshot_id).to_json(), **raw}

    @property
    def snapshot_log(self) -> Sequence[Mapping[str, Any]]:
        """Which snapshot became current when, oldest first: {"timestamp-ms": ..., "snapshot-id": ...}."""
        return self.log_rows

    @property
    def metadata_log(self) -> Sequence[Mapping[str, Any]]:
        """The previous metadata files, oldest first: {"timestamp-ms": last-updated-ms, "metadata-file": location}."""
        return self.fields.get("metadata-log") or []

    @property
    def next_row_id(self) -> int:
        """v3: the lowest unassigned row id; 0 before v3."""
        return self.fields.get("next-row-id") or 0

    def ancestors(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """A snapshot and its ancestors, newest first, up to the first that is not in the table."""
        # Parents in a damaged table may form a circle.
        for _ in range(len(self.snapshot_rows)):
            snapshot = None if snapshot_id is None else self.snapshot_by_id(snapshot_id)
            if snapshot is None:
                return
            yield snapshot
            snapshot_id = snapshot.parent_snapshot_id

    def with_metadata_log_entry(self, location: str, timestamp_ms: int) -> TableMetadata:
        """This metadata with its predecessor's file in the metadata log, and the log trimmed to the newest
        `write.metadata.previous-versions-max` entries (at least one).

        location: of the predecessor. timestamp_ms: the predecessor's last-updated-ms.
        """
        log = [*self.metadata_log, {"timestamp-ms": timestamp_ms, "metadata-file": location}]
        return self.replace(metadata_log=log[-max(1, PREVIOUS_VERSIONS_MAX.of(self.properties)) :])

    def replace(self, **fields: Any) -> TableMetadata:
        """The same metadata with some JSON fields replaced, unchecked: `replace(last_updated_ms=5)`. Underscores stand
        for dashes."""
        changed = {key.replace("_", "-"): value for key, value in fields.items()}
        return self.successor({**self.fields, **changed})

    def successor(self, fields: Mapping[str, Any]) -> TableMetadata:
        """Metadata of other JSON, unchecked, that keeps cached values whose JSON fields are the same objects."""
        successor = TableMetadata(fields)
        before, cached = self.fields, self.__dict__
        for keys, names in _COMPUTED_FROM.items():
            if all(map(is_, map(fields.get, keys), map(before.get, keys))):
                for name in names:
                    if name in cached:
                        successor.__dict__[name] = cached[name]
        return successor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableMetadata) and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TableMetadata({self.uuid}, v{self.format_version}, {self.location})"

    @cached_property
    def schemas_by_id(self) -> dict[int, Schema]:
        return {schema.schema_id: schema for schema in self.schemas}

    @cached_property
    def specs_by_id(self) -> dict[int, PartitionSpec]:
        return {spec.spec_id: spec for spec in self.specs}

    @cached_property
    def sort_orders_by_id(self) -> dict[int, SortOrder]:
        return {order.order_id: order for order in self.sort_orders}


#: JSON fields -> the cached attributes that are computed from them.
_COMPUTED_FROM: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    ("location",): ("location",),
    ("schemas", "schema"): ("schemas", "schemas_by_id"),
    ("partition-specs", "partition-spec"): ("specs", "specs_by_id"),
    ("sort-orders",): ("sort_orders", "sort_orders_by_id"),
    ("snapshots",): ("snapshot_rows", "raw_snapshots_by_id"),
    ("snapshot-log",): ("log_rows",),
    ("refs", "current-snapshot-id"): ("refs",),
}


def _as_rows(found: Sequence[Mapping[str, Any]] | None) -> Rows:
    return found if isinstance(found, Rows) else Rows(found or ())


def strip_trailing_slash(location: str) -> str:
    """A location without trailing slashes, as Java keeps table locations; the root of a scheme keeps its own."""
    while location.endswith("/") and not location.endswith("://") and location != "/":
        location = location[:-1]
    return location
