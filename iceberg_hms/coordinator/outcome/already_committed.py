"""Was this change committed before? The one place that answers.

A change may have been sent before: its answer was lost, and its client, or a proxy before us, sends it again under the
same snapshot ids. To commit it twice would add its rows twice; to answer "failed" would order the client to delete
files that the table names. Each caller of this module needs another strength of proof:

    committed_as          before a change is staged. Looks at one metadata and reads nothing. What it finds counts as
                          committed only if the lock covers that metadata (`commit_group`).
    refused_at_once       when a change is refused under the lock. Reads nothing: most refusals need no more proof than
                          the metadata at hand.
    failed_or_unknown     before a caller is answered "failed": whenever `refused_at_once` cannot tell, when a change is
                          refused before it is queued, when a group failed before its swap, and when a caller withdrew
                          in time. Looks for the change's snapshot ids; if they are not there, for what came after them
                          (`changes.clients.lineage`), since they may have expired; if the table as it is does not tell,
                          in the metadata files that it had before; and last for swaps that were sent and may still be
                          made (`sent_swaps`).

The table may have another name by then, or none: `failed_or_unknown` looks for the UUID that the change asserts
(`uuid_lookup`).

    found under another name     the same search in that table
    nowhere                      nothing tells what the dropped table had. The change is proved absent if no swap that
                                 carried it was sent, as far as this process knows, and it knows of all since the change
                                 was made (`sent_swaps`)

Another server of ours may have sent such a swap, if a proxy sends commits again and picks another server for that.
The docs tell operators to prevent that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from iceberg_hms.changes.change import ChangeIdentity
from iceberg_hms.changes.clients.lineage import Lineage, Presence
from iceberg_hms.changes.summary import IDEMPOTENCY_KEY
from iceberg_hms.coordinator.outcome.outcome import Failed, Unknown, broke_off
from iceberg_hms.coordinator.outcome.sent_swaps import Carried, SentSwaps
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError, MetastoreUnavailable, NoSuchTable, ResourceExhausted
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: Errors that pass before anything is sent: clients send the commit again.
_PASSING = (MetastoreUnavailable, ResourceExhausted)
#: How many older metadata files `failed_or_unknown` reads for one change, at most.
OLDER_FILES_MAX = 100


@dataclass(frozen=True, slots=True)
class LookupSources:
    """Where to look for a change. Safe for threads.

    load: a table's metadata as it is now; raises as `Coordinator.load`.
    find: the tables with a UUID, given the name that it was last known by; raises as `UuidLookup.of`.
    read: a metadata file by its location; raises as `MetadataCache.peek`.
    sent: the swaps of this process.
    """

    load: Callable[[TableName], TableVersion]
    find: Callable[[str, TableName], Sequence[TableVersion]]
    read: Callable[[str], TableMetadata]
    sent: SentSwaps


def committed_as(identity: ChangeIdentity, metadata: TableMetadata) -> tuple[int, ...] | None:
    """The snapshots as which the table already holds a change: its own if it was sent before and its answer was lost,
    another's if its job was run before under the same idempotency key. None: the table does not hold it.

    Raises CommitStateUnknown if the change's snapshot is in the table but not on its ref (it was rolled back, say):
    answering "failed" would make the caller delete files that a kept snapshot names.
    """
    present = _present(identity, metadata)
    head = metadata.refs.get(identity.ref) if identity.ref is not None else None
    if present:
        # A change lands as a whole: of several snapshots the older ones may have expired since.
        last = identity.snapshot_ids[-1]
        is_there = present[-1] == last
        if is_there and (identity.ref is None or (head is not None and _is_ancestor(metadata, head.snapshot_id, last))):
            return identity.snapshot_ids
        raise CommitStateUnknown(
            f"snapshot {present[-1]} is in the table but {last} is not in the history of {identity.ref}",
            next_step="it was rolled back, or only staged: look at the snapshots, and delete none of its files",
        )
    if identity.idempotency_key is None or (identity.ref is not None and head is None):
        return None
    carrying = metadata.snapshot_rows.where(("summary", IDEMPOTENCY_KEY), identity.idempotency_key)
    if not carrying:
        return None
    if head is None:
        # A job that only stages its snapshot: it is staged once, wherever that snapshot is by now.
        return (carrying[0]["snapshot-id"],)
    history = {snapshot.snapshot_id for snapshot in metadata.ancestors(head.snapshot_id)}
    return next(((row["snapshot-id"],) for row in carrying if row["snapshot-id"] in history), None)


def refused_at_once(
    identity: ChangeIdentity, error: Exception, base: TableVersion, sent: SentSwaps, group: Collection[Carried] = ()
) -> Failed | Unknown | None:
    """The outcome of a change that is refused for `error`, which no swap of its group carried into the table. None: the
    table as it is, `base`, does not prove that the change is not in it, or a swap that was sent may still bring it."""
    if isinstance(error, CommitStateUnknown):
        return Unknown(error)
    if Lineage(identity, base.metadata).presence is not Presence.ABSENT:
        return None
    return Failed(error) if doubt_of_swaps(identity, base, sent, group=group) is None else None


def doubt_of_swaps(
    identity: ChangeIdentity,
    base: TableVersion,
    sent: SentSwaps,
    moment: int | None = None,
    group: Collection[Carried] = (),
) -> str | None:
    """As `SentSwaps.doubt`; None for a change that adds no snapshot, whose client deletes nothing."""
    if not identity.snapshot_ids:
        return None
    return sent.doubt(identity, base.pointer, base.metadata, moment=moment, group=group)


class AlreadyCommitted:
    """Looks for the changes of one table that are about to be answered "failed", all at one moment: it loads the table
    once, and looks for each UUID once.

    group: the commits that are refused together."""

    def __init__(self, name: TableName, sources: LookupSources, group: Collection[Carried] = ()) -> None:
        self._name = name
        self._sources = sources
        self._group = group
        self._loaded: TableVersion | Exception | None = None
        #: Before anything was loaded.
        self._moment: int | None = None
        self._found: dict[tuple[str, TableName], Sequence[TableVersion] | Exception] = {}

    def failed_or_unknown(
        self, identity: ChangeIdentity, error: Exception, base: TableVersion | None = None
    ) -> Failed | Unknown:
        """The outcome of a change that is refused for `error`, which says that no swap of its group carried it into the
        table. Failed only if it is proved that none did before, either.

        base: the table as it was read when the change was refused, by the one that sends this table's swaps; None: it
        is loaded now. Raises nothing."""
        if isinstance(error, CommitStateUnknown):
            return Unknown(error)
        try:
            doubt = self._doubt(identity, error, base)
        except Exception as defect:  # noqa: BLE001 - then nobody can tell
            doubt = broke_off(self._name, defect)
        return Failed(error) if doubt is None else Unknown(doubt)

    def not_sent_in_outage(self, identity: ChangeIdentity, outage: MetastoreUnavailable) -> Failed | Unknown:
        """The outcome of a change that was not sent because the metastore is away, as somebody has just found: as
        `failed_or_unknown` where the table cannot be loaded, without another try. Raises nothing."""
        self._loaded = outage
        return self.failed_or_unknown(identity, outage)

    def _doubt(
        self, identity: ChangeIdentity, error: Exception, base: TableVersion | None
    ) -> CommitStateUnknown | None:
        """What to raise instead of `error`. None: nothing of the change is in the table."""
        if not identity.snapshot_ids:
            return None
        if self._moment is None:
            self._moment = self._sources.sent.moment()
        loaded = self._load() if base is None else base
        if isinstance(loaded, TableVersion):
            return self._doubt_of_table(self._name, identity, error, loaded, None if base else self._moment)
        if isinstance(error, _PASSING) and not self._sources.sent.has(identity, self._group):
            # As below.
            return None
        if isinstance(loaded, NoSuchTable):
            return self._doubt_elsewhere(self._name, identity, error, f"there is no table {self._name}")
        return CommitStateUnknown(f"{error.__class__.__name__}, and {self._name} could not be looked at: {loaded}")

    def _doubt_of_table(
        self, name: TableName, identity: ChangeIdentity, error: Exception, base: TableVersion, moment: int | None
    ) -> CommitStateUnknown | None:
        metadata = base.metadata
        if _present(identity, metadata):
            return CommitStateUnknown(f"its snapshot is in {name}, and it was not committed again: {error}")
        lineage = Lineage(identity, metadata)
        if lineage.is_another_table:
            return self._doubt_elsewhere(name, identity, error, f"{name} is another table now")
        read = self._sources.read
        for location in islice(_logged(metadata, read), OLDER_FILES_MAX):
            if lineage.presence is not Presence.UNKNOWN:
                break
            # One that is gone hides nothing that another one shows.
            with contextlib.suppress(IcebergHmsError):
                lineage.look_into(read(location))
        last = identity.snapshot_ids[-1]
        match lineage.presence:
            case Presence.ABSENT:
                why = doubt_of_swaps(identity, base, self._sources.sent, moment, self._group)
                if why is None or (isinstance(error, _PASSING) and not self._sources.sent.has(identity, self._group)):
                    # Clients send the commit again when that is over, and keep their files until then.
                    return None
                return CommitStateUnknown(
                    f"snapshot {last} is not in {name}, but {why}; it was not committed now: {error}",
                    next_step="look for the snapshot again before you try again; delete none of its files",
                )
            case Presence.COMMITTED:
                return CommitStateUnknown(
                    f"snapshot {last} is not in {name} any more, but it was",
                    next_step="it was committed before and has expired since: delete none of its files",
                )
            case Presence.UNKNOWN:
                return CommitStateUnknown(
                    f"nobody can tell whether snapshot {last} was committed to {name} before, since later snapshots "
                    f"have expired; it was not committed now: {error}",
                    next_step="look whether its rows are in the table before you try again; delete none of its files",
                )

    def _doubt_elsewhere(
        self, name: TableName, identity: ChangeIdentity, error: Exception, why: str
    ) -> CommitStateUnknown | None:
        """As `_doubt`, where the change's table has left the name. why: what was found under the name."""
        seen, sent = identity.client_base, self._sources.sent
        if seen is None:
            # This process made the change, and knows whether it sent it.
            return _perhaps_renamed(why) if sent.has(identity, self._group) else None
        if seen.uuid is None:
            return _perhaps_renamed(f"{why}, and the change does not say which table it is for")
        try:
            found = self._find(seen.uuid, name)
        except Exception as failure:  # noqa: BLE001 - whatever it is, nobody could look
            return _perhaps_renamed(f"{why}, and the table could not be looked for under other names: {failure}")
        for base in found:
            doubt = self._doubt_of_table(base.pointer.name, identity, error, base, self._moment)
            if doubt is not None:
                return doubt
        was_sent = sent.has(identity, self._group) or not sent.would_know(identity)
        return _perhaps_renamed(why) if was_sent and not found else None

    def _load(self) -> TableVersion | Exception:
        if self._loaded is None:
            try:
                self._loaded = self._sources.load(self._name)
            except Exception as error:  # noqa: BLE001 - whatever it is, nobody could look
                self._loaded = error
        return self._loaded

    def _find(self, uuid: str, name: TableName) -> Sequence[TableVersion]:
        key = (uuid.lower(), name)
        if key not in self._found:
            try:
                self._found[key] = self._sources.find(uuid, name)
            except Exception as error:  # noqa: BLE001 - the next change gets the same answer
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, Exception):
            raise found
        return found


def _present(identity: ChangeIdentity, metadata: TableMetadata) -> list[int]:
    known = metadata.raw_snapshots_by_id
    return [id_ for id_ in identity.snapshot_ids if id_ in known]


def _is_ancestor(metadata: TableMetadata, head: int, wanted: int) -> bool:
    return any(snapshot.snapshot_id == wanted for snapshot in metadata.ancestors(head))


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
