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

#: Checks the fields of an update, given its action, and returns those that it reads.
_Shape = Callable[[Mapping[str, Any], str], Mapping[str, Any]]


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
    kept = {} if retention is None else retention.to_json()
    return {"action": "set-snapshot-ref", "ref-name": name, **kept, "snapshot-id": snapshot_id, "type": kind}


def remove_snapshot_ref(name: str) -> Update:
    """Remove a branch or tag; no change if there is none of the name."""
    return {"action": "remove-snapshot-ref", "ref-name": name}


def set_properties(properties: Mapping[str, str]) -> Update:
    """properties: table properties to add or replace; others stay."""
    return {"action": "set-properties", "updates": dict(properties)}


def remove_properties(names: Iterable[str]) -> Update:
    """names: of table properties; missing ones are ignored."""
    return {"action": "remove-properties", "removals": list(names)}


def read_kind(raw: object, key: str, what: str) -> tuple[Mapping[str, Any], str]:
    """A requirement or an update, and its type or action in lower case. Raises InvalidInput if it has none."""
    source = read.require_object(raw, what)
    kind = read.optional_str(source, key, what)
    if kind is None:
        raise InvalidInput(f"Cannot parse {what}. Missing field: {key}")
    return source, kind.lower()


def _parse_one(update: object) -> Update:
    source, action = read_kind(update, "action", "metadata update")
    if action in _VIEW_ACTIONS:
        raise InvalidInput(f"Cannot apply update {action} to a table")
    shape = SHAPES.get(action)
    if shape is None:
        raise InvalidInput(f"Cannot convert metadata update action to json: {action}")
    return {**source, "action": action, **shape(source, action)}


def _field(name: str, reader: Callable[[Mapping[str, Any], str, str], Any]) -> _Shape:
    """The shape of an action with one field that matters."""
    return lambda source, action: {name: reader(source, name, action)}


def _child(source: Mapping[str, Any], name: str, action: str) -> Mapping[str, Any]:
    return read.require_object(source.get(name), f"{action}: {name}")


def _str_list(source: Mapping[str, Any], name: str, action: str) -> list[str]:
    values = read.require_list(source, name, action)
    if not all(isinstance(value, str) for value in values):
        raise InvalidInput(f"{action}: {name} must be a list of strings")
    return values


def _snapshot(source: Mapping[str, Any], action: str) -> Mapping[str, Any]:
    snapshot = _child(source, "snapshot", action)
    Snapshot.parse(snapshot)
    if snapshot.get("manifests") is None:
        read.require_str(snapshot, "manifest-list", action)
    return {"snapshot": snapshot}


def _snapshot_ref(source: Mapping[str, Any], action: str) -> Mapping[str, Any]:
    kind = read.require_str(source, "type", action).lower()
    if kind not in (BRANCH, TAG):
        raise InvalidInput(f"Invalid {action}: type must be branch or tag, found {kind!r}")
    for name in ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"):
        read.optional_long(source, name, action)
    return {
        "ref-name": read.require_str(source, "ref-name", action),
        "snapshot-id": read.require_long(source, "snapshot-id", action),
        "type": kind,
    }


def set_field(source: Mapping[str, Any]) -> str:
    """The field of a `set-properties` that has the values: "updated" if the client is older than Iceberg 1.0."""
    return "updated" if "updated" in source and "updates" not in source else "updates"


def removed_field(source: Mapping[str, Any]) -> str:
    """The field of a `remove-properties` that has the keys, likewise."""
    return "removed" if "removed" in source and "removals" not in source else "removals"


def _properties(source: Mapping[str, Any], action: str) -> Mapping[str, Any]:
    return {"updates": read.require_str_map(source, set_field(source), action)}


def _removals(source: Mapping[str, Any], action: str) -> Mapping[str, Any]:
    return {"removals": _str_list(source, removed_field(source), action)}


def _encryption(_source: Mapping[str, Any], _action: str) -> Mapping[str, Any]:
    raise UnsupportedFormat("Cannot add an encryption key: encrypted tables are not supported")


_VIEW_ACTIONS = frozenset({"add-view-version", "set-current-view-version"})

#: How the fields of each action are checked.
SHAPES: Mapping[str, _Shape] = {
    "assign-uuid": _field("uuid", read.require_str),
    "upgrade-format-version": _field("format-version", read.require_int),
    "add-schema": _field("schema", _child),
    "set-current-schema": _field("schema-id", read.require_int),
    "remove-schemas": _field("schema-ids", read.require_int_list),
    "add-spec": _field("spec", _child),
    "set-default-spec": _field("spec-id", read.require_int),
    "remove-partition-specs": _field("spec-ids", read.require_int_list),
    "add-sort-order": _field("sort-order", _child),
    "set-default-sort-order": _field("sort-order-id", read.require_int),
    "add-snapshot": _snapshot,
    "remove-snapshots": _field("snapshot-ids", read.require_long_list),
    "set-snapshot-ref": _snapshot_ref,
    "remove-snapshot-ref": _field("ref-name", read.require_str),
    "set-properties": _properties,
    "remove-properties": _removals,
    "set-location": _field("location", read.require_str),
    "set-statistics": _field("statistics", _child),
    "remove-statistics": _field("snapshot-id", read.require_long),
    "set-partition-statistics": _field("partition-statistics", _child),
    "remove-partition-statistics": _field("snapshot-id", read.require_long),
    "add-encryption-key": _encryption,
    "remove-encryption-key": _field("key-id", read.require_str),
}
