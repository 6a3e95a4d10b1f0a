"""Checks of table metadata's JSON: its fields, its snapshots and logs, its refs."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Ref, Snapshot

SUPPORTED_FORMAT_VERSION: Final = 3
#: The table property that names the key of an encrypted table (Java's TableProperties.ENCRYPTION_TABLE_KEY).
ENCRYPTION_KEY_PROPERTY: Final = "encryption.key-id"

_WHAT = "table metadata"


def check_fields(raw: Mapping[str, Any]) -> None:
    """Check everything except snapshots, logs and refs. Raises InvalidInput that names the field, UnsupportedFormat for
    format version 4 and later and for encrypted tables."""
    version = read.require_int(raw, "format-version", _WHAT)
    if version > SUPPORTED_FORMAT_VERSION:
        raise UnsupportedFormat(f"Cannot read unsupported version {version}")
    if version < 1:
        raise InvalidInput(f"{_WHAT}: format-version must be 1, 2 or 3, but is {version}")
    properties = {} if raw.get("properties") is None else read.require_str_map(raw, "properties", _WHAT)
    if raw.get("encryption-keys") or ENCRYPTION_KEY_PROPERTY in properties:
        raise UnsupportedFormat("the table is encrypted")
    _check_scalars(raw, version)
    _check_lists(raw, version)


def check_default_id(name: str, found: int, known: Container[int]) -> None:
    """Raise InvalidInput if the schema, spec or sort order that a field names as the current one is missing."""
    if found not in known:
        raise InvalidInput(f"{_WHAT}: {name}: there is none with id {found}")


def check_history(raw: Mapping[str, Any]) -> None:
    """Check each snapshot, log entry and statistics file. Raises InvalidInput that names what is wrong,
    UnsupportedFormat for encrypted snapshots."""
    _check_snapshots(raw)
    _check_entries(raw, "snapshot-log", {"timestamp-ms": int, "snapshot-id": int})
    _check_entries(raw, "metadata-log", {"timestamp-ms": int, "metadata-file": str})
    _check_entries(raw, "statistics", {"snapshot-id": int})
    _check_entries(raw, "partition-statistics", {"snapshot-id": int})


def check_refs(refs: Mapping[str, Ref], current_snapshot_id: int | None, snapshot_ids: Container[int]) -> None:
    """Raise InvalidInput if a ref or the current snapshot is not among the table's snapshots, or if main is not the
    current snapshot."""
    current = current_snapshot_id
    if current is not None and current not in snapshot_ids:
        raise InvalidInput(f"{_WHAT}: current-snapshot-id: there is no snapshot {current}")
    for name, ref in refs.items():
        if ref.snapshot_id not in snapshot_ids:
            raise InvalidInput(f"{_WHAT}: refs: {name} names snapshot {ref.snapshot_id}, which is not there")
    main = refs.get(MAIN_BRANCH)
    if main is not None and main.snapshot_id != current:
        raise InvalidInput(f"{_WHAT}: current-snapshot-id {current} does not match main branch {main.snapshot_id}")


def _check_scalars(raw: Mapping[str, Any], version: int) -> None:
    read.require_str(raw, "location", _WHAT)
    read.require_long(raw, "last-updated-ms", _WHAT)
    read.require_int(raw, "last-column-id", _WHAT)
    read.optional_long(raw, "current-snapshot-id", _WHAT)
    if version > 1:
        read.require_str(raw, "table-uuid", _WHAT)
        read.require_long(raw, "last-sequence-number", _WHAT)
        read.require_int(raw, "last-partition-id", _WHAT)
    else:
        read.optional_str(raw, "table-uuid", _WHAT)
        read.optional_long(raw, "last-sequence-number", _WHAT)
        read.optional_int(raw, "last-partition-id", _WHAT)
    if version > 2:
        read.require_long(raw, "next-row-id", _WHAT)


def _check_lists(raw: Mapping[str, Any], version: int) -> None:
    # Old writers of v1 write `schema` and `partition-spec` instead of the lists (spec: Appendix E).
    for key, current, old in (
        ("schemas", "current-schema-id", "schema"),
        ("partition-specs", "default-spec-id", "partition-spec"),
        ("sort-orders", "default-sort-order-id", None),
    ):
        if version > 1 or raw.get(key) is not None:
            if not read.require_list(raw, key, _WHAT):
                raise InvalidInput(f"{_WHAT}: {key} must not be empty")
            read.require_int(raw, current, _WHAT)
        elif old is not None and raw.get(old) is None:
            raise InvalidInput(f"{_WHAT}: required field is missing: {key}")
    for key in ("snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics", "encryption-keys"):
        read.optional_list(raw, key, _WHAT)
    if raw.get("refs") is not None:
        read.require_object(raw["refs"], f"{_WHAT}: refs")


def _check_snapshots(raw: Mapping[str, Any]) -> None:
    last = raw.get("last-sequence-number") or 0
    seen: set[int] = set()
    for each in raw.get("snapshots") or ():
        snapshot = Snapshot.parse(each)
        if snapshot.snapshot_id in seen:
            raise InvalidInput(f"{_WHAT}: two snapshots have the same id {snapshot.snapshot_id}")
        seen.add(snapshot.snapshot_id)
        if snapshot.sequence_number > last:
            raise InvalidInput(
                f"Invalid snapshot with sequence number {snapshot.sequence_number} "
                f"greater than last sequence number {last}"
            )
        if snapshot.key_id is not None:
            raise UnsupportedFormat(f"snapshot {snapshot.snapshot_id} is encrypted")


def _check_entries(raw: Mapping[str, Any], key: str, fields: Mapping[str, type]) -> None:
    for entry in raw.get(key) or ():
        what = f"{_WHAT}: {key}"
        read.require_object(entry, what)
        for field, type_ in fields.items():
            if type_ is int:
                read.require_long(entry, field, what)
            else:
                read.require_str(entry, field, what)
