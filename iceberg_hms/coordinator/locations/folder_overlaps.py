"""Which other tables and views have a folder that is, contains or lies in a given one.

The metastore answers no question about folders. So Iceberg tables and views are found by the parameter with their
metadata file, which it filters by; and whatever else has a folder, Hive's tables above all, by reading the rows of
databases. That takes 2 to 4 ms a row, so most callers read only the databases whose own folder overlaps, where Hive
puts a table that names none. Before files that a client's metadata names are deleted, the other databases are read too,
and the partitions of all tables: as far as time allows, or however long it takes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Final

from iceberg_hms.coordinator.ports import CommitPorts, Pointer, TableFolder, TableName
from iceberg_hms.errors import IcebergHmsError, InvalidInput, MetastoreError, MetastoreUnavailable
from iceberg_hms.format.locations import Location, may_contain, parse
from iceberg_hms.format.metadata.named_locations import LOCATION_PROPERTIES

logger = logging.getLogger(__name__)

#: How long to search for tables in one folder.
SEARCH_SECONDS: Final = 10.0


class HiveRows(Enum):
    """Of which databases all rows are read."""

    #: Of none: only Iceberg tables and views are found.
    UNREAD = auto()
    #: Of those whose folder is, contains or lies in the given one.
    NEAR = auto()
    #: Of all, and then the partitions of all tables.
    ALL = auto()


def overlapping(
    ports: CommitPorts,
    name: TableName,
    folder: str,
    *,
    hive: HiveRows,
    needed: HiveRows | None = None,
    beside: Sequence[str] = (),
    root: str | None = None,
    elsewhere: bool = False,
    for_view: bool = False,
    seconds: float = SEARCH_SECONDS,
) -> Iterator[TableFolder]:
    """The tables and views of all databases that share a folder: their own one is this one, lies in it or contains it,
    or their metadata lies in it, or they write files into it; or a partition's folder is, lies in or contains it. Those
    of the table's own database come first. One may come more than once.

    name: of the table, or with `for_view` of the view, that has or wants the folder, which does not count. needed: what
    must be read; beyond that the search ends when time runs out, or when the metastore refuses. None: all that `hive`
    says. beside: further folders of the table, with which the rows are compared. root: the folder of its database. A
    table around that would share every folder in it, and does not count. elsewhere: its own database is not searched.
    seconds: how long that may take. Raises InvalidInput for a folder that is no location, MetastoreUnavailable when
    time runs out, MetastoreError."""
    real_path = ports.files.real_path
    folders = [resolved(each, real_path) for each in (folder, *beside)]
    wanted = [each for each in folders if each is not None]
    if len(wanted) < len(folders):
        raise InvalidInput(f"The folder {folder} cannot be resolved to a place in a store")
    deadline = ports.runtime.now() + seconds

    def remaining() -> float:
        remaining = deadline - ports.runtime.now()
        if remaining <= 0:
            raise MetastoreUnavailable(
                f"There was no time to search all databases for tables in {folder}", next_step="try again"
            )
        return remaining

    around = resolved(root, real_path)
    own = () if elsewhere else (name.namespace,)
    others = (each for each in ports.pointer.databases() if each != name.namespace)
    databases = [*own, *others]
    for database in databases:
        for row in ports.pointer.find_by_folder(database, folder, timeout_seconds=remaining()):
            is_same = row.name == name and row.is_view == for_view
            shared = None if is_same else _shared(row, wanted[0], around, real_path)
            if shared is not None:
                yield TableFolder(row.name, shared)
    rows = _Rows(ports, databases, wanted, remaining)
    stages = [(HiveRows.NEAR, rows.near()), (HiveRows.ALL, rows.far()), (HiveRows.ALL, rows.partitions())]
    for stage, found in stages:
        if stage.value > hive.value:
            return
        try:
            for other in found:
                theirs = resolved(other.location, real_path)
                if other.name != name and any(_overlaps(theirs, each, around) for each in wanted):
                    yield other
        except MetastoreError as error:
            if needed is None or stage.value <= needed.value:
                raise
            logger.info("Not all rows were read for the folder %s: %s", folder, error.message)
            return


class _Rows:
    """The rows of databases, Hive's too, and the partitions of the tables among those that were read."""

    def __init__(
        self,
        ports: CommitPorts,
        databases: Sequence[str],
        wanted: Sequence[Location],
        remaining: Callable[[], float],
    ) -> None:
        self._ports = ports
        self._databases = databases
        self._wanted = wanted
        self._remaining = remaining
        self._near: Sequence[str] = ()
        self._partitioned: list[TableName] = []

    def near(self) -> Iterator[TableFolder]:
        """The rows of the databases whose own folder is, contains or lies in a wanted one. Raises MetastoreUnavailable
        when time runs out."""
        real_path = self._ports.files.real_path
        folders = self._ports.pointer.database_folders(timeout_seconds=self._remaining())
        self._near = [
            database
            for database in self._databases
            if any(
                _overlaps(resolved(each, real_path), one, None)
                for each in folders.get(database, ())
                for one in self._wanted
            )
        ]
        yield from self._of(self._near)

    def far(self) -> Iterator[TableFolder]:
        """Those of the others, after `near`. Raises as that."""
        yield from self._of([each for each in self._databases if each not in self._near])

    def _of(self, databases: Sequence[str]) -> Iterator[TableFolder]:
        for database in databases:
            for row in self._ports.pointer.folders_in(database, timeout_seconds=self._remaining()):
                if row.is_partitioned:
                    self._partitioned.append(row.name)
                yield row

    def partitions(self) -> Iterator[TableFolder]:
        """Those of the tables that were read. Raises as `near`."""
        for name in self._partitioned:
            for folder in self._ports.pointer.partition_folders(name, timeout_seconds=self._remaining()):
                yield TableFolder(name, folder)


