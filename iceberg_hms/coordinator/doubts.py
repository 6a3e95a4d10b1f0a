"""Whether a change that is about to be refused may be in the table all the same.

It may have been sent before: its answer was lost, and its client, or a proxy before us, sends it again under the same
snapshot ids. "Failed" would then be an order to delete files that the table names. So before
the coordinator refuses a change, whatever for, it looks for the change's snapshot ids; if they are not there, for what
came after them (`changes.lineage`), since they may have expired; and if the table as it is does not tell, in the
metadata files that it had before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import islice

from iceberg_hms.changes.change import Identity
from iceberg_hms.changes.lineage import Lineage, Presence
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError, MetastoreUnavailable, NoSuchTable
from iceberg_hms.format.metadata import TableMetadata

#: How many older metadata files are read for one change, at most.
OLDER_FILES_MAX = 100


class Doubts:
    """Looks at a table once, when it is first asked.

    load: the table's metadata as it is now; raises as `Coordinator.load`. read: a metadata file by its location; raises
    as `MetadataCache.get`.
    """

    def __init__(
        self, name: TableName, load: Callable[[], TableMetadata], read: Callable[[str], TableMetadata]
    ) -> None:
        self._name = name
        self._load = load
        self._read = read
        self._found: TableMetadata | Exception | None = None

    def about(self, identity: Identity, failure: Exception) -> CommitStateUnknown | None:
        """What the caller is to be told instead of `failure`, which says that no swap carried its change. None: the
        failure, since nothing of the change is in the table."""
        if not identity.snapshot_ids:
            return None
        found = self._look()
        if isinstance(found, TableMetadata):
            return look_back(self._name, identity, failure, found, self._read)
        if isinstance(failure, MetastoreUnavailable):
            # A metastore that is out of reach is waited for: clients are told to come again, and keep their files.
            return None
        if isinstance(found, NoSuchTable):
            return None if identity.seen is None else _perhaps_renamed(f"there is no table {self._name}")
        return CommitStateUnknown(f"{failure.__class__.__name__}, and {self._name} could not be looked at: {found}")

    def _look(self) -> TableMetadata | Exception:
        if self._found is None:
            try:
                self._found = self._load()
            except Exception as error:  # noqa: BLE001 - whatever it is, nobody could look
                self._found = error
        return self._found


def look_back(
    name: TableName,
    identity: Identity,
    failure: Exception,
    found: TableMetadata,
    read: Callable[[str], TableMetadata],
) -> CommitStateUnknown | None:
    """As `Doubts.about`, for a table that was looked at: `found` is its metadata as it is now."""
    ids = identity.snapshot_ids
    if any(found.snapshot_by_id(id_) is not None for id_ in ids):
        return CommitStateUnknown(f"its snapshot is in {name}, and it was not committed again: {failure}")
    lineage = Lineage(identity, found)
    if lineage.is_elsewhere:
        return _perhaps_renamed(f"{name} is another table now")
    for location in islice(_logged(found, read), OLDER_FILES_MAX):
        if lineage.presence is not Presence.OPEN:
            break
        # One that is gone hides nothing that another one shows.
        with contextlib.suppress(IcebergHmsError):
            lineage.look_into(read(location))
    match lineage.presence:
        case Presence.ABSENT:
            return None
        case Presence.LANDED:
            return CommitStateUnknown(
                f"snapshot {ids[-1]} is not in {name} any more, but it was",
                next_step="it was committed before and has expired since: delete none of its files",
            )
        case Presence.OPEN:
            return CommitStateUnknown(
                f"nobody can tell whether snapshot {ids[-1]} was committed to {name} before, since later snapshots "
                f"have expired; it was not committed now: {failure}",
                next_step="look whether its rows are in the table before you try again; delete none of its files",
            )


def _logged(metadata: TableMetadata, read: Callable[[str], TableMetadata]) -> Iterator[str]:
    """The locations that the metadata log names, newest first, then those that the oldest of them names in turn."""
    while log := metadata.metadata_log:
        yield from (entry["metadata-file"] for entry in reversed(log))
        try:
            metadata = read(log[0]["metadata-file"])
        except IcebergHmsError:
            return


def _perhaps_renamed(why: str) -> CommitStateUnknown:
    return CommitStateUnknown(
        f"{why}; whether the change was committed before the table was dropped or renamed, nobody can tell",
        next_step="look for the table under another name; delete no file that it may name",
    )
