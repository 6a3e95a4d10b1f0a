"""The seam: what a change is, and all that it may ask of the world.

A change is a list of assumptions (`check`) plus pending updates (`stage`). It does no I/O of its own; the `Manifests`
port is handed to it. The coordinator knows neither Avro nor operations: it calls `check` and `stage` on whatever the
table is now, as often as the table moves.

A change is staged again on each new base, so `stage` must not keep what it learned of an older base, except through
files whose content does not depend on the base (an append's own manifests).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema

#: An update in the REST protocol's JSON shape: {"action": "set-properties", "updates": {...}}.
Update = Mapping[str, Any]
#: A requirement in the REST protocol's JSON shape: {"type": "assert-table-uuid", "uuid": "..."}.
Requirement = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the caller of a change had read of the table when it made the first of its snapshots.

    uuid: the table's, if the change names it. parent_id: the snapshot that the first one was made on; None without one.
    number: the sequence number of the first one, which no commit of it falls below; None in format version 1.
    made_ms: when the first one was made, by its client's clock; None if that is not known.
    """

    uuid: str | None = None
    parent_id: int | None = None
    number: int | None = None
    made_ms: int | None = None


@dataclass(frozen=True)
class ChangeIdentity:
    """Who and what a change is, whatever base it lands on: what the outcome rule looks for in the table.

    snapshot_ids: the ids of the snapshots that the change adds; stable over replays.
    ref: the branch or tag that the change moves to the last of them; None if it adds them without moving a ref.
    idempotency_key: the caller's own key for a whole job, or None.
    files: the data files that the job adds, as keys of `format.locations.file_key`: a rerun has the same. Empty where
    that is not so: an engine writes its rows into new files whenever a job runs.
    caller: who asked, for logs and locks.
    lists: the manifest lists that the caller made for those snapshots. Whoever sends the change again makes others.
    seen: of a change whose caller chose the snapshot ids, so that it may have sent them before. None: the ids are new.
    sender: the program that sent it and what it does, as it names them; empty if it names nothing.
    """

    snapshot_ids: tuple[int, ...] = ()
    ref: str | None = None
    idempotency_key: str | None = None
    files: frozenset[str] = frozenset()
    caller: str = ""
    lists: tuple[str, ...] = ()
    seen: Seen | None = None
    sender: str = ""


@dataclass(frozen=True)
class Staged:
    """What a change comes to on one base.

    updates: REST-shaped updates, for `format.apply`.
    files: locations that staging wrote; deleted only if the change is proved to have failed.
    rebased: a snapshot was put on a parent that its client had not seen.
    replaced: locations of the client's lists for which staging made others; no snapshot names them then.
    """

    updates: Sequence[Update]
    files: Sequence[str] = field(default=())
    rebased: bool = False
    replaced: Sequence[str] = field(default=())


class Manifests(Protocol):
    """Manifest lists and manifests, as records. Drivers: storage/manifests.py; an in-memory fake for tests.

    Read calls raise MissingFile, CorruptFile or StorageError; so do writes, except MissingFile.
    One instance serves one group of changes of one table, so `flush` knows what it has to write.
    """

    def list(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests of a snapshot, in the list's order; cached by location. A list that was staged and not yet
        flushed is answered from memory. v1 snapshots that name their manifests inline are answered as well."""
        ...

    def added(self, snapshot: Snapshot) -> Sequence[ManifestFile] | None:
        """The manifests that a snapshot added, if the front of its list tells that they hold nothing but added data
        files, as many as its summary says (`added-data-files`); the rest of the list is not read then. None: only the
        whole list tells."""
        ...

    def entries(
        self, files: Iterable[ManifestFile], keep: Callable[[ManifestEntry], bool] | None = None
    ) -> Iterator[ManifestEntry]:
        """The entries of manifests, with inherited snapshot ids and sequence numbers filled in (spec: inheritance)."""
        ...

    def live(self, files: Iterable[ManifestFile], keys: Collection[str]) -> Sequence[ManifestEntry]:
        """The live data files of manifests that are named by keys of `format.locations.file_key`, in the manifests'
        order. A driver remembers which files a manifest has, so that it is read once and not for every question."""
        ...

    def write(
        self,
        metadata: TableMetadata,
        schema: Schema,
        spec: PartitionSpec,
        snapshot_id: int,
        entries: Iterable[ManifestEntry],
    ) -> Sequence[ManifestFile]:
        """Write entries as new manifest files of the table's format version, at once and on disk when this returns.
        The result's sequence numbers are unassigned: they are given when the list is staged. Replays reuse it."""
        ...

    def stage_list(self, metadata: TableMetadata, snapshot: Snapshot, files: Sequence[ManifestFile]) -> str:
        """Fix the content of a new manifest list and return its location (a name never used before). `snapshot`
        carries the id, parent, sequence number and, for v3, first-row-id. Readable through `list` at once; on disk
        after `flush`. Manifests without a sequence number get the snapshot's."""
        ...

    def flush(self) -> Sequence[str]:
        """Write the staged lists, in parallel, and verify their lengths. Returns the locations written."""
        ...

    def discard(self, locations: Iterable[str]) -> None:
        """Forget staged lists that no metadata will name, so that `flush` does not write them."""
        ...


class Change(Protocol):
    """Assumptions plus pending changes."""

    @property
    def identity(self) -> ChangeIdentity: ...

    def check(self, base: TableMetadata | None) -> None:
        """Compare the assumptions with the table as it is; `None` means that it does not exist.
        Raises RequirementFailed with the assumption's name, what it expected and what it found."""
        ...

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> Staged:
        """The updates that make the change happen on this base. Raises RequirementFailed, InvalidInput, StorageError;
        CommitStateUnknown if files of the change are in the table already."""
        ...
