"""Databases of the metastore as namespaces, with the properties that Java's HiveCatalog gives them.

`location`, `comment`, `hive.metastore.database.owner` and `...owner-type` (USER, GROUP, ROLE) are fields of the
database; everything else is one of its parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any, Final

from iceberg_hms.coordinator.ports import DATABASE_NAME_MAX
from iceberg_hms.errors import AlreadyExists, InvalidInput, MetastoreUnavailable, NamespaceNotEmpty, NoSuchNamespace
from iceberg_hms.metastore.connection.faults import NO_DATABASE, Fault, NoAnswer, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.storable import (
    DATABASE_COMMENT_MAX,
    DATABASE_KEY_MAX,
    DATABASE_OWNER_MAX,
    DATABASE_VALUE_MAX,
    LOCATION_MAX,
    PARAMETERS_MAX,
    require,
    require_key,
)
from iceberg_hms.metastore.connection.thrift_types import Database, PrincipalType
from iceberg_hms.metastore.connection.versions import changes_databases

LOCATION = "location"
COMMENT = "comment"
OWNER = "hive.metastore.database.owner"
OWNER_TYPE = "hive.metastore.database.owner-type"

#: Most bytes of the properties that are fields of the database.
_FIELD_MAX: Final = {
    LOCATION: LOCATION_MAX,
    COMMENT: DATABASE_COMMENT_MAX,
    OWNER: DATABASE_OWNER_MAX,
    OWNER_TYPE: DATABASE_OWNER_MAX,
}

_OWNER_TYPES: dict[str, int] = PrincipalType._NAMES_TO_VALUES
_OWNER_TYPE_NAMES: dict[int, str] = PrincipalType._VALUES_TO_NAMES


class HmsNamespaces:
    """list, exists, create, load, update, drop. user: owner of new databases that name none; "" leaves it out.

    A database has no compare-and-swap: two updates at the same time may lose one, as with every catalog on Hive.
    """

    def __init__(self, pool: ClientPool, user: str = "") -> None:
        self._pool = pool
        self._user = user

    def list(self) -> list[str]:
        """Names of all databases, sorted."""
        return sorted(self._pool.ask("get_all_databases"))

    def exists(self, namespace: str) -> bool:
        try:
            self._load(namespace)
        except NoSuchNamespace:
            return False
        return True

    def load(self, namespace: str) -> dict[str, str]:
        """A database's properties. Raises NoSuchNamespace."""
        database = self._load(namespace)
        properties: dict[str, str] = dict(database.parameters or {})
        fields = {
            LOCATION: database.locationUri,
            COMMENT: database.description,
            OWNER: database.ownerName,
            OWNER_TYPE: _OWNER_TYPE_NAMES.get(database.ownerType) if database.ownerName else None,
        }
        return properties | {key: value for key, value in fields.items() if value is not None}

    def create(self, namespace: str, properties: Mapping[str, str]) -> None:
        """Raises AlreadyExists, InvalidInput (an owner type without an owner, a name or location that Hive refuses, and
        what its database cannot hold)."""
        require("the namespace's name", namespace, DATABASE_NAME_MAX)
        _check_storable(properties)
        if OWNER_TYPE in properties and OWNER not in properties:
            raise InvalidInput(f"Create namespace setting {OWNER_TYPE} without setting {OWNER} is not allowed")
        database = Database(name=namespace, parameters={})
        for key, value in properties.items():
            _set(database, key, value)
        _check_count(database, 0)
        if database.ownerName is None and self._user:
            database.ownerName, database.ownerType = self._user, PrincipalType.USER
        try:
            self._change("create_database", database=database)
        except ServerFault as fault:
            match fault.fault:
                case Fault.ALREADY_EXISTS:
                    raise AlreadyExists(f"Namespace already exists: {namespace}") from None
                case Fault.INVALID:
                    raise InvalidInput(
                        f"The metastore does not take the namespace {namespace}: {fault.detail}"
                    ) from None
            raise

    def update(self, namespace: str, updates: Mapping[str, str], removals: Collection[str]) -> None:
        """Set and remove properties in one change. Raises NoSuchNamespace, InvalidInput (owner and owner type go
        together; location and comment cannot be removed, nor changed before Hive 3: the metastore keeps the old ones
        without a word)."""
        for keys in (updates, removals):
            if (OWNER in keys) != (OWNER_TYPE in keys):
                raise InvalidInput(f"{OWNER} and {OWNER_TYPE} have to be set or removed together or not at all")
        for key in (LOCATION, COMMENT):
            if key in removals:
                raise InvalidInput(f"The {key} of a namespace cannot be removed", next_step="set another")
        _check_storable(updates)
        database = copy.copy(self._load(namespace))
        self._check_changes(database, updates)
        database.parameters = dict(database.parameters or {})
        before = len(database.parameters)
        for key in removals:
            _remove(database, key)
        for key, value in updates.items():
            _set(database, key, value)
        _check_count(database, before)
        try:
            self._change("alter_database", dbname=namespace, db=database)
        except ServerFault as fault:
            if fault.fault in NO_DATABASE:
                raise NoSuchNamespace(namespace) from None
            raise

    def drop(self, namespace: str) -> None:
        """Remove an empty database; its folder stays. Raises NoSuchNamespace, NamespaceNotEmpty."""
        # Hive 2.3 fails with a NullPointerException for a database that is not there.
        self._load(namespace)
        try:
            self._change("drop_database", name=namespace, deleteData=False, cascade=False)
        except ServerFault as fault:
            if fault.fault in NO_DATABASE:
                raise NoSuchNamespace(namespace) from None
            if fault.fault is Fault.NOT_EMPTY:
                raise NamespaceNotEmpty(namespace) from None
            raise

    def _check_changes(self, database: Any, updates: Mapping[str, str]) -> None:
        current = {LOCATION: database.locationUri, COMMENT: database.description}
        changed = [key for key, value in current.items() if updates.get(key, value) != value]
        if changed and not self._pool.run(changes_databases, idempotent=True):
            raise InvalidInput(f"This metastore cannot change the {' and '.join(changed)} of a namespace: Hive 3 can")

    def _load(self, namespace: str) -> Any:
        try:
            database = self._pool.ask("get_database", name=namespace)
        except ServerFault as fault:
            if fault.fault in NO_DATABASE:
                raise NoSuchNamespace(namespace) from None
            raise
        if database.name.lower() != namespace.lower():
            # The metastore takes this for another spelling of a name.
            raise NoSuchNamespace(namespace)
        return database

    def _change(self, method: str, **arguments: Any) -> None:
        try:
            self._pool.run_with_location(lambda client: client.call(method, **arguments))
        except NoAnswer as error:
            raise MetastoreUnavailable(
                f"{error.message}; it may have been carried out", next_step="look at the namespace before you try again"
            ) from error