def _shared(row: Pointer, wanted: Location, around: Location | None, real_path: Callable[[str], str]) -> str | None:
    """The folder that an Iceberg table or view shares with the wanted one, None if it shares nothing.

    Many tables may share the folder of their metadata or data files, so that counts only where it lies in the wanted
    one."""
    if _overlaps(resolved(row.location, real_path), wanted, around):
        return row.location
    properties = (row.parameters.get(each) for each in LOCATION_PROPERTIES)
    for each in (row.metadata_location.rpartition("/")[0], *properties):
        found = resolved(each, real_path)
        if found is not None and may_contain(wanted, found):
            return each
    return None


def _overlaps(theirs: Location | None, wanted: Location, around: Location | None) -> bool:
    """Whether a folder is, contains or lies in the wanted one, and does not contain `around` as well."""
    if theirs is None or (around is not None and may_contain(theirs, around)):
        return False
    return may_contain(theirs, wanted) or may_contain(wanted, theirs)


def tables_sharing(
    ports: CommitPorts,
    name: TableName,
    folder: str,
    *,
    root: str | None = None,
    seconds: float = SEARCH_SECONDS,
    with_views: bool = False,
) -> list[Pointer]:
    """The other Iceberg tables of the database, and views if asked for, whose folder is this one, lies in it, or
    contains it.

    root: the folder of the database. A table around that would share every folder in it, and does not count.
    seconds: how long the search may take. Raises InvalidInput for a folder that is no location, MetastoreError."""
    found = ports.pointer.find_by_folder(name.namespace, folder, timeout_seconds=seconds)
    others = (each for each in found if each.name != name and (with_views or not each.is_view))
    return [each for each in others if _shares_folder(ports, each, folder, root)]


def _shares_folder(ports: CommitPorts, other: Pointer, folder: str, root: str | None) -> bool:
    real_path = ports.files.real_path
    theirs, ours, database = (resolved(each, real_path) for each in (other.location, folder, root))
    return ours is not None and _overlaps(theirs, ours, database)


