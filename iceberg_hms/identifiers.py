"""Checks the names of tables and namespaces that callers write."""

from __future__ import annotations

import re

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput

#: What every metastore version accepts as the name of a database or table (MetaStoreUtils.validateName).
_NAME = re.compile(r"[A-Za-z0-9_]+")

Identifier = str | tuple[str, str] | TableName


def table_name(identifier: Identifier) -> TableName:
    """ "db.table", ("db", "table") or a TableName, folded to lower case as the metastore does. Raises InvalidInput."""
    if isinstance(identifier, TableName):
        return identifier
    parts = tuple(identifier.split(".")) if isinstance(identifier, str) else tuple(identifier)
    if len(parts) != 2 or not all(parts):
        raise InvalidInput(
            f"not a table's name: {identifier!r}",
            next_step='write "namespace.table"; the metastore has one level of namespaces',
        )
    return TableName(parts[0].lower(), parts[1].lower())


def new_name(name: str, kind: str) -> str:
    """Check the name of a table or namespace to be created, and fold it to lower case. Raises InvalidInput."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"not a valid name for a {kind}: {name!r}",
            next_step="use letters, digits and underscores, as the metastore asks",
        )
    return name.lower()
