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

from iceberg_hms import forks
from iceberg_hms.changes.change import Change
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.bases import Base, MetadataCache
from iceberg_hms.coordinator.doubts import Doubts
from iceberg_hms.coordinator.gathering import Gathering
from iceberg_hms.coordinator.group import GroupCommit, Habit
from iceberg_hms.coordinator.leftovers import Leftovers
from iceberg_hms.coordinator.member import Failed, Member, Unknown
from iceberg_hms.coordinator.moves import Moves
from iceberg_hms.coordinator.pauses import Pauses
from iceberg_hms.coordinator.ports import Event, TableName
from iceberg_hms.coordinator.report import CommitReport
from iceberg_hms.coordinator.senders import Senders
from iceberg_hms.coordinator.turns import Turns
from iceberg_hms.coordinator.world import World
from iceberg_hms.errors import CommitStateUnknown, QueueFull

logger = logging.getLogger(__name__)

#: Of how many tables it is remembered how their groups fared.
TABLES_MAX = 10_000


@dataclass(slots=True)
class _Queue:
    """A table's waiting members. It exists while its worker runs.

    arrived: set when a member comes while the worker waits, and `wanted` are there then."""

    members: list[tuple[Member, int]] = field(default_factory=list)
    bytes: int = 0
    arrived: Event | None = None
    wanted: int = 1

    def let_go(self) -> None:
        """Drop those whose callers have left."""
        left = [entry for entry in self.members if entry[0].withdrawn]
        if left:
            self.members = [entry for entry in self.members if not entry[0].withdrawn]
            self.bytes -= sum(size for _, size in left)


@dataclass(slots=True)
class _Known:
    """What the groups of a table leave to the next ones."""

    habit: Habit
    turns: Turns
    pauses: Pauses
    leftovers: Leftovers
    gathering: Gathering


