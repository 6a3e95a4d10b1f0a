"""What every implementation of `coordinator.ports.TableLock` must do.

Each check takes a `Guard`: two locks that guard the same tables, as two processes have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from iceberg_hms.clock import ClockReading
from iceberg_hms.coordinator.ports import HeldLock, LockUse, Runtime, TableLock, TableName
from iceberg_hms.errors import InvalidInput, LockLost, LockNotAcquired
from iceberg_hms.testing.contracts import expect, expect_raises


@dataclass(frozen=True)
class Guard:
    """first, second: the locks. runtime: theirs. name: a table that no other check uses; it need not exist."""

    first: TableLock
    second: TableLock
    runtime: Runtime
    name: TableName


Check = Callable[[Guard], None]

#: Longer than any lock here is waited for in vain; only a broken lock makes a check take so long.
_LONG: Final = 60.0
_WRITERS: Final = 6
_TURNS: Final = 5


def _since(guard: Guard, earlier: ClockReading) -> float:
    return guard.runtime.read_clocks().max_seconds_since(earlier)


def a_free_lock_is_had_and_covers(guard: Guard) -> None:
    before = guard.runtime.read_clocks()
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1")
    try:
        age = held.seconds_since_renewal()
        expect(0 <= age <= _since(guard, before), "it was renewed before it was asked for, or in the future")
        expect(held.lease_seconds > 0, "no lease")
    finally:
        held.release()


def a_held_lock_is_not_given_twice(guard: Guard) -> None:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1")
    try:
        for lock in (guard.first, guard.second):
            with expect_raises(LockNotAcquired, "acquire of a held lock"):
                lock.acquire(guard.name, wait_seconds=0.2, request="r-2")
            with expect_raises(LockNotAcquired, "acquire of a held lock without waiting"):
                lock.acquire(guard.name, wait_seconds=0, request="r-2")
        held.renew()
    finally:
        held.release()


def who_gives_up_blocks_nobody(guard: Guard) -> None:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1")
    with expect_raises(LockNotAcquired, "acquire of a held lock"):
        guard.second.acquire(guard.name, wait_seconds=0.1, request="r-2")
    held.release()
    guard.first.acquire(guard.name, wait_seconds=0, request="r-3").release()


def a_waiter_gets_it_on_release(guard: Guard) -> None:
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
    expect(not done.wait(0.2), "a held lock was given away")
    held.release()
    expect(done.wait(_LONG), "the waiter never got the lock")
    got = result[0]
    expect(not isinstance(got, Exception), f"the waiter got {got!r}")
    if not isinstance(got, Exception):
        got.renew()
        got.release()


def tables_do_not_block_one_another(guard: Guard) -> None:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1")
    try:
        guard.second.acquire(
            TableName(guard.name.namespace, f"{guard.name.name}_other"), wait_seconds=0, request="r-2"
        ).release()
    finally:
        held.release()


def one_holder_at_a_time(guard: Guard) -> None:
    inside: list[int] = []
    problems: list[str] = []
    turns: list[int] = []

    def work(number: int) -> None:
        lock = (guard.first, guard.second)[number % 2]
        for _ in range(_TURNS):
            held = lock.acquire(guard.name, wait_seconds=_LONG, request=f"w-{number}")
            inside.append(number)
            if inside != [number]:
                problems.append(f"{inside} hold it together")
            turns.append(number)
            inside.remove(number)
            held.release()

    guard.runtime.gather([lambda number=number: work(number) for number in range(_WRITERS)])  # type: ignore[misc]
    expect(not problems, "; ".join(problems))
    expect(len(turns) == _WRITERS * _TURNS, f"{len(turns)} turns")


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


def renewing_moves_the_cover(guard: Guard) -> None:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1")
    try:
        guard.runtime.sleep(0.05)
        sent = guard.runtime.read_clocks()
        held.renew()
        expect(held.seconds_since_renewal() <= _since(guard, sent), "a renewal does not count")
    finally:
        held.release()


def moves_may_start_under_a_fresh_lock(guard: Guard) -> None:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1")
    try:
        held.ensure_held()
        expect(held.exclusive is True, "nothing is locked")
        expect(held.behind_foreign_writer is False, "nobody else asked for the lock")
        expect(held.row is None or held.row.name == guard.name, "the row of another table")
    finally:
        held.release()


def only_what_compares_has_a_lease_of_its_own(guard: Guard) -> None:
    held = guard.first.acquire(guard.name, wait_seconds=_LONG, request="r-1", use=LockUse.BLIND)
    served, requires_cas = held.lease_seconds, held.require_cas
    held.release()
    held = guard.second.acquire(guard.name, wait_seconds=_LONG, request="r-2", use=LockUse.CAS)
    try:
        expect(not requires_cas, "the lock of a drop requires compare-and-swap, which a drop has not")
        expect(held.lease_seconds <= served, "what compares has a longer lease than what does not")
        if held.lease_seconds < served:
            expect(held.require_cas, "a lease that ends before the server's, and what is sent under it is not atomic")
    finally:
        held.release()


def a_malformed_request_is_refused(guard: Guard) -> None:
    for request in ("", "A", "a/b", "x" * 37, "a\n"):
        with expect_raises(InvalidInput, f"request {request!r}"):
            guard.first.acquire(guard.name, wait_seconds=0, request=request)
    guard.second.acquire(guard.name, wait_seconds=0, request="x" * 36).release()


CHECKS: tuple[Check, ...] = (
    a_free_lock_is_had_and_covers,
    a_held_lock_is_not_given_twice,
    who_gives_up_blocks_nobody,
    a_waiter_gets_it_on_release,
    tables_do_not_block_one_another,
    one_holder_at_a_time,
    release_twice_is_harmless,
    a_released_lock_is_not_renewed,
    renewing_moves_the_cover,
    moves_may_start_under_a_fresh_lock,
    only_what_compares_has_a_lease_of_its_own,
    a_malformed_request_is_refused,
)
