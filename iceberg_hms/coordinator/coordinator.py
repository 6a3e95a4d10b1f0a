"""The door: changes go in, reports or errors come out.

One queue a table. Its worker starts when the first change arrives, takes what is waiting as one group, and ends when
the queue is empty; so a table that nobody writes to costs nothing, and writers that come while a swap is under way
share the next one.

Between two groups the worker looks after those who would lose otherwise: it deletes what clients left behind
(`leftovers`), lets the table rest for a foreign writer (`pauses`), waits for whose turn it is (`turns`), or else, for a
moment, for the callers that it has just answered.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from iceberg_hms.changes.change import Change
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.log_and_continue import REPORT, SWEEP, log_and_continue
from iceberg_hms.coordinator.ports import CommitPorts, TableName, ThreadEvent
from iceberg_hms.coordinator.protocol.already_committed import AlreadyCommitted, LookupSources
from iceberg_hms.coordinator.protocol.catalog_operations import CatalogOperations
from iceberg_hms.coordinator.protocol.commit_group import GroupCommit, TableHints, broke_off
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.coordinator.protocol.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.protocol.pending_commit import Failed, PendingCommit, Unknown
from iceberg_hms.coordinator.protocol.replaced_lists import ReplacedLists
from iceberg_hms.coordinator.protocol.sent_swaps import SentSwaps
from iceberg_hms.coordinator.protocol.uuid_lookup import UuidLookup
from iceberg_hms.coordinator.scheduling.batching_window import BatchingWindow
from iceberg_hms.coordinator.scheduling.foreign_writer_backoff import ForeignWriterBackoff
from iceberg_hms.coordinator.scheduling.retry_priority import RetryPriority
from iceberg_hms.coordinator.scheduling.returning_clients import ReturningClients
from iceberg_hms.coordinator.scheduling.table_workers import TableWorkers
from iceberg_hms.errors import QueueFull

logger = logging.getLogger(__name__)

#: Of how many tables it is remembered how their groups fared.
TABLES_MAX = 10_000

#: How long one whose time is over is given to leave the queue by itself.
LEAVING_SECONDS = 0.1


@dataclass(slots=True)
class _Queue:
    """A table's waiting members. It exists while its worker runs.

    arrived: set when a member comes while the worker waits, and `wanted` are there then."""

    members: list[tuple[PendingCommit, int]] = field(default_factory=list)
    bytes: int = 0
    arrived: ThreadEvent | None = None
    wanted: int = 1

    def let_go(self) -> None:
        """Drop those whose callers have left."""
        left = [entry for entry in self.members if entry[0].withdrawn]
        if left:
            self.members = [entry for entry in self.members if not entry[0].withdrawn]
            self.bytes -= sum(size for _, size in left)


@dataclass(slots=True)
class _Known:
    """What the groups of a table leave to the next ones. left_until: nothing is sent before, by `Runtime.now()`."""

    habit: TableHints
    turns: RetryPriority
    pauses: ForeignWriterBackoff
    leftovers: ReplacedLists
    gathering: BatchingWindow
    left_until: float = 0.0


class Coordinator:
    """Commits changes to tables. Safe for threads; several coordinators on one table are safe too."""

    def __init__(self, world: CommitPorts, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._mutex = self._world.runtime.mutex()
        self._queues: dict[TableName, _Queue] = {}
        self._known: OrderedDict[TableName, _Known] = OrderedDict()
        self._cache = MetadataCache(
            world.files,
            world.runtime,
            max_bytes=settings.metadata_cache_max_bytes,
            read_retries=settings.metadata_refresh_max_retries,
        )
        whereabouts = UuidLookup(world, self._cache, settings)
        self._elsewhere = LookupSources(whereabouts.find, self._cache.peek, SentSwaps(world.runtime))
        self._senders = ReturningClients(world.runtime)
        self._workers = TableWorkers(world.runtime, settings.commit_threads)
        #: Create, register, rename, drop.
        self.operations = CatalogOperations(world, self._cache, settings, whereabouts)

    def load(self, name: TableName) -> TableVersion:
        """The table as it is now: one metastore call, and the metadata from the cache or its file.

        Raises NoSuchTable, NotAnIcebergTable, MissingFile, CorruptFile, MetastoreError, StorageError.
        """
        pointer = self._world.pointer.load(name)
        return TableVersion(pointer, self._cache.get(pointer.metadata_location))

    def commit(self, name: TableName, change: Change, *, wait_seconds: float, size: int = 0) -> CommitReport:
        """Commit a change to a table that is there; returns when it is in the table.

        wait_seconds: for how long the caller waits for its turn and for the lock. A change whose swap was sent waits
        for its outcome, however long.
        size: the bytes that the change holds in the queue.
        Raises NoSuchTable, NotAnIcebergTable, InvalidInput; CommitFailed and its subtypes when it is proved that
        nothing was changed; CommitStateUnknown when it is not known (delete nothing); QueueFull, MetastoreError and
        StorageError before anything was sent.
        """
        return self.submit(name, change, wait_seconds=wait_seconds, size=size).wait()

    def submit(self, name: TableName, change: Change, *, wait_seconds: float, size: int = 0) -> PendingCommit:
        """Queue a change and return at once: `commit` for callers that must not block.

        The caller calls `PendingCommit.withdraw` when `wait_seconds` are over, and `PendingCommit.result`, which raises
        as `commit`, when it is settled; `result` blocks for one that was withdrawn. Raises QueueFull."""
        doubts = AlreadyCommitted(name, lambda: self.load(name).metadata, self._elsewhere)
        member = PendingCommit(self._world.runtime, change, wait_seconds, doubts)
        if self._enqueue(name, member, size):
            try:
                self._workers.start(name, lambda: self._step(name), lambda error: self._fail_queue(name, error))
            except Exception as error:
                raise self._fail_queue(name, error) from error
        return member

    def _fail_queue(self, name: TableName, error: Exception) -> QueueFull:
        """Answer whoever is in a queue that has no worker, because no thread could be had for it, or because the worker
        could not go on. The next commit tries again. Returns what they are told."""
        full = QueueFull(f"nobody works on the commits to {name}: {error.__class__.__name__}: {error}")
        with self._mutex:
            queue, known = self._queues.pop(name, _Queue()), self._known.pop(name, None)
        for member, _ in queue.members:
            member.settle(Failed(full))
        for member in known.turns.let_go() if known is not None else ():
            member.answer()
        return full

    def _enqueue(self, name: TableName, member: PendingCommit, size: int) -> bool:
        """True if the table has no worker yet."""
        with self._mutex:
            queue = self._queues.get(name)
            starts = queue is None
            if queue is None:
                queue = self._queues[name] = _Queue()
            if self._full(queue, size) and not self._is_waited_for(name, member):
                queue.let_go()
                if full := self._full(queue, size):
                    raise QueueFull(f"{full} are waiting for {name}")
            queue.members.append((member, size))
            queue.bytes += size
            if queue.arrived is not None and len(queue.members) >= queue.wanted:
                queue.arrived.set()
            return starts

    def _full(self, queue: _Queue, size: int) -> str:
        """What fills a queue so that no change of `size` bytes has room; empty if one has."""
        if len(queue.members) >= self._settings.queue_max_changes:
            return f"{len(queue.members)} commits"
        if queue.members and queue.bytes + size > self._settings.queue_max_bytes:
            return f"{queue.bytes} bytes of commits"
        return ""

    def _is_waited_for(self, name: TableName, member: PendingCommit) -> bool:
        """Whether the queue may be full because it is this one's turn. There are few of them (`turns.LOSERS_MAX`)."""
        known = self._known.get(name)
        return known is not None and known.turns.losses(member) > 0

    def _step(self, name: TableName) -> bool:
        """Commit the next group of a table. False: there is none, and its queue has ended."""
        try:
            known = self._what_is_known(name)
            members = self._take(name, known)
            if members:
                self._commit_group(name, known, members)
            return bool(members)
        except Exception as error:  # whoever waits must hear of it, and the next commit begins anew
            logger.exception("the queue of %s broke off: its commits are refused, and may be sent again", name)
            self._fail_queue(name, error)
            return False

    def _commit_group(self, name: TableName, known: _Known, members: Sequence[PendingCommit]) -> None:
        world = self._world

        def keeps(member: PendingCommit) -> bool:
            return known.turns.keeps(member, world.runtime.now())

        try:
            group = GroupCommit(world, self._cache, self._settings, name, members, self._elsewhere, keeps)
            known.habit = group.run(known.habit)
        except Exception as error:  # a defect: whatever the group had sent, the next one must not wait for ever
            logger.exception("a group of %s ended without answers", name)
            self._answer_all(name, members, error)
        else:
            self._after_group(name, known, members, group)

    def _answer_all(self, name: TableName, members: Sequence[PendingCommit], error: Exception) -> None:
        """Answer those of a group that broke off who have no answer: nobody knows what became of them."""
        unknown = broke_off(name, error)
        for member in members:
            if member.outcome is None:
                member.decide(Unknown(unknown))
            member.answer()

    def _after_group(
        self, name: TableName, known: _Known, members: Sequence[PendingCommit], group: GroupCommit
    ) -> None:
        if group.left_seconds:
            known.left_until = self._world.runtime.now() + group.left_seconds
        location = known.habit.last_location
        with log_and_continue(f"deleting what clients left of {name}", SWEEP):
            known.leftovers.add(group.leftovers)
            known.leftovers.settled(members)
            if location is not None:
                known.leftovers.sweep(lambda: self._cache.get(location))
        rested = False
        with log_and_continue(f"leaving {name} to a foreign writer", REPORT):
            behind, moved = group.behind_foreign_writer, known.habit.lock_first
            rested = known.pauses.after_group(location, behind_foreign_writer=behind, moved=moved)
        if not rested and len(members) > 1:
            with log_and_continue(f"waiting for the writers of {name}", REPORT):
                self._gather(name, known.gathering, len(members), group.answered)

    def _gather(self, name: TableName, gathering: BatchingWindow, answered: int, since: float) -> None:
        """Wait for the callers that were answered and come back at once, for a bounded time. since: the first of them
        may have come since then."""
        expected = gathering.expected(answered)
        with self._mutex:
            queue = self._queues[name]
            others = sum(member.started < since for member, _ in queue.members)
            arrived = queue.arrived = self._world.runtime.event()
            queue.wanted = min(others + expected, self._settings.group_max_changes)
            if len(queue.members) >= queue.wanted:
                arrived.set()
        try:
            arrived.wait(self._settings.batching_window_ms / 1000)
        finally:
            with self._mutex:
                queue.arrived, queue.wanted = None, 1
                back = len(queue.members) - others
        gathering.came(back, expected, answered)

    def _what_is_known(self, name: TableName) -> _Known:
        with self._mutex:
            known = self._known.get(name)
            if known is None:
                pauses = ForeignWriterBackoff(self._world, self._settings, name)
                leftovers = ReplacedLists(self._world, self._settings)
                turns = RetryPriority(self._settings, self._senders)
                known = self._known[name] = _Known(TableHints(), turns, pauses, leftovers, BatchingWindow())
            self._known.move_to_end(name)
            while len(self._known) > TABLES_MAX:
                self._known.popitem(last=False)
            return known

    def _take(self, name: TableName, known: _Known) -> list[PendingCommit]:
        """The next group. An empty one ends the worker and its queue in the same instant."""
        try:
            return self._take_in_turn(name, known.turns, known.left_until)
        except Exception:
            logger.exception("nobody can tell whose turn it is on %s: its commits go on as they came; %s", name, REPORT)
        with self._mutex:
            kept, known.turns = known.turns.let_go(), RetryPriority(self._settings, self._senders)
            taken = self._cut(name, self._queues[name], known.turns)
        for member in kept:
            member.answer()
        return taken

    def _take_in_turn(self, name: TableName, turns: RetryPriority, left_until: float) -> list[PendingCommit]:
        """In arrival order, but for those that lost before; those that wait go on waiting while it is the turn of
        somebody who is not there yet, and until `left_until`: the last group's swap may still be made."""
        runtime = self._world.runtime
        held_since: float | None = None
        while True:
            with self._mutex:
                queue = self._queues[name]
                queue.arrived = None
                queue.let_go()
                members, now = [member for member, _ in queue.members], runtime.now()
                called = turns.call(members, now)
                turn = turns.seconds_to_wait(members, now)
                wait = max(turn, _seconds_left(members, now, left_until))
                if wait <= 0:
                    # In the same instant: who comes after this look may not be taken before somebody's turn.
                    taken = self._cut(name, queue, turns)
                else:
                    arrived = queue.arrived = runtime.event()
            for member in called:
                member.answer()
            if wait <= 0:
                break
            if members and turn > 0 and held_since is None:
                held_since = now
            arrived.wait(wait)
        if held_since is not None:
            with log_and_continue(f"telling listeners of {name}", REPORT):
                seconds = runtime.now() - held_since
                self._world.events.publish({"event": "retry-priority-wait", "table": name, "seconds": seconds})
        return taken

    def _cut(self, name: TableName, queue: _Queue, turns: RetryPriority) -> list[PendingCommit]:
        """Take a group out of a queue; called with the mutex."""
        queue.members.sort(key=lambda entry: -turns.losses(entry[0]))
        taken = queue.members[: self._settings.group_max_changes]
        queue.members = queue.members[self._settings.group_max_changes :]
        queue.bytes -= sum(size for _, size in taken)
        if not taken:
            del self._queues[name]
        return [member for member, _ in taken]


def _seconds_left(members: Sequence[PendingCommit], now: float, until: float) -> float:
    """How long to wait until a time, but no longer than anybody does; a moment, for those who leave just now."""
    if not members or now >= until:
        return 0.0
    return max(LEAVING_SECONDS, min(until, max(member.deadline for member in members)) - now)