class Coordinator:
    """Commits changes to tables. Safe for threads; several coordinators on one table are safe too."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self.begin_in_forked_child()
        forks.tell(self)
        self._cache = MetadataCache(
            world.files,
            world.runtime,
            max_bytes=settings.metadata_cache_max_bytes,
            read_retries=settings.metadata_refresh_max_retries,
        )
        self._senders = Senders(world.runtime)
        #: Create, register, rename, drop.
        self.moves = Moves(world, self._cache, settings)

    def begin_in_forked_child(self) -> None:
        """The parent's queues are worked on by threads that are not in the child."""
        self._mutex = self._world.runtime.mutex()
        self._queues: dict[TableName, _Queue] = {}
        self._known: OrderedDict[TableName, _Known] = OrderedDict()

    def load(self, name: TableName) -> Base:
        """The table as it is now: one metastore call, and the metadata from the cache or its file.

        Raises NoSuchTable, NotAnIcebergTable, MissingFile, CorruptFile, MetastoreError, StorageError.
        """
        pointer = self._world.pointer.load(name)
        return Base(pointer, self._cache.get(pointer.metadata_location))

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

    def submit(self, name: TableName, change: Change, *, wait_seconds: float, size: int = 0) -> Member:
        """Queue a change and return at once: `commit` for callers that must not block. They call `Member.withdraw` when
        `wait_seconds` are over, and `Member.result`, which raises as `commit`, when it is settled; it blocks for one
        that was withdrawn. Raises QueueFull."""
        doubts = Doubts(name, lambda: self.load(name).metadata, self._cache.get)
        member = Member(self._world.runtime, change, wait_seconds, doubts)
        if self._enqueue(name, member, size):
            try:
                self._world.runtime.spawn(f"commit {name}", lambda: self._drain(name))
            except Exception as error:
                self._fail_queue(name, error)
                raise
        return member

    def _fail_queue(self, name: TableName, error: Exception) -> None:
        """Answer whoever is in a queue that has no worker, because no thread could be had for it. The next commit tries
        again."""
        with self._mutex:
            queue = self._queues.pop(name)
        for member, _ in queue.members:
            member.settle(Failed(error))

    def _enqueue(self, name: TableName, member: Member, size: int) -> bool:
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

    def _is_waited_for(self, name: TableName, member: Member) -> bool:
        """Whether the queue may be full because it is this one's turn. There are few of them (`turns.LOSERS_MAX`)."""
        known = self._known.get(name)
        return known is not None and known.turns.losses(member) > 0

    def _drain(self, name: TableName) -> None:
        known = self._what_is_known(name)
        runtime = self._world.runtime
        while members := self._take(name, known.turns):

            def keeps(member: Member) -> bool:
                return known.turns.keeps(member, runtime.now())

            group = GroupCommit(self._world, self._cache, self._settings, name, members, keeps)
            try:
                known.habit = group.run(known.habit)
            except Exception as error:  # a defect: whatever the group had sent, the next one must not wait for ever
                logger.exception("a group of %s ended without answers", name)
                self._answer_all(name, members, error)
                continue
            try:
                self._after_group(name, known, members, group)
            except Exception:  # the group is answered, and the next one must not wait for ever
                logger.exception("what follows a group of %s failed", name)

    def _answer_all(self, name: TableName, members: Sequence[Member], error: Exception) -> None:
        """Answer those of a group that broke off who have no answer: nobody knows what became of them."""
        unknown = CommitStateUnknown(f"the group of a commit to {name} broke off: {error.__class__.__name__}: {error}")
        for member in members:
            if member.outcome is None:
                member.decide(Unknown(unknown))
            member.answer()

    def _after_group(self, name: TableName, known: _Known, members: Sequence[Member], group: GroupCommit) -> None:
        location = known.habit.last_location
        known.leftovers.add(group.leftovers)
        known.leftovers.settled(members)
        if location is not None:
            known.leftovers.sweep(lambda: self._cache.get(location))
        behind, moved = group.behind_foreign, known.habit.lock_first
        rested = known.pauses.after_group(location, behind_foreign=behind, moved=moved)
        if not rested and len(members) > 1:
            self._gather(name, known.gathering, len(members), group.answered)

    def _gather(self, name: TableName, gathering: Gathering, answered: int, since: float) -> None:
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
        arrived.wait(self._settings.group_gather_ms / 1000)
        with self._mutex:
            queue.arrived, queue.wanted = None, 1
            back = len(queue.members) - others
        gathering.came(back, expected, answered)

    def _what_is_known(self, name: TableName) -> _Known:
        with self._mutex:
            known = self._known.get(name)
            if known is None:
                pauses = Pauses(self._world, self._settings, name)
                leftovers = Leftovers(self._world, self._settings)
                turns = Turns(self._settings, self._senders)
                known = self._known[name] = _Known(Habit(), turns, pauses, leftovers, Gathering())
            self._known.move_to_end(name)
            while len(self._known) > TABLES_MAX:
                self._known.popitem(last=False)
            return known

    def _take(self, name: TableName, turns: Turns) -> list[Member]:
        """The next group, in arrival order, but for those that lost before; those that wait go on waiting while it is
        the turn of somebody who is not there yet. An empty group ends the worker and its queue in the same instant."""
        runtime = self._world.runtime
        held_since: float | None = None
        while True:
            with self._mutex:
                queue = self._queues[name]
                queue.arrived = None
                queue.let_go()
                members, now = [member for member, _ in queue.members], runtime.now()
                called = turns.call(members, now)
                wait = turns.seconds_to_wait(members, now)
                if wait <= 0:
                    # In the same instant: who comes after this look may not be taken before somebody's turn.
                    taken = self._cut(name, queue, turns)
                else:
                    arrived = queue.arrived = runtime.event()
            for member in called:
                member.answer()
            if wait <= 0:
                break
            if members and held_since is None:
                held_since = now
            arrived.wait(wait)
        if held_since is not None:
            seconds = runtime.now() - held_since
            self._world.events.publish({"event": "held-back", "table": name, "seconds": seconds})
        return taken

    def _cut(self, name: TableName, queue: _Queue, turns: Turns) -> list[Member]:
        """Take a group out of a queue; called with the mutex."""
        queue.members.sort(key=lambda entry: -turns.losses(entry[0]))
        taken = queue.members[: self._settings.group_max_changes]
        queue.members = queue.members[self._settings.group_max_changes :]
        queue.bytes -= sum(size for _, size in taken)
        if not taken:
            del self._queues[name]
        return [member for member, _ in taken]
