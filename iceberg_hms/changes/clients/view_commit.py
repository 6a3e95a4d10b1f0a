"""A commit to a view, as a REST client sends it: what it assumes of the view, and what it changes.

It replays on any state of the view that meets its requirements: the ids in it are assigned anew (`format.views.apply`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from iceberg_hms.changes import requirements as requirements_
from iceberg_hms.changes import updates as updates_
from iceberg_hms.changes.change import Requirement, Update
from iceberg_hms.changes.clients.request import MAX_LAYOUTS, check_count
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.views.apply import apply
from iceberg_hms.format.views.view_metadata import ViewMetadata, ViewVersion

_SHARED_ACTIONS: Final = (
    "assign-uuid",
    "upgrade-format-version",
    "add-schema",
    "set-location",
    "set-properties",
    "remove-properties",
)
_ADDITIONS: Final = frozenset({"add-schema", "add-view-version"})


@dataclass(frozen=True, slots=True)
class ViewCommit:
    """requirements, updates: parsed, with their known fields."""

    requirements: tuple[Requirement, ...]
    updates: tuple[Update, ...]

    @classmethod
    def parse(cls, requirements: object, updates: object, *, max_updates: int | None = None) -> ViewCommit:
        """The commit of a request. requirements, updates: lists of JSON objects (REST: ViewRequirement, ViewUpdate).
        max_updates: of both together. Raises InvalidInput, also for a table's requirement or update."""
        check_count(requirements, updates, max_updates)
        if not isinstance(requirements, list | tuple):
            raise InvalidInput(f"Cannot parse requirements from non-array value: {read.shown(requirements)}")
        if not isinstance(updates, list | tuple):
            raise InvalidInput(f"Cannot parse metadata updates from non-array value: {read.shown(updates)}")
        parsed = tuple(_parse_update(each) for each in updates)
        if sum(each["action"] in _ADDITIONS for each in parsed) > MAX_LAYOUTS:
            raise InvalidInput(f"a commit may add at most {MAX_LAYOUTS} schemas and versions to a view")
        return cls(tuple(_parse_requirement(each) for each in requirements), parsed)

    def replay(self, base: ViewMetadata, *, now_ms: int) -> ViewMetadata:
        """The metadata that the commit makes of a view; `base` itself if it changes nothing. now_ms: wall clock.
        Raises RequirementFailed, InvalidInput."""
        for requirement in self.requirements:
            wanted = requirement["uuid"]
            if wanted.lower() != base.uuid.lower():
                message = f"view UUID does not match: expected {base.uuid} != {wanted}"
                kind = requirements_.ASSERT_VIEW_UUID
                raise RequirementFailed(kind, message, expected=wanted, found=base.uuid)
        return apply(base, self.updates, now_ms=now_ms)


def _parse_requirement(requirement: object) -> Requirement:
    source, kind = updates_.read_kind(requirement, "type", "update requirement")
    if kind != requirements_.ASSERT_VIEW_UUID:
        raise InvalidInput(f"Cannot validate {read.shown(kind)} against a view")
    return {"type": kind, "uuid": read.require_str(source, "uuid", kind)}


def _parse_update(update: object) -> Update:
    source, action = updates_.read_kind(update, "action", "metadata update")
    if action in _SHARED_ACTIONS:
        return {**source, "action": action, **updates_.SHAPES[action](source, action)}
    if action == "add-view-version":
        return {**source, "action": action, "view-version": ViewVersion.parse(source.get("view-version")).raw}
    if action == "set-current-view-version":
        return {**source, "action": action, "view-version-id": read.require_int(source, "view-version-id", action)}
    if action in updates_.SHAPES:
        raise InvalidInput(f"Cannot apply update {action} to a view")
    raise InvalidInput(f"Cannot convert metadata update action to json: {read.shown(action)}")
