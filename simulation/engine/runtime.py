"""The coordinator's Runtime on the scheduler's threads: one for each simulated process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import copy_context
from functools import partial
from typing import Any, Generic

from iceberg_hms.clock import ClockReading
from iceberg_hms.coordinator.ports import Begun, Result
from simulation.engine.scheduler import Process, Scheduler, Task
from simulation.engine.seeded import SeededRandom

#: Where the wall clocks start: milliseconds since 1970.
EPOCH_MS = 1_800_000_000_000
#: How often another task runs before a mutex is taken. Always would triple the length of a schedule.
_MUTEX_STEP = 0.25


class SimulatedEvent:
    """coordinator.ports.ThreadEvent."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waiters: list[Task] = []

    def set(self) -> None:
        """As the port says."""
        self._set = True
        self._scheduler.wake(self._waiters)

    def clear(self) -> None:
        """As threading.Event."""
        self._set = False

    def is_set(self) -> bool:
        """As the port says."""
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """As the port says."""
        if not self._set:
            self._scheduler.wait(self._waiters, timeout)
        return self._set


class SimulatedMutex:
    """Not reentrant: a task that takes it twice waits for itself, which the scheduler reports as a deadlock."""

    def __init__(self, scheduler: Scheduler, random: SeededRandom) -> None:
        self._scheduler = scheduler
        self._random = random
        self._held = False
        self._waiters: list[Task] = []

    def __enter__(self) -> None:
        if self._random.chance(_MUTEX_STEP):
            self._scheduler.step()
        while self._held:
            self._scheduler.wait(self._waiters, None)
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False
        self._scheduler.wake(self._waiters)


class SimulatedSemaphore:
    """threading.BoundedSemaphore."""

    def __init__(self, scheduler: Scheduler, size: int) -> None:
        self._scheduler = scheduler
        self._free = size
        self._waiters: list[Task] = []

    def acquire(self, *, timeout: float) -> bool:
        """As threading.BoundedSemaphore."""
        deadline = self._scheduler.now + timeout
        while not self._free:
            remaining = deadline - self._scheduler.now
            if remaining <= 0:
                return False
            self._scheduler.wait(self._waiters, remaining)
        self._free -= 1
        return True

    def release(self) -> None:
        """As threading.BoundedSemaphore."""
        self._free += 1
        self._scheduler.wake(self._waiters)


class SimulatedRuntime:
    """coordinator.ports.Runtime, and a Clock for the fakes that want one."""

    def __init__(self, scheduler: Scheduler, process: Process, random: SeededRandom) -> None:
        self.process = process
        self._scheduler = scheduler
        self._random = random

    def now(self) -> float:
        """As the port says. It stands still while the machine is suspended."""
        process = self.process
        if process.suspended_at is not None:
            process.lag += self._scheduler.now - process.suspended_at
            process.suspended_at = None
        return self._scheduler.now - process.lag

    def monotonic(self) -> float:
        """As `now`."""
        return self.now()

    def read_clocks(self) -> ClockReading:
        """As the port says."""
        return ClockReading(self.now(), self._scheduler.now, self.now_ms() / 1000)

    def now_ms(self) -> int:
        """As the port says. Each process's wall clock is wrong by its own skew."""
        return EPOCH_MS + self.process.skew_ms + int(self._scheduler.now * 1000)

    def sleep(self, seconds: float) -> None:
        """As the port says."""
        self._scheduler.sleep(seconds)

    def jitter(self) -> float:
        """As the port says."""
        return self._random.fraction()

    def uuid(self) -> str:
        """As the port says."""
        return self._random.uuid()

    def snapshot_id(self) -> int:
        """A positive 63-bit number."""
        return self._random.bits() >> 1

    def event(self) -> SimulatedEvent:
        """As the port says."""
        return SimulatedEvent(self._scheduler)

    def mutex(self) -> AbstractContextManager[Any]:
        """As the port says."""
        return SimulatedMutex(self._scheduler, self._random)

    def semaphore(self, size: int) -> SimulatedSemaphore:
        """A semaphore, for the metastore's connections."""
        return SimulatedSemaphore(self._scheduler, size)

    def spawn(self, name: str, function: Callable[[], None], *, background: bool = False) -> None:
        """As the port says."""
        self._scheduler.spawn(self.process, name, function, background=background)

    def gather(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run the functions one after another, in an order that the seed picks. They touch different files, so only
        their order, and where a crash interrupts it, can differ."""
        results: list[Any] = [None] * len(functions)
        errors: list[Exception] = []
        waiting = list(range(len(functions)))
        while waiting:
            index = waiting.pop(self._random.below(len(waiting)))
            try:
                results[index] = functions[index]()
            except Exception as error:  # noqa: BLE001 - raised when all have ended
                errors.append(error)
        if errors:
            raise errors[0]
        return results

    def begin(self, function: Callable[[], Result]) -> Begun[Result]:
        """As the port says; it runs when its result is wanted."""
        return _Later(partial(copy_context().run, function))

    def run_while_waiting(self, work: Callable[[], None], wait: Callable[[], Result]) -> Result:
        """Run both one after another, as `gather`."""
        result: Result = self.gather([work, wait])[1]
        return result


class _Later(Generic[Result]):
    """A function that runs when its result is wanted."""

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function

    def result(self) -> Result:
        """As the port says."""
        return self._function()

    def abandon(self) -> None:
        """Nothing has begun."""
