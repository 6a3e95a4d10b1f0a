"""What goes wrong, how often, and where: every port call passes through `Wire`.

Each kind of fault has a budget for one schedule, and strikes at a call that the seed picks. Calls that change a table's
row are struck more often than the rest: they are few, and the protocol is about them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TypeVar

from simulation.engine.scheduler import Process, Scheduler
from simulation.engine.seeded import SeededRandom

T = TypeVar("T")

_UUID = re.compile(r"\b([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")

#: How likely a fault strikes a call of weight 1, while its budget lasts.
_LIKELIHOOD = 0.02
#: Faults of few scenarios.
_RARE = frozenset(("defects", "refusals", "in_doubt_commits", "slow_removals", "slow_heartbeats", "late_loads"))
#: The weight of a call that changes a table's row.
HEAVY = 20.0
#: A random duration is at most one of these shares of the longest.
_SCALES = (0.0001, 0.001, 0.01, 0.1, 1.0)
#: How often a sleeping process wakes just when another process acquired a lock.
_WAKES_AT_THE_WORST = 0.6
#: How often a late change arrives between another sender's look at the table and its change.
_ARRIVES_AT_THE_WORST = 0.4
#: Seconds for which a change is under way at least, if a late one is to overtake it.
_OVERTAKEN = 0.01
#: A slow foreign writer needs its lock for at most this share of the lease; a sleeper wakes within it.
CRITICAL_SHARE = 0.15
#: How long the metastore stalls, in seconds.
_STALL_SECONDS = (15.0, 40.0)
#: The weight of the removal of another's lock.
_REMOVAL = 30.0
#: The weight of a slow write of a file.
MODERATE = 5.0
#: The weight of a call of the lock, or of a load of the pointer.
LIGHT = 1.0


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """How often each fault may strike in one schedule, at most.

    crashes: a process ends, before a call or after its effect.
    pauses: a process stops for longer than its lease, and wakes.
    suspends: the same with its machine, whose monotonic clock stands still meanwhile.
    short_pauses: a process stops for less than half of its lease, so that its lock still covers what it covered.
    stalls: the metastore answers nothing for longer than a short lease, and then all waiting calls, in any order.
    lost_requests: a call of the metastore or of ZooKeeper does not arrive, or its server is unreachable for a while.
    lost_replies: a call is carried out, and its answer does not arrive.
    slow_replies: the metastore answers late, but within the caller's timeout.
    late_changes: a swap is carried out after its caller gave up. repeated_changes: a swap is carried out a second time.
    false_refusals: the metastore retries inside, and refuses a change that it has just committed.
    errors: the metastore answers a swap with an error that is no conflict, and changes nothing.
    sql_errors: the metastore's database fails once at the statement that swaps.
    lost_stores: a handler of the metastore loses its store, and answers every call of its connection with that error.
    in_doubt_commits: the metastore's database does not answer a COMMIT, and makes it minutes later. The metastore has
    answered with an error by then; others wait for the rows, and fail.
    file_errors: a file is written or deleted, or not, and the storage reports an error.
    slow_files: a file takes seconds to write, up to a lease; everything else runs on.
    partitions: a process cannot reach ZooKeeper for a while. silences: the same, and it does not notice at first.
    slow_removals: a process stops after it found another's lock dead and before it removes it; sleepers wake meanwhile.
    slow_heartbeats: the answer to a heartbeat takes most of a lease, and the process stops when it comes.
    late_loads: a process that has a lock sleeps past its lease before it loads the row, and wakes when a late change
    has overtaken that of another process.
    defects: a port raises an error that its contract does not name, where a file is deleted or a listener is called.
    refusals: the metastore refuses a swap for good, before it writes, for a reason that is no conflict.
    """

    crashes: int = 0
    pauses: int = 0
    suspends: int = 0
    stalls: int = 0
    lost_requests: int = 0
    lost_replies: int = 0
    slow_replies: int = 0
    late_changes: int = 0
    repeated_changes: int = 0
    false_refusals: int = 0
    errors: int = 0
    sql_errors: int = 0
    lost_stores: int = 0
    file_errors: int = 0
    slow_files: int = 0
    short_pauses: int = 0
    partitions: int = 0
    silences: int = 0
    slow_removals: int = 0
    slow_heartbeats: int = 0
    late_loads: int = 0
    defects: int = 0
    refusals: int = 0
    in_doubt_commits: int = 0

    @property
    def is_steady(self) -> bool:
        """Whether no process sleeps and no call of the metastore hangs."""
        sleeps = self.pauses or self.suspends or self.short_pauses or self.slow_removals or self.slow_heartbeats
        return not (
            sleeps
            or self.late_loads
            or self.stalls
            or self.lost_requests
            or self.lost_replies
            or self.slow_replies
            or self.in_doubt_commits
        )


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One line of a trace: simulated seconds, process, port call, answer."""

    at: float
    process: str
    call: str
    answer: object

    def __str__(self) -> str:
        answer = self.answer
        text = f"{type(answer).__name__}: {answer}" if isinstance(answer, BaseException) else str(answer)
        return f"{self.at:10.3f}  {self.process:<10} {short(self.call):<36} {short(text)}".rstrip()


