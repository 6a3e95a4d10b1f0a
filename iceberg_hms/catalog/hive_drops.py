"""Drops Hive tables whose files an Iceberg table reads, and keeps the files.

Spark's `migrate`, `snapshot` and `add_files` make Iceberg tables of a Hive table's own files. Spark's session catalog
drops a Hive table itself when we do not have it, and the metastore then deletes the files. So before it hears that, all
Iceberg tables of the metastore are searched for files in the Hive table's folders.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from iceberg_hms.catalog.maintenance.reachable_files import in_batches
from iceberg_hms.catalog.services import Services
from iceberg_hms.changes.change import Manifests
from iceberg_hms.coordinator.hive_ports import HiveTable
from iceberg_hms.coordinator.locations.folder_overlaps import resolved
from iceberg_hms.coordinator.locations.guarded_manifests import manifests_for
from iceberg_hms.coordinator.locations.location_policy import LocationPolicy
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.ports import LockUse, Pointer, TableName
from iceberg_hms.coordinator.sending.operation_requests import Operation
from iceberg_hms.errors import (
    CommitConflict,
    CorruptFile,
    FileBeyondLimit,
    HiveTableKept,
    IcebergHmsError,
    InvalidInput,
    MetastoreError,
    MetastoreUnavailable,
    MissingFile,
    NoSuchTable,
)
from iceberg_hms.format.locations import parse
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

#: How long to search for a table that reads the files. A row takes about 3 ms.
SEARCH_SECONDS: Final = 10.0
#: How many manifests are read between two looks at the clock.
_AT_ONCE: Final = 16
#: Characters of a row's schema at most for its name mapping to fit into the row surely.
_SCHEMA_MAX: Final = 16_384


class HiveDrops:
    """services: of the catalog. locations: what REST clients may name, and so have read; None: everything. seconds: how
    long a search may take."""

    def __init__(
        self, services: Services, locations: LocationPolicy | None = None, *, seconds: float = SEARCH_SECONDS
    ) -> None:
        self._services = services
        self._ports = services.ports
        self._tables = services.hive_tables
        self._locations = locations
        self._seconds = seconds

    def reader(self, name: TableName) -> tuple[HiveTable, TableName] | None:
        """The Hive table with this name and an Iceberg table that reads its files, if the drop of the Hive table would
        delete them. None: no Iceberg table reads them, or there is no such Hive table.

        Raises HiveTableKept if neither is proved."""
        table = self._tables.load(name)
        if table is None:
            return None
        deadline = self._ports.runtime.now() + self._seconds

        def left() -> float:
            remaining = deadline - self._ports.runtime.now()
            if remaining <= 0:
                raise HiveTableKept(name, table.folder, f"the search took longer than {self._seconds:g} s")
            return remaining

        try:
            found = self._search(table, left)
        except MetastoreUnavailable:
            left()
            raise
        return None if found is None else (table, found)

    def drop(self, table: HiveTable, *, wait_seconds: float) -> None:
        """Remove the row of a Hive table, under its lock; its files stay. Raises NoSuchTable, LockNotAcquired,
        CommitStateUnknown; CommitConflict if another table has the name by now."""
        name = table.name
        operation = Operation(self._ports, self._services.settings, name, f"drop of {name}")
        with operation.locked([name], wait_seconds, LockUse.BLIND):
            found = self._tables.load(name)
            if found is None:
                raise NoSuchTable(name)
            if found != table:
                raise CommitConflict(f"{name} is another table than before", next_step="look at it before you drop it")
            operation.make(partial(self._tables.drop, table), partial(self._look_for_drop, table))

    def _look_for_drop(self, table: HiveTable) -> CommitStatus:
        found = self._tables.load(table.name)
        if found is None:
            return CommitStatus.SUCCESS
        return CommitStatus.FAILURE if found == table else CommitStatus.UNKNOWN

    def _search(self, table: HiveTable, left: Callable[[], float]) -> TableName | None:
        folders = _Folders([table.folder], self._ports.files.real_path)
        partitions_read = not table.is_partitioned
        own = table.name.namespace
        for database in (own, *(each for each in self._ports.pointer.databases() if each != own)):
            for pointer in self._tables.iceberg_tables(database, timeout_seconds=left()):
                if folders.hold(pointer.location or "") or folders.hold(pointer.metadata_location):
                    return pointer.name
                if not _may_read_files_of_others(pointer.parameters):
                    continue
                if not partitions_read:
                    folders.add(self._ports.pointer.partition_folders(table.name, timeout_seconds=left()))
                    partitions_read = True
                if self._reads(table, pointer, folders, left):
                    return pointer.name
        return None

    def _reads(self, table: HiveTable, pointer: Pointer, folders: _Folders, left: Callable[[], float]) -> bool:
        """Whether a snapshot of an Iceberg table has a data file in these folders."""
        with _kept_if_unreadable(table, pointer.name):
            # Not by the row: it was read with many others, and its metadata file may be deleted by now.
            found = _unless_damaged(lambda: self._services.coordinator.load(pointer.name))
            if found is None or NAME_MAPPING not in found.metadata.properties:
                return False
            guard = None if self._locations is None else self._locations.table_guard(found.pointer, found.metadata)
            reader = manifests_for(self._ports, guard)
            manifests = _data_manifests(reader, found.metadata, left)
            return any(left() and _names_file(reader, some, folders) for some in in_batches(manifests, _AT_ONCE))


def _data_manifests(reader: Manifests, metadata: TableMetadata, left: Callable[[], float]) -> Iterator[ManifestFile]:
    """Those of all snapshots, each once, the latest snapshot's first. left: raises when time runs out."""
    seen: set[str] = set()
    for snapshot in reversed(metadata.snapshots):
        left()
        for each in _unless_damaged(partial(reader.list, snapshot)) or ():
            if each.content == ManifestContent.DATA and each.manifest_path not in seen:
                seen.add(each.manifest_path)
                yield each


