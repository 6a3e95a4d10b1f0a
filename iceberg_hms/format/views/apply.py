"""`apply(base, updates)`: the view metadata that a list of REST updates makes, as Java's ViewMetadata.Builder makes it.

versions    A version that says the same as one of the view's is that one. Else its id is taken if it is higher than
            all, or the next higher one: a client that read an older state need not know which ids are taken.
ids         -1 is the schema or version that this request added last. Unlike in Java, an equal one that the view has
            already counts as added: a request that is sent again must not fail. Nor does an id that the request
            gave to what it adds mean another writer's, which got that id first.
version log an entry if the current version changes: with the version's time if this request added it, else now.
expiry      `version.history.num-entries` versions (10) are kept, and in any case the current one and those that
            this request added. The log is kept from the first entry on after which all versions are known.
dialects    A new current version must have SQL for all dialects of the last, unless the view has
            `replace.drop-dialect.allowed`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from iceberg_hms.errors import InvalidView
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.schema.new_schemas import new_view_schema
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.views.view_metadata import (
    FORMAT_VERSION,
    SQL,
    ViewMetadata,
    ViewVersion,
    check_format_version,
    is_sql,
)

#: View properties, with Java's names and defaults (ViewProperties).
HISTORY_SIZE: Final = "version.history.num-entries"
HISTORY_SIZE_DEFAULT: Final = 10
DROP_DIALECT_ALLOWED: Final = "replace.drop-dialect.allowed"

_LAST_ADDED: Final = -1
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")


def apply(base: ViewMetadata | None, updates: Sequence[Mapping[str, Any]], *, now_ms: int) -> ViewMetadata:
    """The metadata after some updates, whose shapes are checked (`changes.clients.view_commit`); `base` itself if they
    change nothing. base: None for a new view. now_ms: wall clock. Raises InvalidInput, UnsupportedFormat."""
    draft = _Draft(base, now_ms)
    for update in updates:
        _APPLY[update["action"]](draft, update)
    return draft.build()


def new_view_metadata(
    uuid: str,
    location: str,
    properties: Mapping[str, str],
    schema: Mapping[str, Any],
    version: Mapping[str, Any],
    *,
    now_ms: int,
) -> ViewMetadata:
    """The metadata of a new view. schema, version: JSON; the server chooses their ids, 0 and 1. Raises InvalidInput."""
    chosen = {"version-id": 1, "schema-id": 0}
    first = ViewVersion.parse({"summary": {}, "timestamp-ms": now_ms, **version, **chosen})
    if not first.representations:
        raise InvalidView("Cannot create view without specifying a query")
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": dict(properties)},
        {"action": "add-schema", "schema": schema},
        {"action": "add-view-version", "view-version": first.with_ids(version_id=1, schema_id=_LAST_ADDED).raw},
        {"action": "set-current-view-version", "view-version-id": _LAST_ADDED},
    ]
    return apply(None, updates, now_ms=now_ms)


class _Draft:
    def __init__(self, base: ViewMetadata | None, now_ms: int) -> None:
        self.base = base
        self.now_ms = now_ms
        self.raw: dict[str, Any] = dict(base.raw) if base is not None else {"format-version": FORMAT_VERSION}
        self.versions = list(base.versions) if base is not None else []
        self.version_by_id = {each.version_id: each for each in reversed(self.versions)}
        self._properties: dict[str, str] | None = None
        self.schemas = list(base.schemas) if base is not None else []
        self.added_versions: set[int] = set()
        self.log_entry: dict[str, int] | None = None
        #: Ids by which the request calls what it adds, and -1 for the last -> the ids that they have.
        self.version_ids: dict[int, int] = {}
        self.schema_ids: dict[int, int] = {}
        self._version_by_content = {each.content: each.version_id for each in reversed(self.versions)}
        self._schema_by_content = {each.content: each.schema_id for each in reversed(self.schemas)}
        self._next_version = max((each.version_id + 1 for each in self.versions), default=0)

    @property
    def properties(self) -> dict[str, str]:
        """To be changed. It is copied once for all updates."""
        if self._properties is None:
            self._properties = self.raw["properties"] = dict(self.raw.get("properties") or {})
        return self._properties

    def add_schema(self, schema: Schema) -> int:
        """Returns the schema's id here."""
        known = self._schema_by_content.get(schema.content)
        if known is not None:
            return known
        schema_id = max((each.schema_id + 1 for each in self.schemas), default=0)
        self.schemas.append(schema.with_id(schema_id))
        self._schema_by_content[schema.content] = schema_id
        return schema_id

    def add_version(self, version: ViewVersion) -> int:
        """Returns the version's id here."""
        known = self._version_by_content.get(version.content)
        if known is not None:
            return known
        if all(each.schema_id != version.schema_id for each in self.schemas):
            raise InvalidView(f"Cannot add version with unknown schema: {version.schema_id}")
        _check_dialects_differ(version)
        version_id = max(version.version_id, self._next_version)
        if version_id >= read.MAX_INT:
            raise InvalidView(f"Cannot add version {version_id}: its id is too large")
        added = version.with_ids(version_id=version_id, schema_id=version.schema_id)
        self.versions.append(added)
        self.version_by_id[version_id] = added
        self._version_by_content[version.content] = version_id
        self._next_version = version_id + 1
        self.added_versions.add(version_id)
        return version_id

    def build(self) -> ViewMetadata:
        if self.raw.get("location") is None:
            raise InvalidView("Invalid location: null")
        if not self.versions:
            raise InvalidView("Invalid view: no versions were added")
        current = self.version_by_id.get(self.raw.get("current-version-id", 0))
        if current is None:
            raise InvalidView("Invalid view: it has no current version")
        properties = self.raw.get("properties") or {}
        log = [*self.raw.get("version-log", ()), *([self.log_entry] if self.log_entry is not None else [])]
        if (base := self.base) is not None:
            before = len(base.versions), len(base.schemas), len(base.version_log)
            if (len(self.versions), len(self.schemas), len(log)) == before and self.raw == base.raw:
                return base
            if properties.get(DROP_DIALECT_ALLOWED, "").lower() != "true":
                _check_dialects(base.current_version, current)
        kept = _kept_versions(self.versions, current, self.added_versions, _history_size(properties))
        if len(kept) < len(self.versions):
            log = _known_log(log, {each.version_id for each in kept})
        self.raw["schemas"] = [each.raw for each in self.schemas]
        self.raw["versions"] = [each.raw for each in kept]
        self.raw["version-log"] = log
        return ViewMetadata.parse(self.raw)


