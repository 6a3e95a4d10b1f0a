"""Properties that need more than the right to commit, and the values that they may have.

All writers of a table follow what it says of its lock: a caller who changes that can make others overwrite each other's
commits, or shut them out. So the change needs the admin scope over REST. A value that changes nothing passes, since
clients send a table's properties again when they replace it. A value that means nothing is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from iceberg_hms.changes.updates import removed_field, set_field
from iceberg_hms.config import Settings
from iceberg_hms.format.metadata.table_properties import (
    EXCLUSIVE,
    HIVE_LOCK_ENABLED,
    LOCK,
    REBASE_APPENDS,
    TableProperty,
)
from iceberg_hms.locking.lock_modes import LockMode

_LOCKING: Final = {each.name: each for each in (LOCK, EXCLUSIVE, HIVE_LOCK_ENABLED)}
_PROTECTED: Final = {**_LOCKING, REBASE_APPENDS.name: REBASE_APPENDS}

#: The actions of updates that name properties of a table.
_OF_PROPERTIES: Final = ("set-properties", "remove-properties")

#: Properties of a namespace whose change needs the admin scope: who owns it, and where its tables go.
_OF_NAMESPACES: Final = frozenset({"location", "hive.metastore.database.owner", "hive.metastore.database.owner-type"})


def marks_of_new_tables(settings: Settings) -> dict[str, str]:
    """What a new table has without a client's doing."""
    return {LOCK.name: LockMode.ZOOKEEPER.value} if settings.lock == LockMode.ZOOKEEPER else {}


def changed(properties: Mapping[str, Any], current: Mapping[str, str]) -> list[str]:
    """The properties, of those to be set on a table with `current` ones, whose change needs the admin scope.
    Raises InvalidInput for a changed value that means nothing."""
    found = [key for key in _PROTECTED if key in properties and not _is_same(key, properties[key], current)]
    for key in found:
        value = properties[key]
        # JSON's true is no text.
        _PROTECTED[key].check(value if isinstance(value, str) else f"no text: {value!r}")
    return [key for key in found if key in _LOCKING]


def replaced(properties: Mapping[str, Any], current: Mapping[str, str]) -> list[str]:
    """As `changed`, where the properties are all that a table with `current` ones has afterwards."""
    dropped = [key for key in _LOCKING if key not in properties and not _is_same(key, None, current)]
    return [*changed(properties, current), *dropped]


def touches(updates: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a commit's updates name a property of which the table must be asked whether they change it."""
    # Asked of every commit, and few name properties.
    for update in updates:
        if update.get("action") in _OF_PROPERTIES:
            policy = _set(update).get(REBASE_APPENDS.name, REBASE_APPENDS.default)
            if any(key in _names(update) for key in _LOCKING) or not _is_valid(REBASE_APPENDS, policy):
                return True
    return False


def changed_by(updates: Sequence[Mapping[str, Any]], current: Mapping[str, str]) -> list[str]:
    """As `changed`, for the updates of a commit."""
    found: list[str] = []
    for update in updates:
        found += changed(_set(update), current)
        found += [key for key in _LOCKING if key in _removed(update) and not _is_same(key, None, current)]
    return found


def without_unchanged(updates: Sequence[Mapping[str, Any]], current: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """The updates without values that the table has already, and without removals of what it lacks: when they are
    committed, it may have others, which they must not set back."""
    kept = []
    for update in updates:
        lacking = {key for key in _LOCKING if key in _removed(update) and key not in current}
        if lacking:
            update = {**update, "removals": [key for key in _removed(update) if key not in lacking]}
        same = [key for key, value in _set(update).items() if key in _PROTECTED and _is_same(key, value, current)]
        if same:
            update = {**update, "updates": {key: value for key, value in _set(update).items() if key not in same}}
        kept.append(update)
    return kept


def checked_namespace(properties: Mapping[str, str], removals: Collection[str] = ()) -> list[str]:
    """The properties, of those to be set and removed on a namespace, that need the admin scope. Raises InvalidInput for
    a value that means nothing."""
    if REBASE_APPENDS.name in properties:
        REBASE_APPENDS.check(properties[REBASE_APPENDS.name])
    return sorted(_OF_NAMESPACES & {*properties, *removals})


def _set(update: Mapping[str, Any]) -> Mapping[str, Any]:
    values = update.get(set_field(update)) if update.get("action") == "set-properties" else None
    return values if isinstance(values, dict) else {}


def _removed(update: Mapping[str, Any]) -> Collection[Any]:
    keys = update.get(removed_field(update)) if update.get("action") == "remove-properties" else None
    return keys if isinstance(keys, list) else ()


def _names(update: Mapping[str, Any]) -> Collection[Any]:
    return _set(update) or _removed(update)


def _is_same(key: str, value: Any, current: Mapping[str, str]) -> bool:
    default = _PROTECTED[key].default if key in _LOCKING else None
    return bool((default if value is None else value) == current.get(key, default))


def _is_valid(known: TableProperty[str], value: Any) -> bool:
    return isinstance(value, str) and known.parse(value) is not None
