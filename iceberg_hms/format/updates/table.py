"""Updates of the table itself: identity, format version, location, properties, statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from iceberg_hms.errors import DoesNotFit, InvalidInput, UnsupportedFormat
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.locations import check_length
from iceberg_hms.format.metadata import table_properties
from iceberg_hms.format.metadata.check import ENCRYPTION_KEY_PROPERTY, SUPPORTED_FORMAT_VERSION
from iceberg_hms.format.metadata.table_metadata import strip_trailing_slash
from iceberg_hms.format.updates.draft import MetadataDraft

#: Not kept as a property: as in Java, setting it upgrades the format version.
FORMAT_VERSION_PROPERTY: Final = "format-version"
#: Names that catalogs derive from metadata for display; no table may set them (Java: TableProperties).
RESERVED_PROPERTIES: Final = frozenset(
    {
        FORMAT_VERSION_PROPERTY,
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)

#: The blobs of Puffin files (Puffin spec: Blob types).
BLOB_TYPES: Final = frozenset({"apache-datasketches-theta-v1", "deletion-vector-v1"})


def assign_uuid(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`assign-uuid`: for a table without a UUID; a table never changes its UUID."""
    uuid = read.require_str(update, "uuid", "assign-uuid")
    known = draft.raw.get("table-uuid")
    if known is not None and known.lower() != uuid.lower():
        raise DoesNotFit(f"Cannot reassign the table's UUID: {known} != {uuid}")
    if known is None:
        if not read.is_uuid(uuid):
            raise InvalidInput(f"assign-uuid: uuid must be a UUID, but is {read.shown(uuid)}: PyIceberg loads no other")
        draft.put("table-uuid", uuid)


def upgrade_format_version(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`upgrade-format-version`: 1 to 2 to 3, never back."""
    _upgrade(draft, update["format-version"])


def set_location(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`set-location`: the base location of new files; existing files stay where they are."""
    location = strip_trailing_slash(update["location"])
    if not location:
        raise InvalidInput("set-location: location must not be empty")
    check_length(location)
    if "\0" in location:
        raise InvalidInput(f"set-location: location contains a NUL character: {location!r}")
    if "location" not in draft.raw or strip_trailing_slash(draft.raw["location"]) != location:
        draft.put("location", location)


def set_properties(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`set-properties`. `format-version` upgrades the table, as in Java; refuses other reserved names."""
    updates = dict(read.require_str_map(update, "updates", "set-properties"))
    version = updates.pop(FORMAT_VERSION_PROPERTY, None)
    known = draft.raw.get("properties") or {}
    check_properties(updates, known)
    if any(known.get(key) != value for key, value in updates.items()):
        draft.mutable_object("properties").update(updates)
        draft.changed = True
    if version is not None:
        _upgrade(draft, parse_format_version(version))


def remove_properties(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`remove-properties`: ignores missing names."""
    known = draft.raw.get("properties") or {}
    for name in update["removals"]:
        if name in known:
            draft.mutable_object("properties").pop(name, None)
            draft.changed = True


def set_statistics(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`set-statistics`: replaces the snapshot's older statistics."""
    what = "set-statistics: statistics"
    file = read.without_nulls(read.require_object(update.get("statistics"), what))
    read.require_long(file, "file-footer-size-in-bytes", what)
    read.optional_str(file, "key-metadata", what)
    blobs = read.require_list(file, "blob-metadata", what)
    file["blob-metadata"] = [_blob(blob, f"{what}: blob-metadata") for blob in blobs]
    _set_statistics_file(draft, "statistics", file, what)


def set_partition_statistics(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`set-partition-statistics`: replaces the snapshot's older partition statistics."""
    what = "set-partition-statistics: partition-statistics"
    file = read.without_nulls(read.require_object(update.get("partition-statistics"), what))
    _set_statistics_file(draft, "partition-statistics", file, what)


def remove_statistics(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`remove-statistics` and `remove-partition-statistics` of one snapshot, if there are any."""
    files = draft.entries(update["action"].removeprefix("remove-"))
    draft.changed = bool(files.remove(update["snapshot-id"])) or draft.changed


def remove_encryption_key(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`remove-encryption-key`: ignores an unknown key."""
    keys = draft.raw.get("encryption-keys") or []
    kept = [key for key in keys if key.get("key-id") != update["key-id"]]
    if keys:
        draft.put("encryption-keys", kept)


def check_properties(properties: Mapping[str, str], known: Mapping[str, str] | None = None) -> None:
    """Raises InvalidInput for reserved names and for values that a property cannot have, UnsupportedFormat for a
    property that would encrypt the table.

    known: what the table has. Values that change nothing pass: clients that replace a table send all of them again."""
    reserved = sorted(RESERVED_PROPERTIES & properties.keys())
    if reserved:
        raise InvalidInput(f"Table properties should not contain reserved properties, but got {', '.join(reserved)}")
    if ENCRYPTION_KEY_PROPERTY in properties:
        raise UnsupportedFormat(f"Cannot set {ENCRYPTION_KEY_PROPERTY}: encryption")
    before = known or {}
    table_properties.check({name: value for name, value in properties.items() if before.get(name) != value})


def parse_format_version(text: str) -> int:
    """The number in a `format-version` property. Raises InvalidInput."""
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"format-version must be 1, 2 or 3, but is {read.shown(text)}") from None


def _upgrade(draft: MetadataDraft, version: int) -> None:
    if version > SUPPORTED_FORMAT_VERSION:
        raise UnsupportedFormat(
            f"Cannot upgrade table to unsupported format version: v{version} (supported: v{SUPPORTED_FORMAT_VERSION})"
        )
    old = draft.format_version
    if version < old:
        raise DoesNotFit(f"Cannot downgrade v{old} table to v{version}")
    draft.put("format-version", version)
    if old < 2 <= version:
        _leave_v1(draft)
    if old < 3 <= version:
        draft.raw.setdefault("next-row-id", 0)
        draft.set_current_snapshot(draft.current_snapshot_id)


def _leave_v1(draft: MetadataDraft) -> None:
    # Spec, Appendix E, version 2: ids are written out everywhere, the single schema and spec are left out.
    draft.raw.setdefault("last-sequence-number", 0)
    draft.rewrite("schemas", [schema.with_id(schema.schema_id) for schema in draft.schemas])
    draft.rewrite("partition-specs", [spec.with_id(spec.spec_id) for spec in draft.specs])
    draft.raw.pop("schema", None)
    draft.raw.pop("partition-spec", None)


def _blob(raw: Any, what: str) -> dict[str, Any]:
    blob = read.without_nulls(read.require_object(raw, what))
    kind = read.require_str(blob, "type", what)
    if kind not in BLOB_TYPES:
        raise InvalidInput(
            f"{what}: type must be one of {', '.join(sorted(BLOB_TYPES))}, but is {read.shown(kind)}: PyIceberg could "
            "not load the table",
            next_step="leave the blob out of blob-metadata; it may stay in the file",
        )
    read.require_long(blob, "snapshot-id", what)
    read.require_long(blob, "sequence-number", what)
    read.require_int_list(blob, "fields", what)
    if "properties" in blob:
        read.require_str_map(blob, "properties", what)
    return blob


def _set_statistics_file(draft: MetadataDraft, key: str, file: Mapping[str, Any], what: str) -> None:
    snapshot_id = read.require_long(file, "snapshot-id", what)
    read.require_str(file, "statistics-path", what)
    read.require_long(file, "file-size-in-bytes", what)
    files = draft.entries(key)
    files.remove(snapshot_id)
    files.add(file)
    draft.changed = True