def refuse_shared_folder(
    ports: CommitPorts,
    name: TableName,
    folder: str,
    *,
    root: str | None = None,
    is_new: bool = False,
    seconds: float = SEARCH_SECONDS,
) -> None:
    """Raises InvalidInput if another Iceberg table of the database shares a folder, or if one of another database, or a
    view there, is found in time that does; and as `tables_sharing`.

    is_new: the server chose the folder below that of the database, and no file was in it: no table that was renamed
    into another database is there, and the others are not searched."""
    deadline = ports.runtime.now() + seconds
    for other in tables_sharing(ports, name, folder, root=root, seconds=seconds):
        raise shared_folder(folder, other.name)
    if not is_new:
        refuse_shared_elsewhere(ports, name, folder, root=root, seconds=deadline - ports.runtime.now())


def refuse_shared_elsewhere(
    ports: CommitPorts, name: TableName, folder: str, *, root: str | None, seconds: float = SEARCH_SECONDS
) -> None:
    """Raises InvalidInput if an Iceberg table or view of another database is found in time that shares a folder. One
    that was renamed into another database has its folder below that of the one that it left."""
    is_known_to_be_free(ports, name, folder, hive=HiveRows.UNREAD, root=root, elsewhere=True, seconds=seconds)


def is_known_to_be_free(
    ports: CommitPorts,
    name: TableName,
    folder: str,
    *,
    hive: HiveRows,
    root: str | None,
    elsewhere: bool = False,
    for_view: bool = False,
    seconds: float = SEARCH_SECONDS,
) -> bool:
    """Whether no other table or view shares a folder (`overlapping`); False if there was no time to see. Raises
    InvalidInput if one does."""
    others = overlapping(
        ports, name, folder, hive=hive, root=root, elsewhere=elsewhere, for_view=for_view, seconds=seconds
    )
    try:
        for other in others:
            raise shared_folder(folder, other.name)
    except MetastoreUnavailable as error:
        logger.info("%s gets the folder %s, and others may have it too: %s", name, folder, error.message)
        return False
    return True


def refuse_shared_paths(
    ports: CommitPorts, name: TableName, folder: str | None, paths: Sequence[str], *, seconds: float = SEARCH_SECONDS
) -> None:
    """Raises InvalidInput if a path lies in the folder of another Iceberg table or view, which nobody could purge then.

    name: of the table or view that is to write there. folder: its own, if it is known: what lies in it is not searched,
    and a table around it does not count. paths: folders, as properties name them. Raises MetastoreError;
    MetastoreUnavailable if there was no time."""
    real_path, deadline = ports.files.real_path, ports.runtime.now() + seconds
    own = resolved(folder, real_path)
    for path in paths:
        wanted = resolved(path, real_path)
        if wanted is None or (own is not None and may_contain(own, wanted)):
            continue
        for database in ports.pointer.databases():
            remaining = max(0.0, deadline - ports.runtime.now())
            for row in ports.pointer.find_by_folder(database, path, timeout_seconds=remaining):
                theirs = resolved(row.location, real_path)
                if row.name == name or theirs is None or (own is not None and may_contain(theirs, own)):
                    continue
                if may_contain(theirs, wanted):
                    raise shared_folder(path, row.name)


def above(folder: str) -> str:
    """The folder around this one. As the `root` of a search, tables that lie around the folder do not count."""
    return folder.rstrip("/").rpartition("/")[0]


def shared_folder(folder: str, other: TableName) -> InvalidInput:
    """The refusal of a folder that another table has."""
    # Not AlreadyExists: clients take that for the table itself, and IF NOT EXISTS would succeed without one.
    return InvalidInput(
        f"The folder {folder} is, holds or lies in that of the table {other}: neither could be purged alone",
        next_step="name another location, or none",
    )


def resolved(folder: str | None, real_path: Callable[[str], str]) -> Location | None:
    """A folder's real path; None if nothing resolves it."""
    try:
        found = parse(real_path(folder)) if folder else None
    except IcebergHmsError:
        return None
    # In a store without folders these are names like others, to Hadoop they are not.
    return None if found is None or {".", ".."} & set(found.path.split("/")) else found