def _assign_uuid(draft: _Draft, update: Mapping[str, Any]) -> None:
    uuid = draft.raw.setdefault("view-uuid", update["uuid"])
    if uuid != update["uuid"]:
        raise InvalidView("Cannot reassign uuid")


def _upgrade_format_version(_draft: _Draft, update: Mapping[str, Any]) -> None:
    wanted = update["format-version"]
    if wanted < FORMAT_VERSION:
        raise InvalidView(f"Cannot downgrade v{FORMAT_VERSION} view to v{wanted}")
    check_format_version(wanted)


def _set_location(draft: _Draft, update: Mapping[str, Any]) -> None:
    if not update["location"]:
        # As for a table, and unlike Java: the next file would be /metadata/..., at the root of the file system.
        raise InvalidView("set-location: location must not be empty")
    draft.raw["location"] = update["location"]


def _set_properties(draft: _Draft, update: Mapping[str, Any]) -> None:
    if update["updates"]:
        draft.properties.update(update["updates"])


def _remove_properties(draft: _Draft, update: Mapping[str, Any]) -> None:
    before = draft.raw.get("properties") or {}
    for key in set(update["removals"]) & before.keys():
        del draft.properties[key]


def _add_schema(draft: _Draft, update: Mapping[str, Any]) -> None:
    schema = new_view_schema(update["schema"])
    schema_id = draft.add_schema(schema)
    draft.schema_ids.update({schema.schema_id: schema_id, _LAST_ADDED: schema_id})


