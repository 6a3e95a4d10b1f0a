"""Which files the server may delete on behalf of a table.

A table's metadata and properties name what clients put into them, and a client may name any file. So the server deletes
a file only if it lies in the folder that the metastore's row gives the table, and in no folder of another Iceberg table
of any database, nor in one that holds a view's metadata file: who may write to one database must not have the files of
another deleted. Every deletion of a file that this process did not write itself asks `OwnFiles`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from iceberg_hms.coordinator.ports import CommitPorts, Pointer, TableName
from iceberg_hms.coordinator.protocol.attempt import CommitAttempt
from iceberg_hms.coordinator.protocol.cleanup import delete_files, expired_metadata_files
from iceberg_hms.coordinator.protocol.metadata_cache import TableVersion
from iceberg_hms.errors import IcebergHmsError, InvalidInput, MetastoreError, MetastoreUnavailable
from iceberg_hms.format.locations import Location, contains, parse
from iceberg_hms.format.metadata.named_locations import LOCATION_PROPERTIES
from iceberg_hms.format.metadata.table_metadata import TableMetadata

logger = logging.getLogger(__name__)

#: How long to search a database for tables in a folder.
SEARCH_SECONDS: Final = 10.0
#: How long to search all databases. Beyond that the table's files are kept.
SEARCH_ALL_SECONDS: Final = 60.0
#: The same after a commit: the table's next commit waits for it.
SEARCH_AFTER_COMMIT_SECONDS: Final = 5.0
#: How long a search serves for further commits of its table, and how long to ask nothing after one that failed.
REMEMBERED_SECONDS: Final = 60.0
#: How many metadata files wait for the next search; more are left to an orphan sweep.
POSTPONED_MAX: Final = 10_000
#: Stores whose authority may be left out or be an alias.
_CLUSTERS: Final = frozenset({"hdfs", "viewfs"})


class OwnFiles:
    """The files that may be deleted on behalf of one table, as a container: `location in own_files`.

    folder: the table's location by its row; None if the row names none. Then no file is the table's own.
    others: the rows of other tables that may have files in it, or whose folder may contain it; and of views. All that a
    view has is its metadata files, so its location takes nothing from a table.
    real_path: `Files.real_path`. It is called once for each folder, not for each file.
    """

    def __init__(self, folder: str | None, others: Iterable[Pointer], real_path: Callable[[str], str]) -> None:
        self._real_path = real_path
        self._by_folder: dict[str, bool] = {}
        self._own = self._parsed(folder)
        #: Why no file is the table's own; empty if some may be.
        self.reason = "" if self._own and self._own.path.rstrip("/") else "the metastore names no folder for it"
        self._taken: list[Location] = []
        for other in others:
            self._take(other)

    def __contains__(self, location: str) -> bool:
        folder, _, name = location.rpartition("/")
        if name in ("", ".", "..") or "\0" in name:
            return False
        own = self._by_folder.get(folder)
        if own is None:
            own = self._by_folder[folder] = self._is_own(folder)
        return own

    def _is_own(self, folder: str) -> bool:
        found = self._parsed(folder)
        if self.reason or self._own is None or found is None or not contains(self._own, found):
            return False
        return not any(_may_contain(taken, found) for taken in self._taken)

    def _take(self, other: Pointer) -> None:
        """Keep what lies in a folder of another table."""
        if self._own is None:
            return
        theirs = None if other.is_view else self._parsed(other.location)
        if theirs is not None and _may_contain(theirs, self._own):
            self.reason = f"its folder lies in that of {other.name}"
        # They are parameters of the row too.
        properties = (other.parameters.get(each) for each in LOCATION_PROPERTIES)
        folders = () if other.is_view else (other.location, *properties)
        named = (other.metadata_location.rpartition("/")[0], *folders)
        # Other tables may share such a folder with many, so it counts only where it lies in this table's own.
        inside = (found for each in named if (found := self._parsed(each)) and _may_contain(self._own, found))
        self._taken.extend(inside)

    def _parsed(self, folder: str | None) -> Location | None:
        return _resolved(folder, self._real_path)


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
    return [each for each in others if shares_folder(ports, each, folder, root=root)]


def shares_folder(ports: CommitPorts, other: Pointer, folder: str, *, root: str | None = None) -> bool:
    """Whether the folder of a table is this one, lies in it, or contains it, and does not contain `root` as well."""
    real_path = ports.files.real_path
    theirs, ours, database = (_resolved(each, real_path) for each in (other.location, folder, root))
    if ours is None or theirs is None or (database is not None and _may_contain(theirs, database)):
        return False
    return _may_contain(theirs, ours) or _may_contain(ours, theirs)


def refuse_shared_folder(
    ports: CommitPorts, name: TableName, folder: str, *, root: str | None = None, seconds: float = SEARCH_SECONDS
) -> None:
    """Raises InvalidInput if another Iceberg table of the database shares a folder; and as `tables_sharing`."""
    for other in tables_sharing(ports, name, folder, root=root, seconds=seconds):
        raise shared_folder(folder, other.name)


def shared_folder(folder: str, other: TableName) -> InvalidInput:
    """The refusal of a folder that another table has."""
    # Not AlreadyExists: clients take that for the table itself, and IF NOT EXISTS would succeed without one.
    return InvalidInput(
        f"The folder {folder} is, holds or lies in that of the table {other}: neither could be purged alone",
        next_step="name another location, or none",
    )


def find_own_files(ports: CommitPorts, row: Pointer, *, seconds: float = SEARCH_ALL_SECONDS) -> OwnFiles:
    """What may be deleted on behalf of the table with this row, which may be dropped by now. Asks the metastore for
    other tables, of all databases. seconds: how long that may take. Raises MetastoreError; then keep the files."""
    return OwnFiles(row.location, find_neighbours(ports, row, seconds=seconds), ports.files.real_path)


def find_neighbours(ports: CommitPorts, row: Pointer, *, seconds: float = SEARCH_ALL_SECONDS) -> list[Pointer]:
    """The other Iceberg tables, and the views, of all databases whose metadata files may lie in a table's folder or
    around it. Its own database is searched first. Raises MetastoreError."""
    deadline = ports.runtime.now() + seconds
    databases = dict.fromkeys((row.name.namespace, *ports.pointer.databases()))
    return [each for database in databases for each in _neighbours(ports, row, database, deadline)]


def _neighbours(ports: CommitPorts, row: Pointer, database: str, deadline: float) -> list[Pointer]:
    """Those of one database."""
    if not row.location:
        return []
    left = deadline - ports.runtime.now()
    if left <= 0:
        raise MetastoreUnavailable(
            f"There was no time to search all databases for tables in {row.location}", next_step=""
        )
    found = ports.pointer.find_by_folder(database, row.location, timeout_seconds=min(left, SEARCH_SECONDS))
    # A view of its name took the place of a table that was dropped.
    return [each for each in found if each.name != row.name or each.is_view]


class RecentOwnFiles:
    """What was found for one table, remembered for a while: not every commit may ask the metastore. Not safe for
    threads: a table has one worker at a time.

    A file that was named before the search began cannot be one that another table got since. So a search serves for
    files that were named earlier. Other databases are searched once for each file that this process did not write; the
    table's own is searched again after a while, since a neighbour may have registered one of the table's files.
    """

    def __init__(self, ports: CommitPorts) -> None:
        self._ports = ports
        self._own: OwnFiles | None = None
        self._folder: str | None = None
        #: The tables found in other databases.
        self._elsewhere: list[Pointer] = []
        self._searched_at = self._searched_all_at = -math.inf
        self._failure: MetastoreError | None = None
        self._failed_at = -math.inf
        #: Metadata files that the table had named when all databases were searched, and those that it got by commits
        #: since, unless they were deleted.
        self._logged: set[str] = set()
        #: Metadata files that fell out of the log and were not deleted: they were named since then.
        self._expired: list[str] = []

    def of(self, row: Pointer, *, named_at: float) -> OwnFiles:
        """What may be deleted of files that were named at a time, by `Runtime.now()`. row: as it was before the commit
        that moved the table, if one did. Raises MetastoreError; then keep the files."""
        now = self._ports.runtime.now()
        if self._own is None or named_at >= self._searched_all_at or self._folder != row.location:
            self._own = self._searched(row, now, everywhere=True)
        elif now - self._searched_at > REMEMBERED_SECONDS:
            self._own = self._searched(row, now, everywhere=False)
        return self._own

    def _searched(self, row: Pointer, now: float, *, everywhere: bool) -> OwnFiles:
        if self._failure is not None and now - self._failed_at <= REMEMBERED_SECONDS:
            # Each raise adds to an error's traceback.
            raise self._failure.with_traceback(None)
        self._own, self._failure = None, None
        try:
            if everywhere:
                self._logged = set()
                found = find_neighbours(self._ports, row, seconds=SEARCH_AFTER_COMMIT_SECONDS)
                self._elsewhere = [each for each in found if each.name.namespace != row.name.namespace]
                self._searched_all_at = now
            else:
                deadline = now + SEARCH_AFTER_COMMIT_SECONDS
                found = [*_neighbours(self._ports, row, row.name.namespace, deadline), *self._elsewhere]
        except MetastoreError as error:
            self._failure, self._failed_at = error, now
            raise
        self._folder, self._searched_at = row.location, now
        return OwnFiles(row.location, found, self._ports.files.real_path)

    def delete_expired(self, landed: Sequence[CommitAttempt]) -> None:
        """Delete the metadata files that fell out of the table's log by these commits, if the table asks for it. Those
        that another writer wrote may wait for a later call. Raises as `of`; then they are left."""
        if not landed:
            return
        for one in landed:
            self._expired += expired_metadata_files(one.base.metadata, one.metadata)
        if self._expired:
            self._sweep(landed[0].base, landed[-1])
        if self._logged:
            self._logged.update(one.location for one in landed)

    def _sweep(self, base: TableVersion, last: CommitAttempt) -> None:
        """base: before the commits. last: the table as it is now."""
        row, now = base.pointer, self._ports.runtime.now()
        # A table may be registered over with any log.
        unknown = [each for each in self._expired if each not in self._logged]
        just_searched = self._folder == row.location and now - self._searched_all_at <= REMEMBERED_SECONDS
        if unknown and not just_searched:
            expired, self._expired, named_at = self._expired, [], now
        else:
            expired = [each for each in self._expired if each in self._logged]
            self._expired, named_at = unknown[:POSTPONED_MAX], -math.inf
        if not expired:
            return
        own = self.of(row, named_at=named_at)
        if not self._logged:
            self._logged = _named_metadata_files(row.metadata_location, base.metadata)
        named = _named_metadata_files(last.location, last.metadata)
        delete_own_files(self._ports, row, own, (each for each in expired if each not in named))
        self._logged.difference_update(expired)


def _named_metadata_files(location: str, metadata: TableMetadata) -> set[str]:
    """The metadata file of a table, and those of its log."""
    return {location, *(entry["metadata-file"] for entry in metadata.metadata_log)}


def delete_own_files(ports: CommitPorts, row: Pointer, own: OwnFiles, locations: Iterable[str]) -> None:
    """Delete those of the locations that are the table's own; log how many are kept."""
    kept: list[str] = []

    def owned() -> Iterable[str]:
        for location in locations:
            if location in own:
                yield location
            else:
                kept.append(location)

    delete_files(ports.files, owned())
    if kept:
        why = own.reason or f"they do not lie in its own folder {row.location}"
        logger.warning("%d files of %s are kept, such as %s: %s", len(kept), row.name, kept[0], why)


def _resolved(folder: str | None, real_path: Callable[[str], str]) -> Location | None:
    """A folder's real path; None if nothing resolves it."""
    try:
        found = parse(real_path(folder)) if folder else None
    except IcebergHmsError:
        return None
    # In a store without folders these are names like others, to Hadoop they are not.
    return None if found is None or {".", ".."} & set(found.path.split("/")) else found


def _may_contain(outer: Location, inner: Location) -> bool:
    """`contains`, if one of the two may be on the store that the other names in another way."""
    if {outer.scheme, inner.scheme} <= _CLUSTERS:
        inner = replace(inner, scheme=outer.scheme, authority=outer.authority)
    return contains(outer, inner)
