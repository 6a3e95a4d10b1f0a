"""The swaps that this process sent, one record of each: what it carries, and whether it may still be made. And the
commits that wait to be sent.

Everything that depends on a sent swap asks its record:

    may a caller leave?        only if no swap carries its change, but such as are proved absent (`PendingCommit`)
    was the change refused?    only if no swap that carries it may still be made, or be sent: clients, proxies and
                               balancers send a commit again while its first send is under way (`SentSwaps.doubt`)
    may a file be deleted?     only if no sent swap names it (`GroupFiles`)
    which number is next?      one beyond those under which readers may have seen its snapshots (`highest_number`)
    may the next group begin?  not while a swap that only its lock protects may be made over it (`blocked_until`)

An earlier process, such as this server before its restart, may have sent swaps that this one has no record of. Two
facts exclude that such a swap is made after a change was refused:

    the change is newer        this process made it itself, or its client did after this process began to remember;
    the table was fenced       a swap of this process landed where every swap compares atomically, or found that another
                               one had. It gave the table a metadata location that was never used before, so each older
                               swap finds another location than it expects. A group that cannot refuse a change
                               otherwise makes such a swap for no other purpose (`commit_group`), at most once for each
                               table and process.

Another *living* server of ours may have sent the change as well, if a balancer sends a client's second try there. The
docs tell operators to prevent that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from iceberg_hms.changes.change import ChangeIdentity
from iceberg_hms.clock import CLOCK_SKEW_MS
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.ports import Pointer, Refused, Runtime, SwapAnswer, TableName, Unanswered
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: How many snapshots of open swaps a process remembers, and how many tables that it fenced.
REMEMBERED_MAX: Final = 50_000


@dataclass(slots=True, eq=False)
class SentSwap:
    """A swap that was sent, or is about to be.

    name: the table's. base: the metadata location that the swap replaces. fences: it was sent under a promise that
    every swap of this table compares atomically.
    carries: what its changes are recognized by: snapshot ids, and jobs' idempotency keys.
    files: which the table names once it is made. last_sequence_number: of its metadata. uuid: the table's.
    answer: of the metastore; None: not answered yet, or never sent.
    status: SUCCESS: it was made. FAILURE: it was not, and never will be. UNKNOWN: it may have been, or may still be.
    may_land_until: how long it may be made over later commits, by `Runtime.now()`; only where nothing but its lock
    protects the table, and only if its outcome is unknown.
    order: among all events that `SentSwaps` knows. sent_ms: when it was sent, by the wall clock.
    """

    name: TableName
    base: str
    fences: bool = False
    carries: frozenset[int | str] = frozenset()
    files: frozenset[str] = frozenset()
    last_sequence_number: int = 0
    uuid: str | None = None
    answer: SwapAnswer | None = None
    status: CommitStatus = CommitStatus.UNKNOWN
    may_land_until: float = 0.0
    order: int = 0
    sent_ms: int = 0

    @property
    def is_atomic(self) -> bool:
        """Whether it can be made only while the table is at its base."""
        return self.fences or (isinstance(self.answer, Unanswered) and self.answer.atomic)

    @property
    def was_sent(self) -> bool:
        """Whether it left this process, or may have."""
        return self.answer is not None or self.status is not CommitStatus.FAILURE

    @property
    def may_have_been_undone(self) -> bool:
        """Whether it may have been in the table for a while, and may not be there now."""
        if self.status is CommitStatus.FAILURE:
            return self.was_sent and not isinstance(self.answer, Refused)
        return self.status is CommitStatus.UNKNOWN


class Carried(Protocol):
    """A commit that a swap is to carry."""

    @property
    def carries(self) -> frozenset[int | str]:
        """What its change is recognized by."""
        ...

    @property
    def waits(self) -> bool:
        """Whether it may still be sent: it has no outcome, and its caller waits."""
        ...

    def take(self, swap: SentSwap) -> bool:
        """Note that the swap carries it. False: its caller has left."""
        ...


class SentSwaps:
    """Safe for threads."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._mutex = runtime.mutex()
        #: The commits that wait, by what they carry.
        self._waiting: dict[int | str, list[Carried]] = {}
        #: The swaps whose status is unknown, by what they carry.
        self._open: OrderedDict[int | str, list[SentSwap]] = OrderedDict()
        #: The snapshots of swaps that were made, and when those were sent (wall clock, milliseconds).
        self._landed: OrderedDict[int | str, int] = OrderedDict()
        #: The highest sequence numbers under which snapshots may have been in the table, and are not now.
        self._numbers: OrderedDict[int | str, int] = OrderedDict()
        #: Swaps that may be made over later commits.
        self._lock_protected: dict[TableName, SentSwap] = {}
        #: By the tables' UUIDs: the order of the last swap by which this process fenced them.
        self._fenced: OrderedDict[str, int] = OrderedDict()
        self._events = 0
        self._complete_since_ms = runtime.now_ms()
        self._has_forgotten = False
        self._began = runtime.now()

    def add_waiting(self, commit: Carried) -> None:
        """Record a commit before it is queued; `remove_waiting` must follow."""
        with self._mutex:
            for each in commit.carries:
                self._waiting.setdefault(each, []).append(commit)

    def remove_waiting(self, commit: Carried) -> None:
        """Record that a commit waits no longer, if it did."""
        with self._mutex:
            for each in commit.carries:
                others = [other for other in self._waiting.pop(each, ()) if other is not commit]
                if others:
                    self._waiting[each] = others

    def send(self, swap: SentSwap, commits: Iterable[Carried]) -> bool:
        """Record a swap just before it is sent. False: a caller left meanwhile, so it must not be sent."""
        taken = [commit.take(swap) for commit in commits]
        if not all(taken):
            swap.status = CommitStatus.FAILURE
            return False
        with self._mutex:
            swap.order, swap.sent_ms = self._next(), self._runtime.now_ms()
            for each in swap.carries:
                self._open[each] = [*self._open.pop(each, ()), swap]
            while len(self._open) > REMEMBERED_MAX:
                _, forgotten = self._open.popitem(last=False)
                self._forget(forgotten[-1].sent_ms)
        return True

    def settle(
        self, swap: SentSwap, status: CommitStatus, answer: SwapAnswer | None = None, *, lock_stays_seconds: float = 0.0
    ) -> None:
        """Record what became of a swap. lock_stays_seconds: how long its lock does, since it may still be made."""
        with self._mutex:
            swap.answer, swap.status = answer, status
            if swap.may_have_been_undone:
                self._note_number(swap)
            if lock_stays_seconds:
                swap.may_land_until = self._runtime.now() + lock_stays_seconds
                self._lock_protected[swap.name] = swap
            if status is CommitStatus.UNKNOWN:
                return
            for each in swap.carries:
                self._close(each, swap)
            if status is CommitStatus.SUCCESS:
                self._note_landed(swap)

    def highest_number(self, commits: Iterable[Carried]) -> int:
        """The highest sequence number of a metadata file with these commits that may have been the table's, and is not
        now; 0 if there is none. A reader of it knows their snapshots, which may come again under the same ids."""
        with self._mutex:
            return max((self._numbers.get(each, 0) for commit in commits for each in commit.carries), default=0)

    def _note_number(self, swap: SentSwap) -> None:
        for each in swap.carries:
            self._numbers[each] = max(self._numbers.pop(each, 0), swap.last_sequence_number)
        while len(self._numbers) > REMEMBERED_MAX:
            self._numbers.popitem(last=False)

    def _close(self, carried: int | str, swap: SentSwap) -> None:
        others = [other for other in self._open.get(carried, ()) if other is not swap]
        if others:
            self._open[carried] = others
        else:
            self._open.pop(carried, None)

    def _note_landed(self, swap: SentSwap) -> None:
        for each in swap.carries:
            # Only the table tells of a job's key: another run may add other snapshots under it.
            if isinstance(each, int):
                self._landed[each] = swap.sent_ms
                self._landed.move_to_end(each)
        while len(self._landed) > REMEMBERED_MAX:
            self._forget(self._landed.popitem(last=False)[1])
        if swap.fences:
            self._note_fence(swap.uuid)

    def note_fence(self, uuid: str | None) -> None:
        """Record that a table whose swaps all compare was seen to move: it is where no swap of an earlier process
        expects it."""
        with self._mutex:
            self._note_fence(uuid)

    def _note_fence(self, uuid: str | None) -> None:
        if uuid is not None:
            self._fenced[uuid] = self._next()
            self._fenced.move_to_end(uuid)
            if len(self._fenced) > REMEMBERED_MAX:
                self._fenced.popitem(last=False)

    def _forget(self, sent_ms: int) -> None:
        self._complete_since_ms = max(self._complete_since_ms, sent_ms)
        self._has_forgotten = True

    def moment(self) -> int:
        """Now, for `doubt`: take it before the table is loaded."""
        with self._mutex:
            return self._events

    def doubt(
        self,
        identity: ChangeIdentity,
        row: Pointer,
        metadata: TableMetadata,
        *,
        moment: int | None = None,
        group: Collection[Carried] = (),
    ) -> str | None:
        """Why a change that the table lacks was in it, or may still come into it, by a sent swap. None: neither.

        row, metadata: the table. moment: before it was loaded; None: nothing was sent since then but by the caller, on
        what was loaded. group: commits that are refused with it."""
        with self._mutex:
            if self._another_waits(identity, group):
                return "it was sent twice, and the other one still waits for its turn"
            if any(id_ in self._landed for id_ in identity.snapshot_ids):
                return "this process committed it before"
            for swap in self._open_with(identity):
                if row.previous_metadata_location in swap.files:
                    # The metadata of a registration over the table does not tell what it replaced; the row does.
                    return f"the table had it in {row.previous_metadata_location}, until another file was registered"
                known_at = self._events if moment is None else moment
                if not (swap.is_atomic and swap.base != row.metadata_location and swap.order <= known_at):
                    return f"a swap with it was sent from {swap.base}, and may still be made"
            if self.would_know(identity):
                return None
            fenced = self._fenced.get(metadata.uuid or "")
            if fenced is not None and (moment is None or fenced <= moment):
                return None
            return "its client made it before this process began, and an earlier process may have sent it"

    def can_be_excluded(self, identity: ChangeIdentity, group: Collection[Carried] = ()) -> bool:
        """Whether one more swap, compared atomically, would end the doubt."""
        with self._mutex:
            return not self._another_waits(identity, group) and all(
                swap.is_atomic for swap in self._open_with(identity)
            )

    def has(self, identity: ChangeIdentity, group: Collection[Carried] = ()) -> bool:
        """Whether this process sent a swap with a change which was made, or may have been, or may send one still."""
        with self._mutex:
            return (
                any(id_ in self._landed for id_ in identity.snapshot_ids)
                or bool(self._open_with(identity))
                or self._another_waits(identity, group)
            )

    def made(self, snapshot_id: object) -> bool:
        """Whether this process committed a snapshot, as far as it remembers."""
        with self._mutex:
            return snapshot_id in self._landed

    def would_know(self, identity: ChangeIdentity) -> bool:
        """Whether this process knows of all swaps that can have been sent since a change was made. A client's clock
        may be ahead: what is further in the future was refused, unless the table was as well."""
        if identity.client_base is None:
            # This process chose the snapshot ids.
            return True
        if identity.client_base.made_here and not self._has_forgotten:
            return True
        made = identity.client_base.timestamp_ms
        now = self._runtime.now_ms()
        # A clock that was behind when the process began has been put right since.
        began = now - int((self._runtime.now() - self._began) * 1000)
        since = max(self._complete_since_ms, began)
        return made is not None and since + CLOCK_SKEW_MS < made <= now + CLOCK_SKEW_MS

    def blocked_until(self, name: TableName) -> float:
        """Until when, by `Runtime.now()`, a swap may be made over later commits to a table; 0: none may."""
        with self._mutex:
            swap = self._lock_protected.get(name)
            if swap is None:
                return 0.0
            if swap.may_land_until <= self._runtime.now():
                del self._lock_protected[name]
                return 0.0
            return swap.may_land_until

    def _next(self) -> int:
        self._events += 1
        return self._events

    def _another_waits(self, identity: ChangeIdentity, group: Collection[Carried]) -> bool:
        waiting = [commit for each in carried_by(identity) for commit in self._waiting.get(each, ())]
        return any(commit.waits and commit not in group for commit in waiting)

    def _open_with(self, identity: ChangeIdentity) -> Sequence[SentSwap]:
        return [swap for each in carried_by(identity) for swap in self._open.get(each, ())]


def carried_by(identity: ChangeIdentity) -> frozenset[int | str]:
    """What a change is recognized by: its snapshot ids, and its job's key."""
    key = identity.idempotency_key
    return frozenset(identity.snapshot_ids) if key is None else frozenset((*identity.snapshot_ids, key))