def _add_view_version(draft: _Draft, update: Mapping[str, Any]) -> None:
    given = _new_version(update["view-version"])
    schema_id = draft.schema_ids.get(given.schema_id, given.schema_id)
    if schema_id == _LAST_ADDED:
        raise InvalidView("Cannot set last added schema: no schema has been added")
    version_id = draft.add_version(given.with_ids(version_id=given.version_id, schema_id=schema_id))
    draft.version_ids.update({given.version_id: version_id, _LAST_ADDED: version_id})


def _new_version(raw: Mapping[str, Any]) -> ViewVersion:
    """A version that a client sends, written as every reader takes it (view spec: Representations)."""
    given = ViewVersion.parse(read.without_nulls(raw))
    unknown = sorted({each["type"] for each in given.representations if not is_sql(each)})
    if unknown:
        raise InvalidView(f"Found unsupported view representations: {unknown}")
    representations = [{**read.without_nulls(each), "type": SQL} for each in given.representations]
    return ViewVersion({**given.raw, "representations": representations})


def _set_current_view_version(draft: _Draft, update: Mapping[str, Any]) -> None:
    wanted = draft.version_ids.get(update["view-version-id"], update["view-version-id"])
    if wanted == _LAST_ADDED:
        raise InvalidView("Cannot set last version id: no current version id has been set")
    if wanted == draft.raw.get("current-version-id"):
        return
    version = draft.version_by_id.get(wanted)
    if version is None:
        raise InvalidView(f"Cannot set current version to unknown version: {wanted}")
    draft.raw["current-version-id"] = wanted
    since = version.timestamp_ms if wanted in draft.added_versions else draft.now_ms
    draft.log_entry = {"timestamp-ms": since, "version-id": wanted}


def _check_dialects_differ(version: ViewVersion) -> None:
    seen: set[str] = set()
    for each in version.sql_representations:
        dialect = each["dialect"].lower()
        if dialect in seen:
            raise InvalidView(f"Invalid view version: Cannot add multiple queries for dialect {dialect}")
        seen.add(dialect)


def _check_dialects(before: ViewVersion, after: ViewVersion) -> None:
    if not before.dialects <= after.dialects:
        raise InvalidView(
            f"Cannot replace view due to loss of view dialects ({DROP_DIALECT_ALLOWED}=false):\n"
            f"Previous dialects: [{', '.join(sorted(before.dialects))}]\n"
            f"New dialects: [{', '.join(sorted(after.dialects))}]"
        )


def _history_size(properties: Mapping[str, str]) -> int:
    text = properties.get(HISTORY_SIZE, str(HISTORY_SIZE_DEFAULT))
    # Java fails on a view with a text that it takes for no number.
    if not _NUMBER.fullmatch(text):
        raise InvalidView(f"{HISTORY_SIZE} must be a number but was {read.shown(text)}")
    size = int(text)
    if not 0 < size <= read.MAX_INT:
        raise InvalidView(f"{HISTORY_SIZE} must be positive but was {size}")
    return size


def _kept_versions(
    versions: Sequence[ViewVersion], current: ViewVersion, added: Collection[int], history_size: int
) -> Sequence[ViewVersion]:
    """All of them, or the current one followed by the newest, by their ids."""
    most = max(history_size, len({*added, current.version_id}))
    if len(versions) <= most:
        return versions
    others = sorted((each for each in versions if each is not current), key=lambda each: -each.version_id)
    return [current, *others[: most - 1]]


def _known_log(log: Sequence[Mapping[str, Any]], known: Collection[int]) -> list[Mapping[str, Any]]:
    """The entries after the last one whose version is unknown."""
    unknown = [at for at, entry in enumerate(log) if entry["version-id"] not in known]
    return list(log[unknown[-1] + 1 :]) if unknown else list(log)


_APPLY: Final[Mapping[str, Callable[[_Draft, Mapping[str, Any]], None]]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-schema": _add_schema,
    "add-view-version": _add_view_version,
    "set-current-view-version": _set_current_view_version,
}
