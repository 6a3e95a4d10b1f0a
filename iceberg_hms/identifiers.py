"""Checks the names of tables and namespaces that callers write.

The metastore takes everything up to a blank off both ends of a name, and folds case. So `t`, `T` and `t` with a NUL
behind it are one row there, but not to a lock or a rule for names. Here a name that is not spelled as the metastore
keeps it, but for its case, names nothing.
"""

from __future__ import annotations

import re
from typing import Final

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput, NoSuchNamespace, NoSuchTable

#: What every metastore version accepts as the name of a database or table (MetaStoreUtils.validateName).
_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
#: What the metastore trims, control characters, halves of surrogate pairs, and what Hive 3 takes for the name of a
#: catalog before that of a database (`@hive#db`).
_ALIAS: Final = re.compile(r"^[ @]|[\x00-\x1f\x7f-\x9f\ud800-\udfff]| $")

Identifier = str | tuple[str, str] | TableName


def table_name(identifier: Identifier) -> TableName:
    """ "db.table", ("db", "table") or a TableName, folded to lower case as the metastore does. Raises InvalidInput, and
    NoSuchTable for a name that no table has."""
    namespace, name = _parts(identifier)
    if _ALIAS.search(namespace) or _ALIAS.search(name):
        raise NoSuchTable(f"{namespace}.{name}")
    return TableName(namespace.lower(), name.lower())


def new_table_name(identifier: Identifier) -> TableName:
    """The same for a table to be created. Raises InvalidInput, and NoSuchNamespace for one that no namespace has."""
    namespace, name = _parts(identifier)
    return TableName(namespace_name(namespace), new_name(name, "table"))


def namespace_name(name: str) -> str:
    """The name of a namespace, folded to lower case. Raises NoSuchNamespace for a name that none has."""
    if not name or _ALIAS.search(name):
        raise NoSuchNamespace(name)
    return name.lower()


def new_name(name: str, kind: str) -> str:
    """Check the name of a table or namespace to be created, and fold it to lower case. Raises InvalidInput."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"not a valid name for a {kind}: {name!r}",
            next_step="use letters, digits and underscores, as the metastore asks",
        )
    return name.lower()


def _parts(identifier: Identifier) -> tuple[str, str]:
    if isinstance(identifier, TableName):
        return identifier.namespace, identifier.name
    parts = tuple(identifier.split(".")) if isinstance(identifier, str) else tuple(identifier)
    if len(parts) != 2 or not all(parts):
        raise InvalidInput(
            f"not a table's name: {identifier!r}",
            next_step='write "namespace.table"; the metastore has one level of namespaces',
        )
    return parts[0], parts[1]
