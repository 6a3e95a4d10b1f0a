"""Changes that move a table, or what it writes, to another folder, which no other table may have. A table owns the
folder that it moves to if that was empty.

Only a search of the metastore says who has a folder, and it takes seconds in a database of many tables. So a group
searches before it takes the lock, which others wait for; under the lock it only compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iceberg_hms.coordinator.locations.folder_overlaps import (
    SEARCH_SECONDS,
    HiveRows,
    is_known_to_be_free,
    refuse_shared_folder,
    refuse_shared_paths,
)
from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import CommitConflict, IcebergHmsError
from iceberg_hms.format.metadata.named_locations import new_paths
from iceberg_hms.format.metadata.table_metadata import TableMetadata, strip_trailing_slash


class Moves:
    """The folders to which the changes of one group move their table. Not safe for threads: `look_up` comes first."""

    def __init__(self, ports: CommitPorts, name: TableName) -> None:
        self._ports = ports
        self._name = name
        #: Folder -> why the table may not have it; if it may, whether it owns it then.
        self._found: dict[str, IcebergHmsError | bool] = {}
        #: The same of the folders that properties name.
        self._paths: dict[str, IcebergHmsError | None] = {}

    def look_up(self, commits: Iterable[PendingCommit], current: str | None) -> None:
        """Search for tables that have a folder which a commit names; at most `SEARCH_SECONDS` for all.

        current: the table's location; None if it is not known yet. Raises nothing: `check` does."""
        identities = [commit.identity for commit in commits]
        folders = dict.fromkeys(strip_trailing_slash(each.location) for each in identities if each.location)
        deadline = self._ports.runtime.now() + SEARCH_SECONDS
        for folder in () if folders.keys() <= {current} else folders:
            self._found[folder] = self._judge(folder, deadline)
        for path in dict.fromkeys(path for each in identities for path in each.paths):
            self._paths[path] = self._judge_path(path, current, deadline)

    def check(self, before: TableMetadata, after: TableMetadata) -> None:
        """Raises what the search for a folder that a change names found or raised (`refuse_shared_folder`,
        `refuse_shared_paths`); CommitConflict if nobody searched, since the table has moved since then."""
        if after.properties is not before.properties:
            for _, path in new_paths(before.properties, after.properties):
                self._raise_found(self._paths, path)
        if after.location != before.location:
            self._raise_found(self._found, after.location)

    def may_own(self, location: str) -> bool:
        """Whether a table that is at this location now owns its folder because a commit of this group moved it there:
        the folder was empty, and no other table or view, Hive's too, was found in it or around it."""
        return self._found.get(location) is True

    def _judge(self, folder: str, deadline: float) -> IcebergHmsError | bool:
        ports, name = self._ports, self._name

        def remaining() -> float:
            return max(0.0, deadline - ports.runtime.now())

        try:
            refuse_shared_folder(ports, name, folder, seconds=remaining())
            is_free = is_known_to_be_free(ports, name, folder, hive=HiveRows.NEAR, root=None, seconds=remaining())
            return is_free and next(iter(ports.files.list_files(folder)), None) is None
        except IcebergHmsError as error:
            return error

    def _judge_path(self, path: str, current: str | None, deadline: float) -> IcebergHmsError | None:
        remaining = max(0.0, deadline - self._ports.runtime.now())
        try:
            refuse_shared_paths(self._ports, self._name, current, [path], seconds=remaining)
        except IcebergHmsError as error:
            return error
        return None

    def _raise_found(self, searches: Mapping[str, IcebergHmsError | bool | None], folder: str) -> None:
        if folder not in searches:
            raise CommitConflict(f"Another writer changed meanwhile where {self._name} lies or writes")
        found = searches[folder]
        if isinstance(found, IcebergHmsError):
            # A group may stage a change again, and each raise adds to an error's traceback.
            raise found.with_traceback(None)