def _names_file(reader: Manifests, manifests: Sequence[ManifestFile], folders: _Folders) -> bool:
    """Whether one of the manifests has a live file in these folders."""

    def search() -> bool:
        entries = reader.entries(reader.naming(manifests, folders.names))
        return any(each.is_live and folders.hold(each.data_file.file_path) for each in entries)

    found = _unless_damaged(search)
    if found is None and len(manifests) > 1:
        return any(_names_file(reader, [each], folders) for each in manifests)
    return bool(found)


def _unless_damaged(read: Callable[[], Result]) -> Result | None:
    """What `read` returns; None for a table or file that is gone or damaged, through which nobody reads a row."""
    try:
        return read()
    except FileBeyondLimit:
        # Others may read it.
        raise
    except (NoSuchTable, MissingFile, CorruptFile) as error:
        logger.warning("no row is read through what is gone or damaged: %s", error)
        return None


@contextmanager
def _kept_if_unreadable(table: HiveTable, other: TableName) -> Iterator[None]:
    """Raises HiveTableKept for an Iceberg table that cannot be searched; what may pass by itself as it is."""
    try:
        yield
    except (HiveTableKept, MetastoreError):
        raise
    except IcebergHmsError as error:
        # The client that drops the table may not know the other one.
        logger.warning("%s is not dropped, since %s cannot be read: %s", table.name, other, error)
        raise HiveTableKept(table.name, table.folder, "one cannot be read, which the server's log names") from error


class _Folders:
    """Folders of a Hive table. A path in one of them counts, whatever store its location names: one store may have many
    names.

    names: each location in a folder has one of these texts in it."""

    def __init__(self, folders: Iterable[str], real_path: Callable[[str], str]) -> None:
        self._real_path = real_path
        self._beginnings: tuple[str, ...] = ()
        self.names: tuple[str, ...] = ()
        self.add(folders)

    def add(self, folders: Iterable[str]) -> None:
        """Further folders; those in one that is there already change nothing."""
        paths = set(self._beginnings)
        for folder in folders:
            if not self.hold(folder):
                places = (parse(folder), resolved(folder, self._real_path))
                paths.update(f"{each.path.rstrip('/')}/" for each in places if each is not None)
        self._beginnings = tuple(paths)
        self.names = tuple({f"/{path.split('/')[-2]}/" for path in paths})

    def hold(self, location: str) -> bool:
        """Whether a location is one of the folders or lies in one."""
        text = f"{location}/"
        # Most locations have the name of none, and a table may have millions.
        if not any(name in text for name in self.names):
            return False
        try:
            return f"{parse.__wrapped__(location).path}/".startswith(self._beginnings)
        except InvalidInput:
            return True


def _may_read_files_of_others(parameters: Mapping[str, str]) -> bool:
    """Whether a table may have taken over files that Hive wrote, by its row. Those have no field ids, so such a table
    has a name mapping. A row tells all properties only if it tells the schema, and none that is very long."""
    schema = parameters.get("current-schema", "")
    return NAME_MAPPING in parameters or not 0 < len(schema) < _SCHEMA_MAX