def short(text: str) -> str:
    """A text without the folders of its files, and with the first eight digits of each UUID."""
    words = (word.rpartition("/")[2] if "/" in word else word for word in text.split())
    return _UUID.sub(r"\1", " ".join(words))


@dataclass(slots=True)
class Trace:
    """What happened, in order."""

    events: list[TraceEvent] = field(default_factory=list)

    def lines(self) -> list[str]:
        return [str(event) for event in self.events]


class Wire:
    """What every call between the processes and their servers passes.

    lease_seconds: pauses are longer than that. never_paused, never_crashing: the names of such processes.
    on_crash: called with each process that crashed.
    """

    def __init__(self, scheduler: Scheduler, random: SeededRandom, faults: FaultPlan, *, lease_seconds: float) -> None:
        self.scheduler = scheduler
        self.trace = Trace()
        self.never_paused: set[str] = set()
        self.never_crashing: set[str] = set()
        self.on_crash: Callable[[Process], None] | None = None
        self._sleepers: list[Process] = []
        #: The processes that were woken before a lock was removed, and have sent no heartbeat since.
        self._roused: set[str] = set()
        #: Late changes that wait for another change, and what each of them carries out.
        self._overtaking: list[tuple[Process, str]] = []
        #: The processes that load a row once a late change has overtaken another.
        self._loading: list[Process] = []
        self._stalled_until = -math.inf
        self._random = random
        # Often fewer faults than allowed: a defect that one fault shows is easier to read than one among six.
        self._left = {
            each.name: random.below(getattr(faults, each.name) + 1)
            for each in fields(faults)
            # Drawn only where they are set, so that they do not change the events of other scenarios' seeds.
            if each.name not in _RARE or getattr(faults, each.name)
        }
        self._lease_seconds = lease_seconds

    def strikes(self, fault: str, weight: float) -> bool:
        """Whether this fault strikes now; if so, its budget is one less."""
        if not self._left.get(fault) or not self._random.chance(_LIKELIHOOD * weight):
            return False
        self._left[fault] -= 1
        return True

    def stop_faults(self) -> None:
        """From now on no fault strikes."""
        self._left = dict.fromkeys(self._left, 0)

    def note(self, process: Process, call: str, answer: object) -> None:
        """Add a line to the trace."""
        self.trace.events.append(TraceEvent(self.scheduler.now, process.name, call, answer))

    def between(self, low: float, high: float) -> float:
        """A random number in [low, high)."""
        return self._random.between(low, high)

    def pick(self, choices: Sequence[T]) -> T:
        """One of them at random."""
        return self._random.pick(choices)

    def random_duration(self, longest: float) -> float:
        """Seconds, from a few steps to the longest. Each order of magnitude is equally likely: some defects need
        moments between two steps, others minutes until a lease ends."""
        return self._random.pick(_SCALES) * longest * self._random.fraction()

    def before_call(self, process: Process, call: str, weight: float) -> None:
        """Before a call is sent: other tasks may run first, and the process may crash or pause."""
        self.scheduler.step()
        self.after_call(process, f"{call} ->", weight)

    def after_call(self, process: Process, call: str, weight: float) -> None:
        """After a call's effect: the process may crash or pause."""
        if process.name not in self.never_crashing and self.strikes("crashes", weight):
            self.note(process, call, "CRASH")
            if self.on_crash is not None:
                self.on_crash(process)
            self.scheduler.crash(process)
        if process.name not in self.never_paused and self.strikes("pauses", weight):
            self._pause(process, call)
        if process.name not in self.never_paused and self.strikes("suspends", weight):
            process.suspended_at = self.scheduler.now
            self._pause(process, call)
        if process.name not in self.never_paused and self.strikes("short_pauses", weight):
            self.note(process, call, "pauses shortly")
            process.paused_until = self.scheduler.now + self._lease_seconds * self._random.between(0.02, 0.45)
            if self._random.chance(_WAKES_AT_THE_WORST):
                process.paused_until = self.scheduler.now + self._lease_seconds * 0.45
                self._sleepers.append(process)
            self.scheduler.step()

    def pause_before_removal(self, process: Process, call: str) -> None:
        """Before a process removes another's lock: it may stop, and sleeping processes wake before it goes on."""
        if process.name not in self.never_paused and self.strikes("slow_removals", _REMOVAL):
            self.note(process, call, "pauses before")
            woken = self.scheduler.now + self.random_duration(self._lease_seconds * CRITICAL_SHARE)
            for sleeper in self._sleepers:
                sleeper.paused_until = min(sleeper.paused_until, woken)
            self._roused = {each.name for each in self._sleepers}
            process.paused_until = woken + self.random_duration(self._lease_seconds * CRITICAL_SHARE)
            self.scheduler.step()

    def load_late(self, process: Process, call: str) -> None:
        """Before a process that has just got a lock loads a row, while a late change waits to overtake another: it may
        sleep past the lease."""
        if self._overtaking and process.name not in self.never_paused and self.strikes("late_loads", HEAVY):
            self._loading.append(process)
            self._sleep(process, call, self._lease_seconds * 5)

    def answer_heartbeat_late(self, process: Process, call: str) -> None:
        """Before the answer to a heartbeat: it may take most of a lease, and its process stops when it comes. So does a
        process that has just been woken because its lock is about to be removed."""
        if process.name not in self.never_paused and self.strikes("slow_heartbeats", HEAVY):
            self.note(process, call, "slow reply")
            self.scheduler.sleep(self._lease_seconds * self._random.between(0.5, 0.95))
            self._doze(process, call)
        elif process.name in self._roused:
            self._roused.remove(process.name)
            self._doze(process, call)

    def _doze(self, process: Process, call: str) -> None:
        """Stop for less than half of the lease, or until another process acquires a lock."""
        self.note(process, call, "pauses shortly")
        process.paused_until = self.scheduler.now + self._lease_seconds * 0.45
        self._sleepers.append(process)

    def stall(self, process: Process, call: str) -> None:
        """At the server: it may stall here, and serves all waiting calls when it goes on."""
        if self.scheduler.now >= self._stalled_until and self.strikes("stalls", LIGHT):
            self._stalled_until = self.scheduler.now + self._random.between(*_STALL_SECONDS)
            self.note(process, call, f"the metastore stalls until {self._stalled_until:.0f}")
        while self.scheduler.now < self._stalled_until:
            self.scheduler.sleep(self._stalled_until - self.scheduler.now)

    def on_acquired(self, process: str) -> None:
        """A process acquired a lock. Sleeping processes may wake now: that is the worst moment."""
        for sleeper in self._sleepers:
            if sleeper.name != process and sleeper.paused_until > self.scheduler.now:
                sleeper.paused_until = self.scheduler.now + self.random_duration(self._lease_seconds * CRITICAL_SHARE)
        self._sleepers = [each for each in self._sleepers if each.name == process]

    def take_time(self, process: Process, call: str) -> None:
        """The calling task waits for something slow; the other tasks of its process run on."""
        seconds = self._lease_seconds * self._random.between(0.05, 1.0)
        self.note(process, call, f"takes {seconds:.0f} s")
        self.scheduler.sleep(seconds)

    def delay(self, process: Process, longest: float) -> None:
        """Stop a process for some time, or until another process acquires a lock."""
        if self._random.chance(_WAKES_AT_THE_WORST):
            process.paused_until = self.scheduler.now + longest
            self._sleepers.append(process)
        else:
            process.paused_until = self.scheduler.now + self.random_duration(longest)

    def delay_change(self, courier: Process, what: str, longest: float) -> None:
        """Let a change arrive later: after some time, when another process acquires a lock, or just before another
        change, whose sender has read the table by then."""
        if self._random.chance(_ARRIVES_AT_THE_WORST):
            courier.paused_until = self.scheduler.now + longest
            self._overtaking.append((courier, what))
        else:
            self.delay(courier, longest)

    def on_change_sent(self, what: str) -> None:
        """A change was sent, built on what its sender read before. Late changes that wait for that overtake it."""
        now, overtaking = self.scheduler.now, [each for each in self._overtaking if each[1] != what]
        if not overtaking:
            return
        self._overtaking = [each for each in self._overtaking if each[1] == what]
        for courier, _ in overtaking:
            courier.paused_until = min(courier.paused_until, now)
        for sleeper in self._loading:
            sleeper.paused_until = min(sleeper.paused_until, now + _OVERTAKEN / 2)
        self._loading = []
        self.scheduler.sleep(_OVERTAKEN)

    def _pause(self, process: Process, call: str) -> None:
        seconds = self._lease_seconds * self._random.between(1.1, 3.0)
        if self._random.chance(_WAKES_AT_THE_WORST):
            seconds = self._lease_seconds * 5
            self._sleepers.append(process)
        self._sleep(process, call, seconds)

    def _sleep(self, process: Process, call: str, seconds: float) -> None:
        """Stop a process for so long, or until another one wakes it."""
        self.note(process, call, "pauses")
        begun = self.scheduler.now
        process.paused_until = begun + seconds
        process.sleeps.append((begun, process.paused_until))
        self.scheduler.step()
        process.sleeps[-1] = (begun, process.paused_until)
        self.note(process, call, "wakes")