def _check_storable(properties: Mapping[str, str]) -> None:
    """Raises InvalidInput for a property that the metastore cannot hold: it has no other place."""
    for key, value in properties.items():
        if key not in _FIELD_MAX:
            require_key("a namespace's property", key, DATABASE_KEY_MAX)
        require(f"the namespace's {key}", value, _FIELD_MAX.get(key, DATABASE_VALUE_MAX))


def _check_count(database: Any, before: int) -> None:
    """Raises InvalidInput for more parameters than a namespace may get. before: how many it has; it may have that many
    by another's doing, and keep them."""
    if len(database.parameters) > max(PARAMETERS_MAX, before):
        raise InvalidInput(
            f"The namespace would have {len(database.parameters):,} properties",
            next_step=f"keep at most {PARAMETERS_MAX:,}: the metastore writes them one by one",
        )


def _set(database: Any, key: str, value: str) -> None:
    match key:
        case "location":
            database.locationUri = value
        case "comment":
            database.description = value
        case "hive.metastore.database.owner":
            database.ownerName = value
            if database.ownerType is None:
                database.ownerType = PrincipalType.USER
        case "hive.metastore.database.owner-type":
            if value not in _OWNER_TYPES:
                raise InvalidInput(f"{OWNER_TYPE} is {value!r}, not one of {', '.join(sorted(_OWNER_TYPES))}")
            database.ownerType = _OWNER_TYPES[value]
        case _:
            database.parameters[key] = value


def _remove(database: Any, key: str) -> None:
    match key:
        case "hive.metastore.database.owner":
            database.ownerName = None
        case "hive.metastore.database.owner-type":
            database.ownerType = None
        case _:
            database.parameters.pop(key, None)
