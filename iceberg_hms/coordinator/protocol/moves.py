"""Changes that move a table to another folder, which no other table may have. A table owns it if it was empty.

Only a search of the metastore says who has a folder, and it takes seconds in a database of many tables. So a group
searches before it takes the lock, which others wait for; under the lock it only compares.
"""

from __future__ import annotations

from collections.abc import Iterable

from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.coordinator.protocol.folder_overlaps import (
    SEARCH_SECONDS,
    HiveRows,
    is_known_to_be_free,
    refuse_shared_folder,
)
from iceberg_hms.coordinator.protocol.pending_commit import PendingCommit
from iceberg_hms.errors import CommitConflict, IcebergHmsError
from iceberg_hms.format.metadata.table_metadata import strip_trailing_slash


class Moves:
    """The folders to which the changes of one group move their table. Not safe for threads: `look_up` comes first."""

    def __init__(self, ports: CommitPorts, name: TableName) -> None:
        self._ports = ports
        self._name = name
        #: Folder -> why the table may not have it; if it may, whether it owns it then.
        self._found: dict[str, IcebergHmsError | bool] = {}

    def look_up(self, commits: Iterable[PendingCommit], current: str | None) -> None:
        """Search for tables that have a folder to which a commit moves the table; at most `SEARCH_SECONDS` for all.

        current: the table's location; None if it is not known yet. Raises nothing: `check` does."""
        named = (commit.change.identity.location for commit in commits)
        folders = dict.fromkeys(strip_trailing_slash(each) for each in named if each)
        if folders.keys() <= {current}:
            return
        deadline = self._ports.runtime.now() + SEARCH_SECONDS
        for folder in folders:
            self._found[folder] = self._judge(folder, deadline)

    def check(self, location: str) -> None:
        """Raises what the search for a folder found or raised (`refuse_shared_folder`); CommitConflict if nobody
        searched, since the table has moved since then."""
        try:
            found = self._found[location]
        except KeyError:
            raise CommitConflict(f"The location of {self._name} was changed by another writer meanwhile") from None
        if isinstance(found, IcebergHmsError):
            # A group may stage a change again, and each raise adds to an error's traceback.
            raise found.with_traceback(None)

    def may_own(self, location: str) -> bool:
        """Whether a table that is at this location now owns its folder because a commit of this group moved it there:
        the folder was empty, and no other table or view, Hive's too, was found in it or around it."""
        return self._found.get(location) is True

    def _judge(self, folder: str, deadline: float) -> IcebergHmsError | bool:
        ports, name = self._ports, self._name

        def left() -> float:
            return max(0.0, deadline - ports.runtime.now())

        try:
            refuse_shared_folder(ports, name, folder, seconds=left())
            is_free = is_known_to_be_free(ports, name, folder, hive=HiveRows.NEAR, root=None, seconds=left())
            return is_free and next(iter(ports.files.list_files(folder)), None) is None
        except IcebergHmsError as error:
            return error
