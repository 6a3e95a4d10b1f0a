"""What a change is, and the one port that it may use.

A change is a list of assumptions (`check`) plus pending updates (`stage`). It does no I/O of its own; the coordinator
passes it the `Manifests` port. The coordinator knows neither Avro nor operations: it calls `check` and `stage` on the
table's current metadata, again each time the table moves.

`stage` must keep nothing that it learned of an older base, except files whose content does not depend on the base (an
append's own manifests).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, ManifestEntry
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
class ClientBase:
    """The state of the table on which a client built the first snapshot of a change.

    uuid: the table's, if the change asserts it. parent_id: the first snapshot's parent; None without one.
    sequence_number: the first snapshot's own; wherever it is committed, it gets this number or a higher one. None in
    format version 1.
    timestamp_ms: the first snapshot's own, by its client's clock; None if that is not known.
    made_here: whether this process made the change, so that no other one can have sent it.
    """

    uuid: str | None = None
    parent_id: int | None = None
    sequence_number: int | None = None
    timestamp_ms: int | None = None
    made_here: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """What makes two runs one job besides their idempotency key: all that they do to the table. A snapshot keeps the
    digest beside the key: if a second job came under the key of the first, reporting the first one's success would
    silently lose what the second one does.

    added: the data files that the job adds, as keys of `format.locations.file_key`. digest: of all that it does, the
    same in each process and release."""

    added: frozenset[str]
    digest: str

    @classmethod
    def of(
        cls,
        operation: str,
        *,
        added: Iterable[str | DataFile] = (),
        removed: Iterable[str | DataFile] = (),
        added_deletes: Iterable[DataFile] = (),
        removed_deletes: Iterable[DataFile] = (),
        scope: str | None = None,
    ) -> Self:
        """The job of one operation.

        operation: its name in the Python API. added, removed: data files, under any spelling and in any order.
        added_deletes, removed_deletes: delete files, likewise; each deletion vector is one. scope: what it is limited
        to, as text: the filter of the rows that go, say. What an operation only assumes, such as its isolation, makes
        it no other job."""
        keys = frozenset(_key(each) for each in added)
        data = [sorted(keys), sorted(map(_key, removed))]
        deletes = [sorted(map(_delete_key, each)) for each in (added_deletes, removed_deletes)]
        parts = [operation, scope, data, deletes]
        return cls(keys, hashlib.sha256(json.dumps(parts).encode()).hexdigest())


@dataclass(frozen=True)
class ChangeIdentity:
    """How a change is recognized in the table, whatever base it is committed on.

    snapshot_ids: the ids of the snapshots that the change adds; stable over replays.
    ref: the branch or tag that the change moves to the last of them; None if it adds them without moving a ref.
    idempotency_key: the caller's own key for a whole job, or None.
    job: what is done under the key, if a rerun does the same. None otherwise: an engine writes its rows into new files
    whenever a job runs.
    caller: the authenticated caller, for logs and locks.
    client_base: set if the client chose the snapshot ids, so that it may have sent them before. None: the ids are new.
    sender: the program that sent the change and its operation, as the client names them; empty if it names nothing.
    location: of the table, if the change sets it; known before the change is staged. paths: other folders that it names
    in properties, likewise.
    lists: the manifest lists of its snapshots, if the client wrote them; staging reads them.
    """

    snapshot_ids: tuple[int, ...] = ()
    ref: str | None = None
    idempotency_key: str | None = None
    job: Job | None = None
    caller: str = ""
    client_base: ClientBase | None = None
    sender: str = ""
    location: str | None = None
    paths: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()


@dataclass(frozen=True)
class StagedChange:
    """The result of staging a change on one base.

    updates: REST-shaped updates, for `format.updates.apply`.
    files: locations that staging wrote; deleted only if the change is proved to have failed.
    rebased: whether a snapshot got a parent that its client had not seen.
    replaced: locations of the client's manifest lists that staging replaced by new ones; no snapshot names them then.
    snapshot_ids: the snapshots that are added on this base, if not all that the change's identity names: a cherry-pick
    adds none where its branch only moves forward. None: all of them.
    """

    updates: Sequence[Update]
    files: Sequence[str] = field(default=())
    rebased: bool = False
    replaced: Sequence[str] = field(default=())
    snapshot_ids: tuple[int, ...] | None = None


class Manifests(Protocol):
    """Manifest lists and manifests, as records. Drivers: storage/manifests.py; an in-memory fake for tests.

    Read calls raise MissingFile, CorruptFile or StorageError; so do writes, except MissingFile. Whatever takes this
    port raises the same, and does not say it again.
    One instance serves one group of changes of one table: `flush` writes the lists that it staged.
    """

    def fetch(self, lists: Sequence[str]) -> None:
        """Read the lists at these locations side by side, so that `list` and `added` need not read them one after the
        other. Does nothing where that takes longer, and raises nothing of ours: they read what is not fetched."""
        ...

    def list(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests of a snapshot, in the list's order; cached by location. Lists that are staged and not yet
        flushed come from memory. v1 snapshots with inline manifests work as well."""
        ...

    def added(self, snapshot: Snapshot) -> Sequence[ManifestFile] | None:
        """The manifests that a snapshot added, if they come first in its list and hold only added data files, as many
        as its summary says (`added-data-files`); the rest of the list is not read then. None: read the whole list."""
        ...

    def entries(
        self, files: Iterable[ManifestFile], keep: Callable[[ManifestEntry], bool] | None = None
    ) -> Iterator[ManifestEntry]:
        """The entries of manifests, with inherited snapshot ids and sequence numbers filled in (spec: inheritance).
        keep: a filter."""
        ...

    def read(self, files: Iterable[ManifestFile]) -> Iterator[tuple[ManifestFile, Iterable[ManifestEntry]]]:
        """Manifests, in their order, each with its entries as `entries` gives them. Several are read at once; they are
        decoded while their entries are iterated, which can be done more than once."""
        ...

    def candidates(self, files: Iterable[ManifestFile], keys: Collection[str]) -> Sequence[ManifestFile]:
        """The manifests that may have a live data file with one of these keys (`format.locations.file_key`), in their
        order: all that have one, and seldom another. A driver remembers which files a manifest has, so that it reads
        each manifest once for that."""
        ...

    def naming(self, files: Iterable[ManifestFile], texts: Collection[str]) -> Sequence[ManifestFile]:
        """The manifests that may have a file with one of these texts in its path, in their order: all that have one,
        and perhaps others. A driver looks for the texts in the bytes, a hundred times as fast as `entries`."""
        ...

    def write(
        self,
        metadata: TableMetadata,
        schema: Schema,
        spec: PartitionSpec,
        snapshot_id: int,
        entries: Iterable[ManifestEntry],
    ) -> Sequence[ManifestFile]:
        """Write entries as new manifest files of the table's format version; they are on disk when this returns. Their
        sequence numbers are unassigned until a list with them is staged, so replays reuse them."""
        ...

    def stage_list(self, metadata: TableMetadata, snapshot: Snapshot, files: Sequence[ManifestFile]) -> str:
        """Encode a new manifest list and return its location (a name never used before). `snapshot` has the id, parent,
        sequence number and, for v3, first-row-id. `list` reads it at once; `flush` writes it to disk. Manifests
        without a sequence number get the snapshot's."""
        ...

    def flush(self) -> Sequence[str]:
        """Write the staged lists, in parallel, and verify their lengths. Returns their locations."""
        ...

    def discard(self, locations: Iterable[str]) -> None:
        """Drop staged lists that no metadata will name, so that `flush` does not write them."""
        ...


class Change(Protocol):
    """Assumptions plus pending changes."""

    @property
    def identity(self) -> ChangeIdentity: ...

    def check(self, base: TableMetadata | None) -> None:
        """Compare the assumptions with the table's current metadata; `None` means that the table does not exist.
        Raises RequirementFailed with the assumption's name, the expected and the found value."""
        ...

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:
        """The updates that apply the change to this base. Raises RequirementFailed, InvalidInput, StorageError;
        CommitStateUnknown if files of the change are already in the table."""
        ...


def _key(file: str | DataFile) -> str:
    return file_key(file if isinstance(file, str) else file.file_path)


def _delete_key(delete_file: DataFile) -> tuple[str, int]:
    offset = delete_file.content_offset
    return _key(delete_file), -1 if offset is None else offset
