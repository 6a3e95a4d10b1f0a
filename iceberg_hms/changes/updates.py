"""The REST protocol's updates: what a commit changes (spec: TableUpdate); parsing them, and making our own.

An update is its JSON object, {"action": "set-location", "location": "..."}. `parse` checks shapes once, when a request
arrives, so that a malformed one is refused before it is queued; `format.updates.apply` gives updates their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from iceberg_hms.changes.change import Update
from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.metadata.snapshot import Ref, Snapshot

BRANCH = "branch"
TAG = "tag"

_Shape = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def parse(updates: object) -> tuple[Update, ...]:
    """The updates of a request, with `action` in lower case and field names of older clients replaced by today's; the
    rest unchanged.

    updates: a list of JSON objects. Raises InvalidInput: unknown action, missing or malformed field, a view's update;
    UnsupportedFormat: encryption.
    """
    if not isinstance(updates, list | tuple):
        raise InvalidInput(f"Cannot parse metadata updates from non-array value: {updates!r}")
    return tuple(map(_parse_one, updates))


def add_snapshot(snapshot: Mapping[str, Any]) -> Update:
    """snapshot: the spec's JSON. Moves no ref."""
    return {"action": "add-snapshot", "snapshot": snapshot}


def set_snapshot_ref(name: str, snapshot_id: int, *, kind: str = BRANCH, retention: Ref | None = None) -> Update:
    """Point a branch or tag to a snapshot.

    retention: the ref whose retention settings to keep; an update without them removes them.
    """
    update: dict[str, Any] = {
        "action": "set-snapshot-ref",
        "ref-name": name,
        "type": kind,
        "snapshot-id": snapshot_id,
    }
    if retention is not None:
        kept = {
            "min-snapshots-to-keep": retention.min_snapshots_to_keep,
            "max-snapshot-age-ms": retention.max_snapshot_age_ms,
            "max-ref-age-ms": retention.max_ref_age_ms,
        }
        update.update({key: value for key, value in kept.items() if value is not None})
    return update


def remove_snapshot_ref(name: str) -> Update:
    """Remove a branch or tag; no change if there is none of the name."""
    return {"action": "remove-snapshot-ref", "ref-name": name}


def set_properties(properties: Mapping[str, str]) -> Update:
    """properties: table properties to add or replace; others stay."""
    return {"action": "set-properties", "updates": dict(properties)}


def remove_properties(names: Iterable[str]) -> Update:
    """names: of table properties; missing ones are ignored."""
    return {"action": "remove-properties", "removals": list(names)}


def _parse_one(update: object) -> Update:
    source = read.require_object(update, "metadata update")
    if source.get("action") is None:
        raise InvalidInput("Cannot parse metadata update. Missing field: action")
    action = read.require_str(source, "action", "metadata update").lower()
    if action in _VIEW_ACTIONS:
        raise InvalidInput(f"Cannot apply update {action} to a table")
    shape = SHAPES.get(action)
    if shape is None:
        raise InvalidInput(f"Cannot convert metadata update action to json: {action}")
    return {**source, "action": action, **shape(source)}


def _text(action: str, *names: str) -> _Shape:
    return lambda source: {name: read.require_str(source, name, action) for name in names}


def _integer(action: str, name: str) -> _Shape:
    return lambda source: {name: read.require_int(source, name, action)}


def _long(action: str, name: str) -> _Shape:
    return lambda source: {name: read.require_long(source, name, action)}


def _child(action: str, name: str) -> _Shape:
    return lambda source: {name: _child_of(source, name, action)}


def _integer_list(action: str, name: str) -> _Shape:
    return lambda source: {name: read.require_int_list(source, name, action)}


def _child_of(source: Mapping[str, Any], name: str, action: str) -> Mapping[str, Any]:
    return read.require_object(source.get(name), f"{action}: {name}")


def _str_list(source: Mapping[str, Any], name: str, action: str) -> list[str]:
    values = read.require_list(source, name, action)
    if not all(isinstance(value, str) for value in values):
        raise InvalidInput(f"{action}: {name} must be a list of strings")
    return values


def _snapshot(source: Mapping[str, Any]) -> Mapping[str, Any]:
    snapshot = _child_of(source, "snapshot", "add-snapshot")
    Snapshot.parse(snapshot)
    if snapshot.get("manifests") is None:
        read.require_str(snapshot, "manifest-list", "add-snapshot")
    return {"snapshot": snapshot}


def _snapshot_ref(source: Mapping[str, Any]) -> Mapping[str, Any]:
    where = "set-snapshot-ref"
    kind = read.require_str(source, "type", where).lower()
    if kind not in (BRANCH, TAG):
        raise InvalidInput(f"Invalid {where}: type must be branch or tag, found {kind!r}")
    for name in ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"):
        read.optional_long(source, name, where)
    return {
        "ref-name": read.require_str(source, "ref-name", where),
        "snapshot-id": read.require_long(source, "snapshot-id", where),
        "type": kind,
    }


def _snapshots(source: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"snapshot-ids": read.require_long_list(source, "snapshot-ids", "remove-snapshots")}


def set_field(source: Mapping[str, Any]) -> str:
    """The field of a `set-properties` that has the values: "updated" if the client is older than Iceberg 1.0."""
    return "updated" if "updated" in source and "updates" not in source else "updates"


def removed_field(source: Mapping[str, Any]) -> str:
    """The field of a `remove-properties` that has the keys, likewise."""
    return "removed" if "removed" in source and "removals" not in source else "removals"


def _properties(source: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"updates": read.require_str_map(source, set_field(source), "set-properties")}


def _removals(source: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"removals": _str_list(source, removed_field(source), "remove-properties")}


def _encryption(_source: Mapping[str, Any]) -> Mapping[str, Any]:
    raise UnsupportedFormat("Cannot add an encryption key: encrypted tables are not supported")


_VIEW_ACTIONS = frozenset({"add-view-version", "set-current-view-version"})

#: How the fields of each action are checked.
SHAPES: Mapping[str, _Shape] = {
    "assign-uuid": _text("assign-uuid", "uuid"),
    "upgrade-format-version": _integer("upgrade-format-version", "format-version"),
    "add-schema": _child("add-schema", "schema"),
    "set-current-schema": _integer("set-current-schema", "schema-id"),
    "remove-schemas": _integer_list("remove-schemas", "schema-ids"),
    "add-spec": _child("add-spec", "spec"),
    "set-default-spec": _integer("set-default-spec", "spec-id"),
    "remove-partition-specs": _integer_list("remove-partition-specs", "spec-ids"),
    "add-sort-order": _child("add-sort-order", "sort-order"),
    "set-default-sort-order": _integer("set-default-sort-order", "sort-order-id"),
    "add-snapshot": _snapshot,
    "remove-snapshots": _snapshots,
    "set-snapshot-ref": _snapshot_ref,
    "remove-snapshot-ref": _text("remove-snapshot-ref", "ref-name"),
    "set-properties": _properties,
    "remove-properties": _removals,
    "set-location": _text("set-location", "location"),
    "set-statistics": _child("set-statistics", "statistics"),
    "remove-statistics": _long("remove-statistics", "snapshot-id"),
    "set-partition-statistics": _child("set-partition-statistics", "partition-statistics"),
    "remove-partition-statistics": _long("remove-partition-statistics", "snapshot-id"),
    "add-encryption-key": _encryption,
    "remove-encryption-key": _text("remove-encryption-key", "key-id"),
}
