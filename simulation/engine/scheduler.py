"""Threads of which one runs at a time, a clock that jumps, and processes that crash and pause.

Every task is a real thread that waits for its baton. The task with the baton runs until it lets others go first
(`step`), sleeps or waits; then the seed picks the next task. When all tasks sleep or wait, the clock jumps to the next
deadline; when no task has a deadline, that is a deadlock.

A crashed process never runs again: its tasks end where they stand, and every call that they make on their way out
raises `Crashed`, so that not even a `finally` has an effect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from simulation.engine.seeded import SeededRandom

#: Seconds that pass with every step.
STEP_SECONDS = 0.001


class Crashed(BaseException):
    """The process of this task is dead, or the schedule is over. Nothing handles it as an error."""


@dataclass(slots=True, eq=False)
class Process:
    """name, skew_ms: of its wall clock, against the simulated time. paused_until: simulated seconds; none of its tasks
    runs before. suspended_at: since when its machine is suspended, so that its monotonic clock stands still until it
    runs again; lag: how long that clock has stood still in all. sleeps: the intervals in which it was paused."""

    name: str
    skew_ms: int = 0
    alive: bool = True
    paused_until: float = 0.0
    suspended_at: float | None = None
    lag: float = 0.0
    sleeps: list[tuple[float, float]] = field(default_factory=list)

    def slept_at(self, when: float) -> bool:
        return any(since <= when <= until for since, until in self.sleeps)

    def awake_since(self, begun: float, now: float) -> float:
        """The earliest moment after `begun` at which it may have done what it is seen to have done now: when its first
        sleep since then began, or now."""
        return min((since for since, until in self.sleeps if until >= begun), default=now)


class _Worker:
    """A thread that runs one task after another: starting a thread for each would cost too much."""

    def __init__(self, pool: WorkerPool) -> None:
        self.baton = threading.Lock()
        self.baton.acquire()
        self.body: Callable[[], Callable[[], None]] | None = None
        self._pool = pool
        threading.Thread(target=self._run, name="simulation", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.baton.acquire()
            if self.body is None:
                return
            pass_on = self.body()
            self.body = None
            self._pool.idle.append(self)
            pass_on()


class WorkerPool:
    """Threads for the tasks of one schedule after another; close it after the last schedule."""

    def __init__(self) -> None:
        self.idle: list[_Worker] = []

    def take(self) -> _Worker:
        return self.idle.pop() if self.idle else _Worker(self)

    def close(self) -> None:
        """End the idle threads."""
        while self.idle:
            self.idle.pop().baton.release()


class Task:
    """One thread of a process. ready: it can run now; deadline: when it runs at the latest."""

    __slots__ = ("background", "deadline", "function", "name", "process", "ready", "worker")

    def __init__(
        self, process: Process, name: str, function: Callable[[], None], background: bool, worker: _Worker
    ) -> None:
        self.process = process
        self.name = name
        self.function = function
        self.background = background
        self.worker = worker
        self.ready = True
        self.deadline: float | None = None


class Scheduler:
    """Runs one schedule.

    max_steps, max_seconds: the bounds within which it must end.
    failure: why the schedule failed, None while all is well.
    when_idle: called once, when only background tasks are left; it may start others.
    """

    def __init__(
        self, random: SeededRandom, pool: WorkerPool, *, max_steps: int = 50_000, max_seconds: float = 1e6
    ) -> None:
        self.now = 0.0
        self.steps = 0
        self.failure: str | None = None
        self.when_idle: Callable[[], None] | None = None
        self.tasks: list[Task] = []
        self._random = random
        self._pool = pool
        self._max_steps = max_steps
        self._max_seconds = max_seconds
        self._over = False
        self._foreground = 0
        self._main = threading.Lock()
        self._main.acquire()
        self._current: Task | None = None
        self._dying: list[Task] = []

    @property
    def current(self) -> Task:
        """The task that runs."""
        if self._current is None:
            raise RuntimeError("no task runs")
        return self._current

    def spawn(self, process: Process, name: str, function: Callable[[], None], *, background: bool = False) -> None:
        """Start a task, which runs when it is picked. The schedule ends when only background tasks are left."""
        if not process.alive or self._over:
            raise Crashed
        task = Task(process, name, function, background, self._pool.take())
        task.worker.body = lambda: self._body(task)
        self.tasks.append(task)
        self._foreground += not background

    def run(self) -> None:
        """Run all tasks to their end, or until one fails; then `failure` is set."""
        task = self._pick()
        if task is not None:
            self._pass_to(task)
            self._main.acquire()
        self._over = True
        for left in tuple(self.tasks):
            self._pass_to(left)
            self._main.acquire()

    def step(self) -> None:
        """Let other tasks run first, if the seed says so."""
        self._check()
        self._switch()

    def sleep(self, seconds: float) -> None:
        """Return after this much simulated time."""
        self._check()
        task = self.current
        task.ready, task.deadline = False, self.now + max(0.0, seconds)
        self._switch()
        task.ready, task.deadline = True, None

    def wait(self, waiters: list[Task], timeout: float | None) -> None:
        """Wait for `wake(waiters)`, or until the timeout."""
        self._check()
        task = self.current
        waiters.append(task)
        task.ready, task.deadline = False, None if timeout is None else self.now + timeout
        try:
            self._switch()
        finally:
            if task in waiters:
                waiters.remove(task)
            task.ready, task.deadline = True, None

    def wake(self, waiters: list[Task]) -> None:
        """Make all these waiting tasks ready."""
        for task in waiters:
            task.ready, task.deadline = True, None
        waiters.clear()

    def crash(self, process: Process) -> None:
        """End a process. Raises Crashed if the caller is one of its tasks."""
        process.alive = False
        current = self.current
        self._dying.extend(task for task in self.tasks if task.process is process and task is not current)
        if current.process is process:
            raise Crashed

    def fail(self, why: str) -> None:
        """End the schedule; it keeps the first reason."""
        if self.failure is None:
            self.failure = why
        self._over = True

    def _check(self) -> None:
        if self._over or not self.current.process.alive:
            raise Crashed

    def _body(self, task: Task) -> Callable[[], None]:
        """Run a task; returns the call that passes the baton on, to be made when the task's thread is idle."""
        try:
            if task.process.alive and not self._over:
                task.function()
        except Crashed:
            pass
        except BaseException as error:  # noqa: BLE001 - a task that raises is a finding, not the end of the simulation
            self.fail(f"{task.process.name}/{task.name} raised {type(error).__name__}: {error}")
        self.tasks.remove(task)
        self._foreground -= not task.background
        following = None if self._over else self._pick()
        self._current = following
        return self._main.release if following is None else following.worker.baton.release

    def _switch(self) -> None:
        task = self.current
        following = self._pick()
        if following is not task:
            if following is None:
                self._current = None
                self._main.release()
            else:
                self._pass_to(following)
            task.worker.baton.acquire()
            self._current = task
        self._check()

    def _pass_to(self, task: Task) -> None:
        self._current = task
        task.worker.baton.release()

    def _pick(self) -> Task | None:
        """The next task to run; None when the schedule is over."""
        if self._dying:
            return self._dying.pop()
        self.steps += 1
        self.now += STEP_SECONDS
        if not self._foreground and self.when_idle is not None:
            when_idle, self.when_idle = self.when_idle, None
            when_idle()
        if not self._foreground or self._over:
            return None
        if self.steps > self._max_steps or self.now > self._max_seconds:
            self.fail(f"terminates: still running after {self.steps} steps and {self.now:.0f} s")
            return None
        now = self.now
        ready = [
            task
            for task in self.tasks
            if (task.ready or (task.deadline is not None and task.deadline <= now)) and task.process.paused_until <= now
        ]
        if ready:
            return ready[self._random.below(len(ready))] if len(ready) > 1 else ready[0]
        return self._jump()

    def _jump(self) -> Task | None:
        """All tasks wait: advance the clock to the next deadline."""
        times = [
            max(self.now if task.ready else task.deadline or 0.0, task.process.paused_until)
            for task in self.tasks
            if task.ready or task.deadline is not None
        ]
        if not times:
            waiting = ", ".join(f"{task.process.name}/{task.name}" for task in self.tasks if not task.background)
            self.fail(f"terminates: deadlock, these tasks wait for ever: {waiting}")
            return None
        self.now = max(self.now, min(times))
        return self._pick()
