"""What must hold after every step, whatever went wrong before.

Each invariant is a named predicate. It returns None when it holds, else one line that says what it found. A step is
whatever changes what a predicate sees: a move of the pointer, the deletion of a file, an answer to a client, the end.

    pointer-is-whole          what the pointer names is there, with all that it names in turn
    acknowledged-is-there     an acknowledged change is in the table, once
    nothing-twice             no change is in the table twice, acknowledged or not
    resent-is-known           a change that is sent again and is in the table is not refused for what it is
    refused-is-absent         a change that was answered as failed is not in the table, then or later
    one-chain                 every branch is one line of snapshots to its root, and our swaps follow what they replace
    assumption-held           a change lands only where what it assumed holds
    nothing-needed-deleted    no file goes that the current metadata names
    answered                  at rest every client of a living process has its answer
    lock-given-back           at rest no living process has a lock entry
    all-committed             where nothing goes wrong, nothing fails
    comes-to-rest             no deadlock, and an end within bounds (by the scheduler)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from iceberg_hms.format import metadata_file
from iceberg_hms.format.metadata import TableMetadata
from iceberg_hms.format.snapshot import Snapshot
from iceberg_hms.testing.simulation.faults import short
from iceberg_hms.testing.simulation.history import Attempt, History, Kind, Told
from iceberg_hms.testing.simulation.metastore import Moved
from iceberg_hms.testing.simulation.storage import Storage


@dataclass(frozen=True)
class TableState:
    """What the pointer names, read once for each move.

    metadata: None if its file is missing or broken.
    chain: main's snapshots, newest first. live: how often main's manifests have each data file.
    needed: all files that the metadata names, directly or not. missing: those of them that are not there.
    """

    location: str
    metadata: TableMetadata | None
    chain: tuple[Snapshot, ...] = ()
    live: Counter[str] = field(default_factory=Counter)
    needed: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()

    @classmethod
    def read(cls, storage: Storage, location: str) -> TableState:
        """The state behind a location, as far as it can be read."""
        data = storage.files.get(location)
        if data is None:
            return cls(location, None, missing=(location,), needed=frozenset((location,)))
        metadata = metadata_file.decode(data, location)
        needed = {location}
        logged = {entry["metadata-file"] for entry in metadata.metadata_log}
        for snapshot in metadata.snapshots:
            needed |= _named_by(storage, snapshot)
        chain = tuple(metadata.ancestors(metadata.current_snapshot_id)) if metadata.current_snapshot_id else ()
        live: Counter[str] = Counter()
        if chain:
            for manifest in storage.store.lists.get(chain[0].manifest_list or "", ()):
                entries = storage.store.manifests.get(manifest.manifest_path, ())
                live.update(entry.data_file.file_path for entry in entries)
        missing = tuple(sorted(each for each in needed if not storage.exists(each)))
        return cls(location, metadata, chain, live, frozenset(needed | logged), missing)

    def has(self, attempt: Attempt) -> bool:
        """Whether an attempt is in the table, in any way."""
        if self.metadata is None:
            return False
        if attempt.snapshot_id is not None:
            return self.metadata.snapshot_by_id(attempt.snapshot_id) is not None
        return attempt.mark in self.metadata.properties

    def has_well(self, attempt: Attempt) -> bool:
        """Whether an attempt is in the table as its client wanted it."""
        if self.metadata is None:
            return False
        if attempt.snapshot_id is not None:
            on_main = any(snapshot.snapshot_id == attempt.snapshot_id for snapshot in self.chain)
            return on_main and self.live[attempt.data_file or ""] == 1
        ref = self.metadata.refs.get(attempt.ref[0]) if attempt.ref else None
        ref_is_right = attempt.ref is None or (ref is not None and ref.snapshot_id == attempt.ref[1])
        return attempt.mark in self.metadata.properties and ref_is_right


def _named_by(storage: Storage, snapshot: Snapshot) -> set[str]:
    named = {snapshot.manifest_list or ""}
    for manifest in storage.store.lists.get(snapshot.manifest_list or "", ()):
        named.add(manifest.manifest_path)
        named.update(entry.data_file.file_path for entry in storage.store.manifests.get(manifest.manifest_path, ()))
    return named


@dataclass(frozen=True)
class View:
    """What a predicate sees.

    before, now: the table before and after the last move. moved: the last move, if this step is one.
    deleted: the file that is about to go, if this step is a deletion.
    kept: the kinds of writers whose acknowledged changes must be kept. at_rest: nothing runs any more.
    alive: processes that did not crash. locks: the processes that have lock entries. all_commit: none may fail.
    """

    now: TableState
    history: History
    before: TableState | None = None
    moved: Moved | None = None
    deleted: str | None = None
    kept: frozenset[Kind] = frozenset((Kind.OURS,))
    at_rest: bool = False
    alive: frozenset[str] = frozenset()
    locks: tuple[str, ...] = ()
    all_commit: bool = False
    ours: frozenset[str] = frozenset()


def pointer_is_whole(view: View) -> str | None:
    if view.now.missing:
        return f"{_file(view.now.location)} names {', '.join(map(_file, view.now.missing))}, which is not there"
    return None


def acknowledged_is_there(view: View) -> str | None:
    for wish, attempts in view.history.by_wish().items():
        acknowledged = [each for each in attempts if each.told is Told.COMMITTED and each.kind in view.kept]
        if acknowledged and not any(view.now.has_well(each) for each in attempts):
            return f"{wish} was acknowledged, and is not in {_file(view.now.location)}"
    return None


def nothing_twice(view: View) -> str | None:
    for wish, attempts in view.history.by_wish().items():
        present = [each for each in attempts if view.now.has(each)]
        if len(present) > 1:
            return f"{wish} is in {_file(view.now.location)} {len(present)} times"
    for path, count in view.now.live.items():
        if count > 1:
            return f"{_file(path)} is in {_file(view.now.location)} {count} times"
    return None


def refused_is_absent(view: View) -> str | None:
    for attempt in view.history.attempts:
        if attempt.told is Told.FAILED and view.now.has(attempt):
            return f"{attempt.wish} was answered as failed, and is in {_file(view.now.location)}"
    return None


def resent_is_known(view: View) -> str | None:
    denied = [attempt.wish for attempt in view.history.attempts if attempt.denied and view.now.has(attempt)]
    return f"{', '.join(denied)} is in the table, was sent again, and was refused" if denied else None


def one_chain(view: View) -> str | None:
    metadata = view.now.metadata
    if metadata is None:
        return None
    for name, ref in metadata.refs.items():
        chain = list(metadata.ancestors(ref.snapshot_id))
        if not chain or chain[-1].parent_id is not None:
            return f"{name} does not reach the root of its history"
        numbers = [snapshot.sequence_number for snapshot in chain]
        if numbers != sorted(set(numbers), reverse=True):
            return f"{name} has sequence numbers {numbers}, newest first"
    on_main = {snapshot.snapshot_id for snapshot in view.now.chain}
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in on_main:
            return f"snapshot {snapshot.snapshot_id} is beside main's history"
    moved = view.moved
    if moved is not None and moved.process in view.ours and moved.replaced is not None:
        log = metadata.metadata_log
        follows = log[-1]["metadata-file"] if log else None
        if follows != moved.replaced:
            return f"{_file(view.now.location)} follows {_file(follows or '')}, and replaced {_file(moved.replaced)}"
    return None


def assumption_held(view: View) -> str | None:
    if view.moved is None or view.before is None or view.now.metadata is None:
        return None
    for attempt in view.history.attempts:
        cares, assumed = attempt.assumes_main
        if not cares or view.before.has(attempt) or not view.now.has(attempt):
            continue
        before = view.before.chain[0].snapshot_id if view.before.chain else None
        passed = [snapshot.snapshot_id for snapshot in view.now.chain]
        newer = passed[: passed.index(before)] if before in passed else passed
        if assumed != before and assumed not in newer:
            return f"{attempt.wish} assumed {assumed} on main, and landed on {before}"
    return None


def nothing_needed_deleted(view: View) -> str | None:
    if view.deleted is not None and view.deleted in view.now.needed:
        return f"{_file(view.deleted)} is deleted, and {_file(view.now.location)} needs it"
    return None


def answered(view: View) -> str | None:
    if not view.at_rest:
        return None
    waiting = [each.wish for each in view.history.attempts if each.told is Told.NOTHING and each.writer in view.alive]
    return f"no answer to {', '.join(waiting)}" if waiting else None


def lock_given_back(view: View) -> str | None:
    left = [process for process in view.locks if process in view.alive] if view.at_rest else []
    return f"{', '.join(left)} lives, has ended its work and still has the lock" if left else None


def all_committed(view: View) -> str | None:
    if not (view.at_rest and view.all_commit):
        return None
    failed = [each.wish for each in view.history.attempts if each.told is not Told.COMMITTED and each.snapshot_id]
    return f"nothing went wrong, and yet {', '.join(failed)} did not commit" if failed else None


@dataclass(frozen=True, slots=True)
class Invariant:
    """name: for messages. predicate: what it found, or None."""

    name: str
    predicate: Callable[[View], str | None]


INVARIANTS: tuple[Invariant, ...] = (
    Invariant("pointer-is-whole", pointer_is_whole),
    Invariant("nothing-needed-deleted", nothing_needed_deleted),
    Invariant("refused-is-absent", refused_is_absent),
    Invariant("resent-is-known", resent_is_known),
    Invariant("acknowledged-is-there", acknowledged_is_there),
    Invariant("nothing-twice", nothing_twice),
    Invariant("one-chain", one_chain),
    Invariant("assumption-held", assumption_held),
    Invariant("answered", answered),
    Invariant("lock-given-back", lock_given_back),
    Invariant("all-committed", all_committed),
)


def broken(view: View) -> str | None:
    """The first invariant that does not hold, with what it found."""
    for invariant in INVARIANTS:
        found = invariant.predicate(view)
        if found is not None:
            return f"{invariant.name}: {found}"
    return None


def _file(location: str) -> str:
    return short(location) or "nothing"
