"""Checks the names of tables and namespaces that callers write.

The metastore takes everything up to a blank off both ends of a name, and folds case. So `t`, `T` and `t` with a NUL
behind it are one row there, but not to a lock or a rule for names. Here a name that is not spelled as the metastore
keeps it, but for its case, names nothing.
"""

from __future__ import annotations

import re
from typing import Final

from iceberg_hms.coordinator.ports import DATABASE_NAME_MAX, TABLE_NAME_MAX, TableName
from iceberg_hms.errors import InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView

#: What every metastore version accepts as the name of a database or table (MetaStoreUtils.validateName).
_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
#: What the metastore trims, control characters, halves of surrogate pairs, and what Hive 3 takes for the name of a
#: catalog before that of a database (`@hive#db`).
_ALIAS: Final = re.compile(r"^[ @]|[\x00-\x1f\x7f-\x9f\ud800-\udfff]| $")
#: The longest names, in bytes of UTF-8: before the metastore hears of a longer one, it is known that nothing has it.
_LONGEST: Final = {"namespace": DATABASE_NAME_MAX, "table": TABLE_NAME_MAX, "view": TABLE_NAME_MAX}

Identifier = str | tuple[str, str] | TableName


def table_name(identifier: Identifier) -> TableName:
    """ "db.table", ("db", "table") or a TableName, folded to lower case as the metastore does. Raises InvalidInput, and
    NoSuchTable for a name that no table has."""
    namespace, name = _parts(identifier)
    if _names_nothing(namespace, "namespace") or _names_nothing(name, "table"):
        raise NoSuchTable(f"{namespace}.{name}")
    return TableName(namespace.lower(), name.lower())


def new_table_name(identifier: Identifier) -> TableName:
    """The same for a table to be created. Raises InvalidInput, and NoSuchNamespace for one that no namespace has."""
    namespace, name = _parts(identifier)
    return TableName(namespace_name(namespace), new_name(name, "table"))


def view_name(identifier: Identifier) -> TableName:
    """As `table_name`, for a view. Raises InvalidInput, and NoSuchView for a name that no view has."""
    try:
        return table_name(identifier)
    except NoSuchTable as error:
        raise NoSuchView(error.table) from None


def new_view_name(identifier: Identifier) -> TableName:
    """As `new_table_name`, for a view."""
    namespace, name = _parts(identifier)
    return TableName(namespace_name(namespace), new_name(name, "view"))


def spelled(identifier: Identifier) -> str:
    """The name as its caller wrote it, for messages. Raises InvalidInput."""
    return ".".join(_parts(identifier))


def namespace_name(name: str) -> str:
    """The name of a namespace, folded to lower case. Raises NoSuchNamespace for a name that none has."""
    if not name or _names_nothing(name, "namespace"):
        raise NoSuchNamespace(name)
    return name.lower()


def new_name(name: str, kind: str) -> str:
    """Check the name of a new "table", "view" or "namespace", and fold it to lower case. Raises InvalidInput."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"not a valid name for a {kind}: {name!r}",
            next_step="use letters, digits and underscores, as the metastore asks",
        )
    if len(name) > _LONGEST[kind]:
        raise InvalidInput(
            f"the name of a {kind} is too long: {name[:100]}...", next_step=f"use at most {_LONGEST[kind]} characters"
        )
    return name.lower()


def _names_nothing(name: str, kind: str) -> bool:
    """Whether it is known of a name that no namespace or table (`kind`) has it."""
    return _ALIAS.search(name) is not None or len(name.encode()) > _LONGEST[kind]


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
