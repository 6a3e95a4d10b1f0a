"""Whether snapshots that a table does not have were committed to it before, and have expired since.

A client whose answer was lost sends the same snapshot again, and in the meantime the snapshot may have expired. Its
files live on in the snapshots that came after it, so "refused" would make the client delete files of the table.

What a snapshot brought is in those that descend from it, and in those that cherry-picked it. A descendant has a higher
sequence number. So the proof of absence needs no file: the table has the parent of every snapshot whose number is not
below that of the one that was sent. Each of them then goes back, from parent to parent, to a snapshot that is older
than it, or to the root of a history of its own. Where a parent has expired as well, an older metadata file may still
have it. The sent snapshot's own parent is older than it, expired or not.

Format version 1 has no numbers. There all that is known to be older are the sent snapshot's ancestors, and whatever is
in a metadata file that lacks its parent. And a table that was last changed before the snapshot was made never had it:
its commit takes last-updated-ms to the snapshot's own time at least.

The proof trusts that the numbers of a table never fall (spec: Sequence Numbers).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from iceberg_hms.changes.change import ChangeIdentity, Seen
from iceberg_hms.format.metadata.rows import Row
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: By how much other writers may take a table's last-updated-ms back (Java: TableMetadata, ONE_MINUTE).
_SKEW_MS: Final = 60_000

#: Summary property of a cherry-pick: the snapshot whose files it added (Java: SnapshotSummary).
SOURCE_SNAPSHOT_ID = "source-snapshot-id"


class Presence(Enum):
    """ABSENT: proved, nothing of the snapshots is in the table. LANDED: they were in it. OPEN: neither is known."""

    ABSENT = auto()
    LANDED = auto()
    OPEN = auto()


class Lineage:
    """What a table's metadata, and then older metadata of the same table, say of snapshots that it does not have.

    identity: of the change that brings them. base: the table as it is.
    """

    def __init__(self, identity: ChangeIdentity, base: TableMetadata) -> None:
        seen = identity.seen
        self._ids = frozenset(identity.snapshot_ids)
        self._base = base
        self._landed = False
        self._older: set[int | None] = set() if seen is None else {seen.parent_id}
        #: Parents of examined snapshots that no metadata has shown yet, and whose parents they are.
        self._missing: dict[int, set[int]] = {}
        self._elsewhere = seen is not None and _is_another(seen, base)
        self._seen = seen
        if seen is not None and not self._elsewhere:
            self._landed = any(
                base.snapshot_rows.holding(("summary", SOURCE_SNAPSHOT_ID), str(id_)) for id_ in self._ids
            )
            after = self._after(seen, base)
            # With every conflict: a row whose parent came after as well needs no look of its own.
            ids = {row["snapshot-id"] for row in after}
            for row in after:
                if row.get("parent-snapshot-id") not in ids:
                    self._examine(row)

    @property
    def presence(self) -> Presence:
        if self._landed:
            return Presence.LANDED
        return Presence.OPEN if self._missing or self._elsewhere else Presence.ABSENT

    @property
    def is_elsewhere(self) -> bool:
        """The name belongs to another table than the one that the client saw, which may have another name now."""
        return self._elsewhere

    def look_into(self, older: TableMetadata) -> None:
        """Look for what is missing in an older metadata file of the table. The order of the files does not matter."""
        rows = older.raw_snapshots_by_id
        self._landed = self._landed or not self._ids.isdisjoint(rows)
        if self._seen is not None and self._seen.number is None:
            self._older.update(_ancestors(self._seen, older))
            parent = self._seen.parent_id
            if parent is not None and parent in self._base.raw_snapshots_by_id and parent not in rows:
                # Written before the parent was there.
                self._older.update(rows)
            for id_, children in self._missing.items():
                self._missing[id_] = set() if id_ in self._older else children - self._older
            self._missing = {id_: children for id_, children in self._missing.items() if children}
        while found := [id_ for id_ in self._missing if id_ in rows]:
            for id_ in found:
                del self._missing[id_]
                if not self._is_older(rows[id_]):
                    self._examine(rows[id_])

    def _after(self, seen: Seen, base: TableMetadata) -> Sequence[Row]:
        """The table's snapshots that may have come after the sent one."""
        if seen.number is None:
            if seen.made_ms is not None and base.last_updated_ms + _SKEW_MS < seen.made_ms:
                return ()
            self._older.update(_ancestors(seen, base))
            return [row for row in base.snapshot_rows if row["snapshot-id"] not in self._older]
        # The common case: nothing was committed since the client read the table.
        return () if base.last_sequence_number < seen.number else base.snapshot_rows.numbered_from(seen.number)

    def _is_older(self, row: Row) -> bool:
        number = None if self._seen is None else self._seen.number
        if number is None:
            return row["snapshot-id"] in self._older
        return (row.get("sequence-number") or 0) < number

    def _examine(self, row: Row) -> None:
        parent = row.get("parent-snapshot-id")
        source = (row.get("summary") or {}).get(SOURCE_SNAPSHOT_ID)
        if parent in self._ids or (source is not None and source in map(str, self._ids)):
            self._landed = True
        elif parent is not None and parent not in self._older and parent not in self._base.raw_snapshots_by_id:
            self._missing.setdefault(parent, set()).add(row["snapshot-id"])


def _is_another(seen: Seen, base: TableMetadata) -> bool:
    return seen.uuid is not None and (base.uuid is None or base.uuid.lower() != seen.uuid.lower())


def _ancestors(seen: Seen, metadata: TableMetadata) -> set[int]:
    return {each.snapshot_id for each in metadata.ancestors(seen.parent_id)}
