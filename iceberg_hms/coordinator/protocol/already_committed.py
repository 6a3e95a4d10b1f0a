"""Whether a change that is about to be refused may be in the table all the same.

It may have been sent before: its answer was lost, and its client, or a proxy before us, sends it again under the same
snapshot ids. "Failed" would then be an order to delete files that the table names. So before
the coordinator refuses a change, whatever for, it looks for the change's snapshot ids; if they are not there, for what
came after them (`changes.lineage`), since they may have expired; and if the table as it is does not tell, in the
metadata files that it had before.

The table may have another name by then, or none: it is looked for by the UUID that the change asserts (`whereabouts`).

    found under another name     the same is looked for in that table
    nowhere                      nothing tells what the dropped table had. The change is proved absent if no swap was
                                 sent that carried it, as far as this process knows, and it knows of all since the
                                 change was made (`sent_swaps`)

Another server of ours may have sent such a swap, if a proxy sends commits again and picks another server for that.
Docs tell operators not to let it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from iceberg_hms.changes.change import ChangeIdentity
from iceberg_hms.changes.lineage import Lineage, Presence
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.protocol.metadata_cache import TableVersion
from iceberg_hms.coordinator.protocol.sent_swaps import SentSwaps
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError, MetastoreUnavailable, NoSuchTable
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: How many older metadata files are read for one change, at most.
OLDER_FILES_MAX = 100


class LookupSources:
    """Tells of changes whose table has left the name that they were sent to.

    find: the tables with a UUID, and the name that it was known by; raises as `Whereabouts.of`.
    read: a metadata file by its location; raises as `MetadataCache.peek`. sent: of this process.
    """

    def __init__(
        self,
        find: Callable[[str, TableName], Sequence[TableVersion]],
        read: Callable[[str], TableMetadata],
        sent: SentSwaps,
    ) -> None:
        self._find = find
        self.read = read
        self.sent = sent

    def at_once(self) -> LookupSources:
        """The same for several changes that are asked about one after the other: a table is looked for once."""
        results: dict[tuple[str, TableName], Sequence[TableVersion] | Exception] = {}

        def find(uuid: str, name: TableName) -> Sequence[TableVersion]:
            result = results.get((uuid.lower(), name))
            if result is None:
                try:
                    result = self._find(uuid, name)
                except Exception as error:  # noqa: BLE001 - whoever asks next is told the same
                    result = error
                results[uuid.lower(), name] = result
            if isinstance(result, Exception):
                raise result
            return result

        return LookupSources(find, self.read, self.sent)

    def about(
        self, name: TableName, identity: ChangeIdentity, failure: Exception, why: str
    ) -> CommitStateUnknown | None:
        """As `AlreadyCommitted.about`. why: what was found under the name."""
        seen = identity.client_base
        if seen is None:
            return None
        if seen.uuid is None:
            return _perhaps_renamed(f"{why}, and the change does not say which table it is for")
        try:
            found = self._find(seen.uuid, name)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody could look
            return _perhaps_renamed(f"{why}, and the table could not be looked for under other names: {error}")
        for base in found:
            doubt = look_back(base.pointer.name, identity, failure, base.metadata, self)
            if doubt is not None:
                return doubt
        if self.sent.carried(identity) or not (found or self.sent.would_know(identity)):
            return _perhaps_renamed(why)
        return None


class AlreadyCommitted:
    """Looks at a table once, when it is first asked.

    load: the table's metadata as it is now; raises as `Coordinator.load`.
    """

    def __init__(self, name: TableName, load: Callable[[], TableMetadata], elsewhere: LookupSources) -> None:
        self._name = name
        self._load = load
        self._elsewhere = elsewhere
        self._found: TableMetadata | Exception | None = None

    def about(self, identity: ChangeIdentity, failure: Exception) -> CommitStateUnknown | None:
        """What the caller is to be told instead of `failure`, which says that no swap carried its change. None: the
        failure, since nothing of the change is in the table."""
        if not identity.snapshot_ids:
            return None
        found = self._look()
        if isinstance(found, TableMetadata):
            return look_back(self._name, identity, failure, found, self._elsewhere)
        if isinstance(failure, MetastoreUnavailable):
            # A metastore that is out of reach is waited for: clients are told to come again, and keep their files.
            return None
        if isinstance(found, NoSuchTable):
            return self._elsewhere.about(self._name, identity, failure, f"there is no table {self._name}")
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
    identity: ChangeIdentity,
    failure: Exception,
    found: TableMetadata,
    elsewhere: LookupSources,
) -> CommitStateUnknown | None:
    """As `AlreadyCommitted.about`, for a table that was looked at: `found` is its metadata as it is now."""
    ids = identity.snapshot_ids
    if any(found.snapshot_by_id(id_) is not None for id_ in ids):
        return CommitStateUnknown(f"its snapshot is in {name}, and it was not committed again: {failure}")
    lineage = Lineage(identity, found)
    if lineage.is_another_table:
        return elsewhere.about(name, identity, failure, f"{name} is another table now")
    for location in islice(_logged(found, elsewhere.read), OLDER_FILES_MAX):
        if lineage.presence is not Presence.UNKNOWN:
            break
        # One that is gone hides nothing that another one shows.
        with contextlib.suppress(IcebergHmsError):
            lineage.look_into(elsewhere.read(location))
    match lineage.presence:
        case Presence.ABSENT:
            return None
        case Presence.COMMITTED:
            return CommitStateUnknown(
                f"snapshot {ids[-1]} is not in {name} any more, but it was",
                next_step="it was committed before and has expired since: delete none of its files",
            )
        case Presence.UNKNOWN:
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
