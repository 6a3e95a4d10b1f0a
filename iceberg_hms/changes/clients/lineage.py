"""Whether snapshots that a table lacks were committed to it before, and have expired since.

A client that lost the reply sends the same snapshot again, and the snapshot may have expired meanwhile. Its files live
on in later snapshots, so a refusal would make the client delete files of the table.

A snapshot's files are in its descendants, and in snapshots that cherry-picked it. A descendant has a higher sequence
number. So the table's current metadata proves that the sent snapshot is absent if it has the parent of every snapshot
whose number is not below the sent one's: each of these then descends from a snapshot that is older than the sent one,
or from the root of a separate history. If such a parent has expired, an older metadata file may still have it. The sent
snapshot's own parent is older than the sent one, expired or not.

Format version 1 has no numbers. There only these are known to be older: the sent snapshot's ancestors, and all
snapshots in a metadata file that lacks its parent. And a table that was last updated before the snapshot was made never
had it: committing it raises last-updated-ms to the snapshot's timestamp at least.

The proof relies on sequence numbers that never fall (spec: Sequence Numbers).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from iceberg_hms.changes.change import ChangeIdentity, ClientBase
from iceberg_hms.format.metadata.rows import SOURCE_SNAPSHOT_ID, Row, roots
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: By how much other writers may lower a table's last-updated-ms (Java: TableMetadata, ONE_MINUTE).
_SKEW_MS: Final = 60_000


class Presence(Enum):
    """ABSENT: proved, the table never had the snapshots. COMMITTED: they were in it. UNKNOWN: neither is proved."""

    ABSENT = auto()
    COMMITTED = auto()
    UNKNOWN = auto()


class Lineage:
    """Looks for traces of missing snapshots in a table's metadata, then in older metadata of the same table.

    identity: of the change that adds the snapshots. base: the table's current metadata.
    """

    def __init__(self, identity: ChangeIdentity, base: TableMetadata) -> None:
        client_base = identity.client_base
        self._ids = frozenset(identity.snapshot_ids)
        self._id_texts = frozenset(map(str, self._ids))
        self._base = base
        self._committed = False
        self._older: set[int | None] = set() if client_base is None else {client_base.parent_id}
        #: Parents of examined snapshots that are in no metadata read so far -> the ids of their children.
        self._missing: dict[int, set[int]] = {}
        #: Whether the name now belongs to another table than the client's, which may have been renamed.
        uuid = None if client_base is None else client_base.uuid
        self.is_another_table = uuid is not None and not base.has_uuid(uuid)
        self._client_base = client_base
        if client_base is not None and not self.is_another_table:
            self._committed = not self._id_texts.isdisjoint(base.snapshot_rows.descent.picked)
            for row in self._not_older(client_base, base):
                self._examine(row)

    @property
    def presence(self) -> Presence:
        if self._committed:
            return Presence.COMMITTED
        return Presence.UNKNOWN if self._missing or self.is_another_table else Presence.ABSENT

    def look_into(self, older: TableMetadata) -> None:
        """Look for missing parents in an older metadata file of the table, in any order of files."""
        rows = older.raw_snapshots_by_id
        self._committed = self._committed or not self._ids.isdisjoint(rows)
        if self._client_base is not None and self._client_base.sequence_number is None:
            self._older.update(_ancestors(self._client_base, older))
            parent = self._client_base.parent_id
            if parent is not None and parent in self._base.raw_snapshots_by_id and parent not in rows:
                # The file was written before the parent was committed.
                self._older.update(rows)
            for id_, children in self._missing.items():
                self._missing[id_] = set() if id_ in self._older else children - self._older
            self._missing = {id_: children for id_, children in self._missing.items() if children}
        while found := [id_ for id_ in self._missing if id_ in rows]:
            for id_ in found:
                del self._missing[id_]
                if not self._is_older(rows[id_]):
                    self._examine(rows[id_])

    def _not_older(self, client_base: ClientBase, base: TableMetadata) -> Sequence[Row]:
        """The table's snapshots that are not known to be older than the sent one, without those whose parents are such
        snapshots too."""
        if client_base.sequence_number is None:
            if client_base.timestamp_ms is not None and base.last_updated_ms + _SKEW_MS < client_base.timestamp_ms:
                return ()
            self._older.update(_ancestors(client_base, base))
            return roots([row for row in base.snapshot_rows if row["snapshot-id"] not in self._older])
        # Usually nothing was committed since the client read the table.
        number = client_base.sequence_number
        return () if base.last_sequence_number < number else base.snapshot_rows.roots_from(number)

    def _is_older(self, row: Row) -> bool:
        number = None if self._client_base is None else self._client_base.sequence_number
        if number is None:
            return row["snapshot-id"] in self._older
        return (row.get("sequence-number") or 0) < number

    def _examine(self, row: Row) -> None:
        parent = row.get("parent-snapshot-id")
        source = (row.get("summary") or {}).get(SOURCE_SNAPSHOT_ID)
        if parent in self._ids or (isinstance(source, str) and source in self._id_texts):
            self._committed = True
        elif parent is not None and parent not in self._older and parent not in self._base.raw_snapshots_by_id:
            self._missing.setdefault(parent, set()).add(row["snapshot-id"])


def _ancestors(client_base: ClientBase, metadata: TableMetadata) -> set[int]:
    return {each.snapshot_id for each in metadata.ancestors(client_base.parent_id)}
