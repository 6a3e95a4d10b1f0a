"""Which files the server may delete on behalf of a table: those in a folder that the table owns.

A table's metadata and properties name what clients put into them, and a client may name any file. So the server deletes
only files below the folder that the metastore's row gives the table, and only if the table owns that folder:

    by its record   the row's parameter `iceberg-hms.owned-folder` names it: this server chose the folder when it made
                    the table, and found it empty
    by its place    the folder lies directly below that of the table's own database, and no other table or view, Hive's
                    included, has a folder that is, contains or lies in it. So it is with most tables of other engines

Whichever it is: what is deleted with a snapshot or with the table is kept while a row of the metastore is seen in time,
of any table or of a partition, that has its folder there.

A table that was a Hive table, and can become one again, owns nothing: its files are the Hive table's.

Every deletion of a file that this process did not write itself asks `OwnFiles`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from iceberg_hms.coordinator.files.cleanup import PUBLISHED_MAX, delete_files, expired_metadata_files
from iceberg_hms.coordinator.locations.folder_overlaps import HiveRows, above, overlapping, resolved
from iceberg_hms.coordinator.ports import CommitPorts, Pointer, TableName
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.errors import IcebergHmsError, MetastoreError
from iceberg_hms.format.locations import Location, contains, may_contain

logger = logging.getLogger(__name__)

#: How long to search all databases for tables in a folder. Beyond that the table's files are kept.
SEARCH_ALL_SECONDS: Final = 60.0
#: The same after a commit: the table's next commit waits for it.
SEARCH_AFTER_COMMIT_SECONDS: Final = 5.0
#: How long the owner of a folder is known, and how long to ask nothing after a search that failed.
REMEMBERED_SECONDS: Final = 600.0
#: How many folders of one table are remembered: a store may give each file one of its own.
FOLDERS_MAX: Final = 10_000


class OwnFiles:
    """The files that may be deleted on behalf of one table, as a container: `location in own_files`.

    folder: the table's location by its row; None if the row names none. real_path: `Files.real_path`. It is called once
    for each folder, not for each file. reason: why the table does not own its folder; then no file is its own.
    """

    def __init__(self, folder: str | None, real_path: Callable[[str], str], reason: str = "") -> None:
        self._real_path = real_path
        self._by_folder: dict[str, bool] = {}
        self._own = resolved(folder, real_path)
        #: Why no file is the table's own; empty if some are.
        self.reason = reason if self._own and self._own.path.rstrip("/") else "the metastore names no folder for it"

    def __contains__(self, location: str) -> bool:
        folder, _, name = location.rpartition("/")
        if name in ("", ".", "..") or "\0" in name:
            return False
        own = self._by_folder.get(folder)
        if own is None:
            if len(self._by_folder) >= FOLDERS_MAX:
                self._by_folder.clear()
            own = self._by_folder[folder] = self._is_own(folder)
        return own

    def _is_own(self, folder: str) -> bool:
        found = resolved(folder, self._real_path)
        return not self.reason and self._own is not None and found is not None and contains(self._own, found)


def files_in_folder(ports: CommitPorts, row: Pointer) -> OwnFiles:
    """What lies in the folder that a table's row names, if others share it or not; nothing if the table can become a
    Hive table again."""
    reason = ""
    if row.hive_table is not None:
        reason = "it can become a Hive table again, until `iceberg-hms migrate --keep` gives that up"
    return OwnFiles(row.location, ports.files.real_path, reason)


def find_own_files(
    ports: CommitPorts,
    row: Pointer,
    *,
    dropped: bool = False,
    far: bool = True,
    seconds: float = SEARCH_ALL_SECONDS,
) -> OwnFiles:
    """What may be deleted on behalf of the table with this row. dropped: another table may have its name by now.
    seconds: how long a search for other tables in its folder may take. far: time that is left is spent on rows of
    databases elsewhere, and on partitions. Raises MetastoreError; then keep the files."""
    if row.hive_table is not None:
        return files_in_folder(ports, row)
    reason = ""
    if dropped:
        row = replace(row, name=TableName(row.name.namespace, ""))
    if row.owns_folder:
        location, deadline = str(row.location), ports.runtime.now() + seconds
        reason = _namespace_in(ports, row.name.namespace, location, seconds)
        if not reason:
            # A table around says nothing about the files of this one.
            remaining = max(0.0, deadline - ports.runtime.now())
            reason = _shared_with(ports, row, location, HiveRows.UNREAD, remaining, far=far, root=above(location))
    elif row.location:
        reason = _why_not_by_place(ports, row, row.location, seconds, far=far)
    return OwnFiles(row.location, ports.files.real_path, reason)


def _namespace_in(ports: CommitPorts, namespace: str, location: str, seconds: float) -> str:
    """Which namespace but its own has its folder at or in a table's, in words; empty if none has. Hive puts its tables
    there, which only a search of all rows would find."""
    real_path = ports.files.real_path
    ours = resolved(location, real_path)
    for name, folders in ports.pointer.database_folders(timeout_seconds=seconds).items():
        for folder in folders if name != namespace else ():
            theirs = resolved(folder, real_path)
            if ours is not None and theirs is not None and may_contain(ours, theirs):
                return f"the namespace {name} has the folder {folder}"
    return ""


def _why_not_by_place(ports: CommitPorts, row: Pointer, location: str, seconds: float, *, far: bool) -> str:
    """Why a table does not own its folder by its place; empty if it does."""
    real_path, deadline = ports.files.real_path, ports.runtime.now() + seconds
    folder = resolved(location, real_path)
    databases = ports.pointer.database_folders(timeout_seconds=seconds).get(row.name.namespace, ())
    if not any(_is_directly_below(folder, resolved(each, real_path)) for each in databases):
        return f"its folder {location} does not lie directly below that of its database"
    return _shared_with(ports, row, location, HiveRows.NEAR, deadline - ports.runtime.now(), far=far)


def _shared_with(
    ports: CommitPorts,
    row: Pointer,
    location: str,
    needed: HiveRows,
    seconds: float,
    *,
    far: bool,
    root: str | None = None,
) -> str:
    """Which other table or view shares a table's folder, in words; empty if none does."""
    hive = HiveRows.ALL if far else needed
    for other in overlapping(ports, row.name, location, hive=hive, needed=needed, root=root, seconds=seconds):
        return f"{other.name} has the folder {other.location}"
    return ""


