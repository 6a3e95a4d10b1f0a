"""Where a new table or view lies if its creator does not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from iceberg_hms.catalog.services import Services
from iceberg_hms.changes.clients.request import Client
from iceberg_hms.coordinator.locations.folder_overlaps import (
    HiveRows,
    is_known_to_be_free,
    refuse_shared_folder,
    tables_sharing,
)
from iceberg_hms.coordinator.locations.location_policy import ClientLocations, LocationPolicy
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.locations import check_length

#: The namespace property with the location of its new tables.
NAMESPACE_LOCATION: Final = "location"
#: A local location as Hadoop spells it. ClickHouse takes no location without the two slashes.
_WITHOUT_AUTHORITY: Final = re.compile(r"\Afile:/(?!/)", re.IGNORECASE)


def client_locations(policy: LocationPolicy | None, name: TableName, client: Client | None) -> ClientLocations | None:
    """Which locations a caller may name for a table or view; None: every one. client: None for a caller of whom nothing
    is known, who may use the table's own namespace."""
    return None if policy is None else ClientLocations(policy, name.namespace, (client or Client()).may_write)


def namespace_folder(services: Services, name: TableName, namespace: Mapping[str, str]) -> str:
    """The folder of a namespace with these properties; `file:///x` where they say `file:/x`. name: of a table in it."""
    location = namespace.get(NAMESPACE_LOCATION)
    folder = (location or f"{services.settings.warehouse.rstrip('/')}/{name.namespace}.db").rstrip("/")
    return _WITHOUT_AUTHORITY.sub("file:///", folder)


def refuse_shared_namespace(services: Services, namespace: str, folder: str) -> None:
    """Raises InvalidInput if the folder that a namespace is to have is, contains or lies in that of a table or view of
    another namespace that is found in time; MetastoreError."""
    nobody = TableName(namespace, "")
    is_known_to_be_free(services.ports, nobody, folder, hive=HiveRows.NEAR, root=None, elsewhere=True)


@dataclass(frozen=True, slots=True)
class NewFolder:
    """The folder of a new table. is_owned: it is empty, and no other table or view was found in it or around it, so
    that it may be recorded as the table's own. is_new: the server chose it, below the namespace's folder, and no file
    is in it."""

    location: str
    is_owned: bool
    is_new: bool = False


def new_folder(
    services: Services, name: TableName, wanted: str | None, namespace: Mapping[str, str], *, staged: bool
) -> NewFolder:
    """The folder of a new table: the wanted one, or `<folder of the namespace>/<name>`, with a random suffix if that is
    not empty, if another table or a view of the namespace has it, or with `unique-table-location`.

    staged: its client makes the table later, in a folder that may be that of a Hive table: Spark's `migrate` stages a
    table in the folder of the one that it replaces.
    Raises InvalidInput for a wanted folder that is, contains or lies in that of another Iceberg table, or, unless it is
    staged, of a table or view of any kind; StorageError, MetastoreError."""
    root = namespace_folder(services, name, namespace)
    if wanted:
        location = wanted.rstrip("/")
        check_length(location)
        refuse_shared_folder(services.ports, name, location, root=root)
        if staged:
            return NewFolder(location, is_owned=False)
        is_free = is_known_to_be_free(services.ports, name, location, hive=HiveRows.NEAR, root=root)
        # Java's catalogs make a table where another one left its files, and Iceberg's compatibility kit tests that.
        return NewFolder(location, is_owned=is_free and not _holds_files(services, location))
    location = f"{root}/{name.name}"
    ports = services.ports
    unique = services.settings.unique_table_location
    # Java's HiveCatalog puts a view in `<folder of the namespace>/<name>`, where it stays when the view is renamed.
    if unique or tables_sharing(ports, name, location, root=root, with_views=True) or _holds_files(services, location):
        location = _unique(services, location)
    return NewFolder(location, is_owned=True, is_new=True)


def _holds_files(services: Services, location: str) -> bool:
    return next(iter(services.ports.files.list_files(location)), None) is not None


def new_view_folder(services: Services, name: TableName, namespace: Mapping[str, str]) -> str:
    """The folder of a new view, always with a random suffix: a table may get the view's name once the view is renamed,
    and an engine that removes orphan files from the table's folder would remove the view's metadata."""
    return _unique(services, f"{namespace_folder(services, name, namespace)}/{name.name}")


def _unique(services: Services, location: str) -> str:
    return f"{location}-{services.ports.runtime.uuid().replace('-', '')}"
