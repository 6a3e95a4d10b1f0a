"""What every implementation of `coordinator.ports.TableLock` must do.

Each check takes a `Guard`: two locks on the same tables, as in two processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from iceberg_hms.clock import ClockReading
from iceberg_hms.coordinator.ports import HeldLock, LockUse, Runtime, TableLock, TableName
from iceberg_hms.errors import InvalidInput, LockLost, LockNotAcquired
from iceberg_hms.testing.contracts import checks_of, expect, expect_raises


@dataclass(frozen=True)
class Guard:
    """first, second: the locks. runtime: of both. name: a table that no other check uses; it need not exist."""

    first: TableLock
    second: TableLock
    runtime: Runtime
    name: TableName


Check = Callable[[Guard], None]

#: Longer than any wait here that times out; only a broken lock makes a check take that long. Seconds.
_LONG: Final = 60.0
_WRITERS: Final = 6
_ROUNDS: Final = 5


@contextmanager
def _held(guard: Guard) -> Iterator[HeldLock]:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1")
    try:
        yield held
    finally:
        held.release()


def _since(guard: Guard, earlier: ClockReading) -> float:
    return guard.runtime.read_clocks().max_seconds_since(earlier)


def a_free_lock_is_acquired_with_a_lease(guard: Guard) -> None:
    before = guard.runtime.read_clocks()
    with _held(guard) as held:
        age = held.seconds_since_renewal()
        expect(0 <= age <= _since(guard, before), "the last renewal is before the request, or in the future")
        expect(held.lease_seconds > 0, "no lease")


def a_held_lock_is_not_acquired_again(guard: Guard) -> None:
    with _held(guard) as held:
        for lock in (guard.first, guard.second):
            with expect_raises(LockNotAcquired, "acquire of a held lock"):
                lock.acquire(guard.name, wait_seconds=0.2, request="r-2")
            with expect_raises(LockNotAcquired, "acquire of a held lock without waiting"):
                lock.acquire(guard.name, wait_seconds=0, request="r-2")
        held.renew()


def a_waiter_that_gave_up_blocks_no_other(guard: Guard) -> None:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1")
    with expect_raises(LockNotAcquired, "acquire of a held lock"):
        guard.second.acquire(guard.name, wait_seconds=0.1, request="r-2")
    held.release()
    guard.first.acquire(guard.name, wait_seconds=0, request="r-3").release()


def a_waiter_gets_the_lock_on_release(guard: Guard) -> None:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1")
    done = guard.runtime.event()
    result: list[HeldLock | Exception] = []

    def wait_for_it() -> None:
        try:
            result.append(guard.second.acquire(guard.name, wait_seconds=_LONG, request="r-2"))
        except Exception as error:  # noqa: BLE001 - carried to the checking thread
            result.append(error)
        done.set()

    guard.runtime.spawn("waiter", wait_for_it)
    expect(not done.wait(0.2), "the waiter got a held lock")
    held.release()
    expect(done.wait(_LONG), "the waiter never got the lock")
    got = result[0]
    expect(not isinstance(got, Exception), f"the waiter got {got!r}")
    if not isinstance(got, Exception):
        got.renew()
        got.release()


def locks_of_two_tables_are_independent(guard: Guard) -> None:
    with _held(guard):
        guard.second.acquire(
            TableName(guard.name.namespace, f"{guard.name.name}_other"), wait_seconds=0, request="r-2"
        ).release()


def one_holder_at_a_time(guard: Guard) -> None:
    inside: list[int] = []
    problems: list[str] = []
    rounds: list[int] = []

    def work(number: int) -> None:
        lock = (guard.first, guard.second)[number % 2]
        for _ in range(_ROUNDS):
            held = lock.acquire(guard.name, wait_seconds=_LONG, request=f"w-{number}")
            inside.append(number)
            if inside != [number]:
                problems.append(f"{inside} hold the lock at once")
            rounds.append(number)
            inside.remove(number)
            held.release()

    guard.runtime.gather([lambda number=number: work(number) for number in range(_WRITERS)])  # type: ignore[misc]
    expect(not problems, "; ".join(problems))
    expect(len(rounds) == _WRITERS * _ROUNDS, f"{len(rounds)} rounds")


def release_twice_is_harmless(guard: Guard) -> None:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1")
    held.release()
    other = guard.second.acquire(guard.name, wait_seconds=_LONG, request="r-2")
    held.release()
    other.renew()
    other.release()


def a_released_lock_is_not_renewed(guard: Guard) -> None:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1")
    held.release()
    with expect_raises(LockLost, "renew after release"):
        held.renew()
    with expect_raises(LockLost, "ensure_held after release"):
        held.ensure_held()
    with expect_raises(LockLost, "seconds_since_renewal after release"):
        held.seconds_since_renewal()


def a_renewal_restarts_the_lease(guard: Guard) -> None:
    with _held(guard) as held:
        guard.runtime.sleep(0.05)
        sent = guard.runtime.read_clocks()
        held.renew()
        expect(held.seconds_since_renewal() <= _since(guard, sent), "the renewal did not restart the lease")


def a_swap_may_start_under_a_fresh_lock(guard: Guard) -> None:
    with _held(guard) as held:
        held.ensure_held()
        expect(held.exclusive is True, "the lock is not exclusive")
        expect(held.behind_foreign_writer is False, "no other writer waits for the lock")
        expect(held.row is None or held.row.name == guard.name, "the row of another table")


def only_a_lock_for_compare_and_swap_has_a_shorter_lease(guard: Guard) -> None:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1", use=LockUse.BLIND)
    served, requires_cas = held.lease_seconds, held.require_cas
    held.release()
    held = guard.second.acquire(guard.name, wait_seconds=_LONG, request="r-2", use=LockUse.CAS)
    try:
        expect(not requires_cas, "a lock for blind calls requires compare-and-swap")
        expect(held.lease_seconds <= served, "a lock for compare-and-swap has the longer lease")
        if held.lease_seconds < served:
            expect(held.require_cas, "a lock with a shorter lease does not require compare-and-swap")
    finally:
        held.release()


def a_malformed_request_is_refused(guard: Guard) -> None:
    for request in ("", "A", "a/b", "x" * 37, "a\n"):
        with expect_raises(InvalidInput, f"request {request!r}"):
            guard.first.acquire(guard.name, wait_seconds=0, request=request)
    guard.second.acquire(guard.name, wait_seconds=0, request="x" * 36).release()


CHECKS: tuple[Check, ...] = checks_of(globals())