def _is_directly_below(folder: Location | None, database: Location | None) -> bool:
    if folder is None or database is None or not may_contain(database, folder):
        return False
    inner = folder.path.rstrip("/").removeprefix(database.path.rstrip("/")).lstrip("/")
    return bool(inner) and "/" not in inner


class RecentOwnFiles:
    """What was found for one table, remembered for a while: not every commit may ask the metastore. Not safe for
    threads: a table has one worker at a time."""

    def __init__(self, ports: CommitPorts) -> None:
        self._ports = ports
        self._folder: str | None = None
        self._found: OwnFiles | MetastoreError | None = None
        self._searched_at = -math.inf

    def of(self, row: Pointer) -> OwnFiles:
        """What may be deleted of the files that clients name. row: as it was before the commit that moved the table, if
        one did. Raises MetastoreError; then keep the files."""
        if row.hive_table is not None:
            return files_in_folder(self._ports, row)
        now = self._ports.runtime.now()
        if self._found is None or self._folder != row.location or now - self._searched_at > REMEMBERED_SECONDS:
            self._folder, self._searched_at = row.location, now
            try:
                self._found = find_own_files(self._ports, row, far=False, seconds=SEARCH_AFTER_COMMIT_SECONDS)
            except MetastoreError as error:
                self._found = error
        if isinstance(self._found, MetastoreError):
            # Each raise adds to an error's traceback.
            raise self._found.with_traceback(None)
        return self._found

    def delete_expired(self, landed: Sequence[CommitAttempt]) -> None:
        """Delete the metadata files that fell out of the table's log by these commits, if the table asks for it. Raises
        as `of`; then they are left to an orphan sweep."""
        expired = [each for one in landed for each in expired_metadata_files(one.base.metadata, one.metadata)]
        if not expired:
            return
        last = landed[-1]
        named = {last.location, *(entry["metadata-file"] for entry in last.metadata.metadata_log)}
        row = landed[0].base.pointer
        # Since its folder was recorded, no client can have put another table's file into its log.
        own = files_in_folder(self._ports, row) if row.owns_folder else self.of(row)
        old = (each for each in expired if each not in named)
        delete_own_files(self._ports, row, own, old, "old metadata")


class OwnDeletion:
    """Deletes files on behalf of a table, and publishes which. why: as the events have it.

    deleted: how many were there. failed: how many could not be deleted. left: the first of those (`PUBLISHED_MAX`), and
    why each may still be there. kept: how many are not the table's own."""

    def __init__(self, ports: CommitPorts, row: Pointer, why: str) -> None:
        self._ports = ports
        self._row = row
        self._why = why
        self.deleted = 0
        self.failed = 0
        self.left: dict[str, IcebergHmsError] = {}
        self.kept = 0
        self._example = ""
        self._reason = ""

    def delete(self, own: OwnFiles, locations: Iterable[str]) -> None:
        """Delete those of the locations that are the table's own, `PUBLISHED_MAX` at a time."""
        waiting = self._owned(own, locations)
        while some := tuple(islice(waiting, PUBLISHED_MAX)):
            found = delete_files(self._ports, self._row.name, some, self._why)
            self.deleted += len(found.locations)
            self.failed += len(found.failed)
            room = PUBLISHED_MAX - len(self.left)
            self.left.update(islice(found.failed.items(), max(0, room)))

    def log_kept(self) -> str:
        """Log how many files were kept, and return why; empty if none was."""
        if self.kept:
            logger.warning(
                "%d files of %s are kept, such as %s: %s", self.kept, self._row.name, self._example, self._reason
            )
        return self._reason

    def _owned(self, own: OwnFiles, locations: Iterable[str]) -> Iterator[str]:
        for location in locations:
            if location in own:
                yield location
                continue
            if not self.kept:
                self._example = location
                self._reason = own.reason or f"they do not lie in its own folder {self._row.location}"
            self.kept += 1


def delete_own_files(ports: CommitPorts, row: Pointer, own: OwnFiles, locations: Iterable[str], why: str) -> None:
    """Delete those of the locations that are the table's own, publish which, and log how many are kept."""
    deletion = OwnDeletion(ports, row, why)
    deletion.delete(own, locations)
    deletion.log_kept()
