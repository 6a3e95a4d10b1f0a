"""Snapshots and the refs that name them (spec: Snapshots, Snapshot References)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import json_fields as read

MAIN_BRANCH: Final = "main"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of a table: an immutable view of its JSON form, cheap to make.

    raw: the JSON object, including unknown fields; never change it. `parse` checks its fields; wrap a snapshot of
    verified metadata directly.
    """

    raw: Mapping[str, Any]

    @classmethod
    def parse(cls, raw: Any) -> Snapshot:
        """The snapshot of a JSON object. Raises InvalidInput that names the field."""
        raw = read.require_object(raw, "snapshot")
        what = f"snapshot {read.require_long(raw, 'snapshot-id', 'snapshot')}"
        read.require_long(raw, "timestamp-ms", what)
        for key in ("parent-snapshot-id", "sequence-number", "first-row-id", "added-rows"):
            read.optional_long(raw, key, what)
        read.optional_int(raw, "schema-id", what)
        read.optional_str(raw, "manifest-list", what)
        read.optional_str(raw, "key-id", what)
        if "manifests" in raw and not all(isinstance(each, str) for each in read.optional_list(raw, "manifests", what)):
            raise InvalidInput(f"{what}: manifests must be a list of strings")
        if raw.get("summary") is not None:
            read.require_str_map(raw, "summary", what)
        return cls(raw)

    @property
    def snapshot_id(self) -> int:
        return int(self.raw["snapshot-id"])

    @property
    def parent_snapshot_id(self) -> int | None:
        """The snapshot that this one was made from; None for the first of a table or of a replaced table."""
        return self.raw.get("parent-snapshot-id")

    @property
    def sequence_number(self) -> int:
        """0 without one, as in v1."""
        return self.raw.get("sequence-number") or 0

    @property
    def written_for(self) -> int:
        """The format version whose fields the snapshot has: that of the table as its writer read it. 1 without a
        sequence number, 2 without row ids, else 3."""
        if not self.sequence_number:
            return 1
        return 2 if self.first_row_id is None else 3

    @property
    def timestamp_ms(self) -> int:
        """When the writer made it, in milliseconds since 1970 UTC, by the writer's clock."""
        return int(self.raw["timestamp-ms"])

    @property
    def manifest_list(self) -> str | None:
        """The location of the manifest list; None for v1 snapshots with inline manifests."""
        return self.raw.get("manifest-list")

    @property
    def manifests(self) -> tuple[str, ...]:
        """The locations of a v1 snapshot's inline manifests; empty otherwise."""
        return tuple(self.raw.get("manifests") or ())

    @property
    def summary(self) -> Mapping[str, str]:
        """The whole summary, including `operation`; empty for old v1 snapshots."""
        return self.raw.get("summary") or {}

    @property
    def operation(self) -> str | None:
        """ "append", "replace", "overwrite" or "delete"; None for old v1 snapshots."""
        return self.summary.get("operation")

    @property
    def schema_id(self) -> int | None:
        return self.raw.get("schema-id")

    @property
    def first_row_id(self) -> int | None:
        """v3: the `_row_id` of the first row that it added."""
        return self.raw.get("first-row-id")

    @property
    def added_rows(self) -> int | None:
        """v3: how many row ids are reserved for it."""
        return self.raw.get("added-rows")

    @property
    def key_id(self) -> str | None:
        """v3: the encryption key of the manifest list."""
        return self.raw.get("key-id")


@dataclass(frozen=True, slots=True)
class SnapshotLogEntry:
    """A snapshot became the current one, at a time in milliseconds since 1970 UTC."""

    snapshot_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag (spec: Snapshot References). Ages are milliseconds; None means the table's default."""

    snapshot_id: int
    type: str = "branch"
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None

    @property
    def is_branch(self) -> bool:
        return self.type == "branch"

    @classmethod
    def parse(cls, raw: Any, name: str) -> Ref:
        """The ref of a JSON object. `name` is for messages. Raises InvalidInput that names the field."""
        what = f"ref {name!r}"
        raw = read.require_object(raw, what)
        type_ = read.require_str(raw, "type", what).lower()
        if type_ not in ("branch", "tag"):
            raise InvalidInput(f"{what}: type must be branch or tag, but is {raw['type']!r}")
        ref = cls(
            snapshot_id=read.require_long(raw, "snapshot-id", what),
            type=type_,
            min_snapshots_to_keep=read.optional_int(raw, "min-snapshots-to-keep", what),
            max_snapshot_age_ms=read.optional_long(raw, "max-snapshot-age-ms", what),
            max_ref_age_ms=read.optional_long(raw, "max-ref-age-ms", what),
        )
        if type_ != "branch" and (ref.min_snapshots_to_keep is not None or ref.max_snapshot_age_ms is not None):
            raise InvalidInput(f"{what}: tags do not support min-snapshots-to-keep and max-snapshot-age-ms")
        for key, value in ref._retention():
            if value is not None and value <= 0:
                raise InvalidInput(f"{what}: {key} must be greater than 0, but is {value}")
        return ref

    def to_json(self) -> dict[str, Any]:
        raw: dict[str, Any] = {"snapshot-id": self.snapshot_id, "type": self.type}
        for key, value in self._retention():
            if value is not None:
                raw[key] = value
        return raw

    def _retention(self) -> tuple[tuple[str, int | None], ...]:
        return (
            ("min-snapshots-to-keep", self.min_snapshots_to_keep),
            ("max-snapshot-age-ms", self.max_snapshot_age_ms),
            ("max-ref-age-ms", self.max_ref_age_ms),
        )
