"""Where a new table or view lies if its creator does not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from iceberg_hms.catalog.services import Services
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.protocol.own_files import tables_sharing

#: The namespace property with the location of its new tables.
NAMESPACE_LOCATION: Final = "location"
#: A local location as Hadoop spells it. ClickHouse takes no location without the two slashes.
_WITHOUT_AUTHORITY: Final = re.compile(r"\Afile:/(?!/)", re.IGNORECASE)


def namespace_folder(services: Services, name: TableName, namespace: Mapping[str, str]) -> str:
    """The folder of a namespace with these properties; `file:///x` where they say `file:/x`. name: of a table in it."""
    location = namespace.get(NAMESPACE_LOCATION)
    folder = (location or f"{services.settings.warehouse.rstrip('/')}/{name.namespace}.db").rstrip("/")
    return _WITHOUT_AUTHORITY.sub("file:///", folder)


def new_folder(services: Services, name: TableName, namespace: Mapping[str, str]) -> str:
    """The folder of a new table: `<folder of the namespace>/<name>`, with a random suffix if another table or a view of
    the namespace has that folder, or with `unique-table-location`."""
    root = namespace_folder(services, name, namespace)
    location = f"{root}/{name.name}"
    ports = services.ports
    unique = services.settings.unique_table_location
    # Java's HiveCatalog puts a view in `<folder of the namespace>/<name>`, where it stays when the view is renamed.
    if unique or tables_sharing(ports, name, location, root=root, with_views=True):
        return _unique(services, location)
    return location


def new_view_folder(services: Services, name: TableName, namespace: Mapping[str, str]) -> str:
    """The folder of a new view, always with a random suffix: a table may get the view's name once the view is renamed,
    and an engine that removes orphan files from the table's folder would remove the view's metadata."""
    return _unique(services, f"{namespace_folder(services, name, namespace)}/{name.name}")


def _unique(services: Services, location: str) -> str:
    return f"{location}-{services.ports.runtime.uuid().replace('-', '')}"
