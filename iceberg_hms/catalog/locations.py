"""Where a new table or view lies if its creator does not say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from iceberg_hms.catalog.services import Services
from iceberg_hms.catalog.table_access import LoadedTable
from iceberg_hms.changes.clients.request import Client
from iceberg_hms.coordinator.locations.folder_overlaps import (
    HiveRows,
    is_known_to_be_free,
    refuse_shared_folder,
    tables_sharing,
)
from iceberg_hms.coordinator.locations.location_policy import ClientLocations, LocationPolicy
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import LocationNotAllowed
from iceberg_hms.format.locations import Location, check_length, contains, parse
from iceberg_hms.format.metadata.named_locations import LOCATION_PROPERTIES
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: The namespace property with the location of its new tables.
NAMESPACE_LOCATION: Final = "location"
#: A local location as Hadoop spells it. ClickHouse takes no location without the two slashes.
_WITHOUT_AUTHORITY: Final = re.compile(r"\Afile:/(?!/)", re.IGNORECASE)


def client_locations(policy: LocationPolicy | None, name: TableName, client: Client | None) -> ClientLocations | None:
    """Which locations a caller may name for a table or view; None: every one. client: None for a caller of whom nothing
    is known, who may use the table's own namespace."""
    return None if policy is None else ClientLocations(policy, name.namespace, (client or Client()).may_write)


def folders_of(metadata: TableMetadata, serves: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """The folders in which a table's files are written, in a store, as the name of the field or property and the
    location. serves: whether a location is in the store."""
    named = [("location", metadata.location)]
    named += [(key, folder) for key in LOCATION_PROPERTIES if (folder := metadata.properties.get(key))]
    found: list[Location] = []
    for what, folder in named:
        if not serves(folder):
            continue
        location = parse(f"{folder.rstrip('/')}/")
        if not any(contains(each, location) for each in found):
            found.append(location)
            yield what, folder


def client_folders(
    policy: LocationPolicy | None, table: LoadedTable, may: Callable[[str], bool], serves: Callable[[str], bool]
) -> list[str]:
    """The folders of a table, in a store, for which one caller may have credentials: those in which it might put a
    table of the same namespace, or in which the table is. policy: None for callers with the process's rights. may:
    whether the caller may do in a namespace what the credentials are for. serves: as for `folders_of`.
    Raises LocationNotAllowed if the folder of the table itself is none of them, MetastoreError."""
    folders = list(folders_of(table.metadata, serves))
    if policy is None or table.row is None or not folders:
        return [folder for _, folder in folders]
    guard = ClientLocations(policy, table.name.namespace, may).of_table(
        policy.table_guard(table.row, table.metadata), table.row
    )
    allowed = []
    for what, folder in folders:
        try:
            guard.check_folder(folder, what)
        except LocationNotAllowed:
            if what == "location":
                raise
        else:
            allowed.append(folder)
    return allowed


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
