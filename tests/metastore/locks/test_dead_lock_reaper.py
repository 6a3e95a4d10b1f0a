from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap, SwapProtection
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks import dead_lock_reaper
from iceberg_hms.metastore.locks.dead_lock_reaper import DeadLockReaper
from iceberg_hms.metastore.locks.holder_identity import agent_info
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry
from tests.metastore.fake_hms import FakeHms, Running
from tests.metastore.locks.test_holder_identity import of_a_process_that_ended
from tests.metastore.runtimes import ByHand

NAME = TableName("db", "t")
LEASE = 300.0
SHORT = 15.0
ELSEWHERE = f"iceberg-hms/{'0' * 32}/1/2-3/r.000/"


@pytest.fixture
def runtime() -> Iterator[ByHand]:
    runtime = ByHand()
    yield runtime
    runtime.join()


@pytest.fixture
def found(pool: ClientPool, entries: LockEntries, runtime: ByHand) -> DeadLockReaper:
    return DeadLockReaper(entries, runtime, 2.0)


@pytest.fixture(scope="module")
def ended() -> str:
    """What a process of this machine that has ended said, without its last word."""
    return of_a_process_that_ended().removesuffix(SwapProtection.UNPROVEN)


def left(hms: FakeHms) -> list[str]:
    return [lock.agent_info for lock in hms.locks.values()]


class Look(Protocol):
    """One look at the entries, after our own was renewed; returns how many were removed. after: there were two others,
    the first of them so many seconds before by all clocks."""

    def __call__(self, own: LockEntry, *, after: float = 0.0) -> int: ...


@pytest.fixture
def pass_time(hms: FakeHms, runtime: ByHand) -> Callable[[float], None]:
    def pass_time(seconds: float) -> None:
        runtime.time += seconds
        hms.now_ms += int(seconds * 1000)

    return pass_time


@pytest.fixture
def look(entries: LockEntries, found: DeadLockReaper, pass_time: Callable[[float], None]) -> Look:
    return looking(entries, found, pass_time)


def looking(
    entries: LockEntries,
    found: DeadLockReaper,
    pass_time: Callable[[float], None],
    *,
    may_overwrite: bool = False,
) -> Look:
    def look(own: LockEntry, *, after: float = 0.0) -> int:
        for _ in range(2) if after else ():
            look(own)
            pass_time(after / 2)
        entries.check(own)
        return found.remove_dead(NAME, own, LEASE, may_overwrite=may_overwrite)

    return look


def prove(server: Running, pool: ClientPool, verdict: CompareAndSwap = CompareAndSwap.ATOMIC) -> None:
    pool.cas_support.learn(server.uri, NAME.namespace, verdict)


def test_what_a_dead_process_left_goes_all_at_once(hms: FakeHms, entries: LockEntries, look: Look, ended: str) -> None:
    entries.enqueue(NAME, ended + "cas")
    entries.enqueue(NAME, ended + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    entries.enqueue(NAME, ended + "cas")
    assert look(own, after=LEASE) == 3
    assert left(hms) == [own.agent_info]
    assert entries.check(own).acquired


@pytest.mark.parametrize(("word", "lease"), [("cas", LEASE), ("unproven", LEASE), ("cas-15", SHORT)])
def test_what_seems_to_have_ended_keeps_its_lock_for_its_whole_lease(
    word: str,
    lease: float,
    hms: FakeHms,
    entries: LockEntries,
    look: Look,
    pass_time: Callable[[float], None],
    ended: str,
) -> None:
    """A process that sleeps on a clone of this machine has our boot id, our namespaces, and a number that is free
    here. It acknowledges what it sent within half of its lease."""
    entries.enqueue(NAME, ended + word)
    own = entries.enqueue(NAME, agent_info("r"))
    assert looks_until_removed(look, own, pass_time, lease / 30) == lease
    assert left(hms) == [own.agent_info]


@pytest.mark.parametrize(
    "text",
    ["another writer", "", agent_info("mine", SwapProtection.CAS), ELSEWHERE + "cas", "iceberg-hms/x/cas"],
    ids=["another", "no-text", "alive", "elsewhere", "malformed"],
)
def test_what_is_foreign_or_alive_stays(text: str, hms: FakeHms, entries: LockEntries, look: Look) -> None:
    entries.enqueue(NAME, text)
    own = entries.enqueue(NAME, agent_info("r"))
    assert look(own) == 0
    assert len(hms.locks) == 2


def test_entries_of_other_tables_stay(hms: FakeHms, entries: LockEntries, look: Look, ended: str) -> None:
    entries.enqueue(TableName("db", "other"), ended + "cas")
    assert look(entries.enqueue(NAME, agent_info("r"))) == 0
    assert len(hms.locks) == 2


@pytest.mark.parametrize(
    ("here_seconds", "there_seconds", "removed"),
    [(LEASE, LEASE, 1), (LEASE - 1, LEASE, 0), (LEASE, LEASE - 1, 0), (LEASE, -3_600, 0), (3_600, 0, 0)],
)
def test_what_was_not_renewed_for_a_lease_goes_when_both_clocks_say_so(
    here_seconds: float,
    there_seconds: float,
    removed: int,
    hms: FakeHms,
    entries: LockEntries,
    look: Look,
    runtime: ByHand,
) -> None:
    entries.enqueue(NAME, ELSEWHERE + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    assert look(own) == 0
    runtime.time += here_seconds
    hms.now_ms += int(there_seconds * 1000)
    assert look(own) == removed
    assert len(hms.locks) == 2 - removed


def test_an_entry_that_is_renewed_now_and_then_stays(
    hms: FakeHms, entries: LockEntries, look: Look, runtime: ByHand
) -> None:
    paused = entries.enqueue(NAME, ELSEWHERE + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    for _ in range(4):
        assert look(own) == 0
        runtime.time += LEASE - 1
        hms.now_ms += int(LEASE - 1) * 1000
        assert look(own) == 0
        entries.renew(paused)
    assert len(hms.locks) == 2


def test_a_jump_of_the_databases_clock_does_not_make_a_renewed_entry_dead(
    hms: FakeHms, entries: LockEntries, look: Look, runtime: ByHand
) -> None:
    paused = entries.enqueue(NAME, ELSEWHERE + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    assert look(own) == 0
    runtime.time += 10 * LEASE
    hms.now_ms += 1_000
    entries.renew(paused)
    assert look(own) == 0
    runtime.time += 1
    hms.now_ms += int(2 * LEASE) * 1000
    assert look(own) == 0
    assert len(hms.locks) == 2


@pytest.mark.parametrize("clock", ["suspended", "wall_ahead"])
def test_while_we_were_suspended_or_our_wall_clock_was_set_nobody_was_silent(
    clock: str, hms: FakeHms, entries: LockEntries, look: Look, runtime: ByHand
) -> None:
    entries.enqueue(NAME, ELSEWHERE + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    assert look(own) == 0
    hms.now_ms += int(2 * LEASE) * 1000
    setattr(runtime, clock, 2 * LEASE)
    assert look(own) == 0
    runtime.time += LEASE - 1
    assert look(own) == 0
    runtime.time += 1
    assert look(own) == 1


def test_a_wall_clock_that_was_set_back_costs_a_waiter_no_more_than_a_lease(
    hms: FakeHms, entries: LockEntries, look: Look, runtime: ByHand
) -> None:
    entries.enqueue(NAME, ELSEWHERE + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    assert look(own) == 0
    hms.now_ms += int(2 * LEASE) * 1000
    runtime.time += LEASE - 1
    runtime.wall_ahead = -86_400
    assert look(own) == 0
    runtime.time += LEASE - 1
    assert look(own) == 0
    runtime.time += 1
    assert look(own) == 1


def looks_until_removed(
    look: Look, own: LockEntry, pass_time: Callable[[float], None], every: float, *, up_to: int = 100
) -> float:
    """Seconds from the first look, if one is made so often; 0.0 if nothing was removed."""
    for number in range(up_to):
        if look(own):
            return number * every
        pass_time(every)
    return 0.0


@pytest.mark.parametrize(
    ("every", "after"), [(1.0, 15.0), (2.0, 16.0), (4.0, 16.0), (7.0, 21.0), (14.0, 28.0), (40.0, 80.0)]
)
@pytest.mark.parametrize("word", ["cas-15", "unproven-15"])
def test_what_announces_a_lease_goes_after_it_and_three_looks(
    word: str,
    every: float,
    after: float,
    hms: FakeHms,
    entries: LockEntries,
    look: Look,
    pass_time: Callable[[float], None],
) -> None:
    entries.enqueue(NAME, ELSEWHERE + word)
    own = entries.enqueue(NAME, agent_info("r"))
    assert looks_until_removed(look, own, pass_time, every) == after
    assert left(hms) == [own.agent_info]


@pytest.mark.parametrize("word", ["cas-15", "unproven-15"])
def test_to_a_waiter_that_may_overwrite_no_announced_lease_is_shorter_than_the_servers(
    word: str,
    found: DeadLockReaper,
    hms: FakeHms,
    entries: LockEntries,
    pass_time: Callable[[float], None],
) -> None:
    """A late swap under that lock may land between the waiter's look and its swap."""
    entries.enqueue(NAME, ELSEWHERE + word)
    own = entries.enqueue(NAME, agent_info("r"))
    look = looking(entries, found, pass_time, may_overwrite=True)
    assert looks_until_removed(look, own, pass_time, SHORT) == LEASE
    assert left(hms) == [own.agent_info]


def test_it_is_known_when_the_servers_lease_of_a_removed_lock_has_passed(
    found: DeadLockReaper, entries: LockEntries, look: Look, pass_time: Callable[[float], None]
) -> None:
    assert found.seconds_until_expired(NAME, LEASE) == 0
    entries.enqueue(NAME, ELSEWHERE + "cas-15")
    assert look(entries.enqueue(NAME, agent_info("r")), after=SHORT) == 1
    assert found.seconds_until_expired(NAME, LEASE) == LEASE - SHORT
    assert found.seconds_until_expired(TableName("db", "other"), LEASE) == 0
    pass_time(LEASE - SHORT)
    assert found.seconds_until_expired(NAME, LEASE) == 0


def test_of_two_locks_that_go_at_once_the_lease_of_the_one_that_was_renewed_last_counts(
    found: DeadLockReaper, entries: LockEntries, look: Look, pass_time: Callable[[float], None]
) -> None:
    first, _ = (entries.enqueue(NAME, ELSEWHERE + "cas-15") for _ in range(2))
    own = entries.enqueue(NAME, agent_info("r"))
    assert look(own) == 0
    pass_time(5.0)
    entries.renew(first)
    assert look(own) == 0
    pass_time(5.0)
    assert look(own) == 0
    pass_time(20.0)
    assert look(own) == 2
    assert found.seconds_until_expired(NAME, LEASE) == LEASE - 25.0


@pytest.mark.parametrize("word", ["blind-15", "unproven-0", "cas-0", "cas-", "cas-015", "cas-100000", "cas-15s"])
def test_whatever_else_announces_a_lease_is_not_understood_and_stays(
    word: str, hms: FakeHms, entries: LockEntries, look: Look, pass_time: Callable[[float], None]
) -> None:
    entries.enqueue(NAME, ELSEWHERE + word)
    own = entries.enqueue(NAME, agent_info("r"))
    assert looks_until_removed(look, own, pass_time, 30.0) == 0.0
    assert len(hms.locks) == 2


@pytest.mark.parametrize("pause", [20.0, 100.0])
def test_a_metastore_that_pauses_removes_no_live_holder(
    pause: float, hms: FakeHms, entries: LockEntries, look: Look, pass_time: Callable[[float], None]
) -> None:
    """Looks and heartbeats wait together. When it goes on, the looks may all be answered before the first heartbeat."""
    holder = entries.enqueue(NAME, ELSEWHERE + "cas-15")
    own = entries.enqueue(NAME, agent_info("r"))
    plain, paused = hms.show_locks, []

    def show_locks(rqst: Any) -> Any:
        if not paused:
            paused.append(True)
            pass_time(pause)
            hms.locks[own.lock_id].seen = hms.now_ms / 1000
        return plain(rqst)

    assert look(own) == 0
    pass_time(2.0)
    hms.show_locks = show_locks  # type: ignore[method-assign]
    # One that waited for the pause to end, and three at once after it.
    assert [look(own) for _ in range(4)] == [0, 0, 0, 0]
    pass_time(SHORT / 10 * 2)
    assert look(own) == 0
    entries.renew(holder)
    assert looks_until_removed(look, own, pass_time, 2.0) == 16.0


def test_silence_begins_with_the_reply_to_the_first_look_however_long_that_took(
    hms: FakeHms, entries: LockEntries, look: Look, pass_time: Callable[[float], None]
) -> None:
    """The heartbeats waited in the metastore as long as the look did."""
    entries.enqueue(NAME, ELSEWHERE + "cas-15")
    own = entries.enqueue(NAME, agent_info("r"))
    plain = hms.show_locks

    def show_locks(rqst: Any) -> Any:
        hms.show_locks = plain  # type: ignore[method-assign]
        pass_time(20.0)
        hms.locks[own.lock_id].seen = hms.now_ms / 1000
        return plain(rqst)

    hms.show_locks = show_locks  # type: ignore[method-assign]
    assert looks_until_removed(look, own, pass_time, 1.0) == 15.0


def test_a_look_that_waited_longer_than_another_does_not_date_a_heartbeat_back(
    hms: FakeHms, entries: LockEntries, found: DeadLockReaper, runtime: ByHand, pass_time: Callable[[float], None]
) -> None:
    """Two waiters of one process: the look of one was sent first and answered last."""
    entries.enqueue(NAME, ELSEWHERE + "cas-15")
    own = entries.enqueue(NAME, agent_info("r"))
    sent_first = runtime.read_clocks()
    pass_time(20.0)
    row = entries.of(NAME)
    found.observe(row, runtime.read_clocks(), LEASE)
    [suspect, _] = found.observe(row, sent_first, LEASE)
    assert suspect.silent_seconds == 0.0
    pass_time(1.0)
    [suspect, _] = found.observe(row, runtime.read_clocks(), LEASE)
    assert (suspect.silent_seconds, suspect.polls) == (1.0, 1)
    entries.remove(own)


@pytest.mark.parametrize("clock", ["suspended", "wall_ahead"])
def test_an_announced_lease_is_judged_by_the_slowest_clock_too(
    clock: str, hms: FakeHms, entries: LockEntries, look: Look, runtime: ByHand
) -> None:
    entries.enqueue(NAME, ELSEWHERE + "cas-15")
    own = entries.enqueue(NAME, agent_info("r"))
    for _ in range(5):
        assert look(own) == 0
        hms.now_ms += int(SHORT) * 1000
        setattr(runtime, clock, getattr(runtime, clock) + SHORT)
    assert len(hms.locks) == 2


@pytest.mark.parametrize(
    ("announced", "interval"), [("cas-15", SHORT / 8), ("unproven-15", SHORT / 8), ("cas", 60.0), ("blind-15", 60.0)]
)
def test_a_waiter_behind_a_short_lease_polls_often_enough_for_it(
    announced: str, interval: float, pool: ClientPool, entries: LockEntries, runtime: ByHand
) -> None:
    entries.enqueue(NAME, ELSEWHERE + announced)
    watch = DeadLockReaper(entries, runtime, 60.0).watch(NAME, LEASE, may_overwrite=False)
    watch.observe(entries.of(NAME), runtime.read_clocks())
    assert watch.interval_seconds == min(60.0, interval, LEASE / 8)


def test_what_one_waiter_saw_counts_for_the_next(
    hms: FakeHms, entries: LockEntries, look: Look, runtime: ByHand
) -> None:
    entries.enqueue(NAME, ELSEWHERE + "cas")
    first = entries.enqueue(NAME, agent_info("r"))
    assert look(first) == 0
    entries.remove(first)
    runtime.time += LEASE
    hms.now_ms += int(LEASE) * 1000
    assert look(entries.enqueue(NAME, agent_info("r"))) == 1


def test_without_the_databases_time_nothing_is_called_dead(
    hms: FakeHms, entries: LockEntries, found: DeadLockReaper, runtime: ByHand
) -> None:
    entries.enqueue(NAME, ELSEWHERE + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    found.remove_dead(NAME, own, LEASE)
    runtime.time += 10 * LEASE
    hms.now_ms += int(10 * LEASE) * 1000
    entries.remove(own)
    assert found.remove_dead(NAME, own, LEASE) == 0
    next(iter(hms.locks.values())).seen = 0.0
    own = entries.enqueue(NAME, agent_info("r"))
    assert found.remove_dead(NAME, own, LEASE) == 0
    runtime.time += 10 * LEASE
    assert found.remove_dead(NAME, own, LEASE) == 0
    assert len(hms.locks) == 2


def test_a_blind_writers_entry_stays_and_is_reported_once(
    hms: FakeHms,
    server: Running,
    pool: ClientPool,
    entries: LockEntries,
    look: Look,
    ended: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    prove(server, pool)
    entries.enqueue(NAME, ended + "blind")
    own = entries.enqueue(NAME, agent_info("r"))
    with caplog.at_level(logging.WARNING):
        assert [look(own, after=LEASE) for _ in range(3)] == [0, 0, 0]
    assert len(hms.locks) == 2
    (reported,) = [record.getMessage() for record in caplog.records]
    assert "is not removed" in reported
    assert f"`iceberg-hms locks break {min(hms.locks)} --yes`" in reported


def test_an_unproven_writers_entry_is_removed_since_all_its_swaps_require_cas(
    hms: FakeHms, entries: LockEntries, look: Look, ended: str
) -> None:
    entries.enqueue(NAME, ended + "unproven")
    assert look(entries.enqueue(NAME, agent_info("r")), after=LEASE) == 1
    assert "create_table" not in hms.calls


@pytest.mark.parametrize("method", ["show_locks", "unlock"])
def test_a_metastore_that_fails_is_asked_again_at_the_next_look(
    method: str, hms: FakeHms, entries: LockEntries, look: Look, pass_time: Callable[[float], None], ended: str
) -> None:
    entries.enqueue(NAME, ended + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    assert look(own, after=LEASE / 2) == 0
    pass_time(LEASE / 2)
    hms.misbehave[method] += [MetaException("deadlock")] * 2
    assert look(own) == 0
    assert look(own) == 1


def test_looks_keep_their_distance_and_zero_never_looks(
    hms: FakeHms,
    pool: ClientPool,
    entries: LockEntries,
    runtime: ByHand,
    pass_time: Callable[[float], None],
    ended: str,
) -> None:
    entries.enqueue(NAME, ended + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    never = DeadLockReaper(entries, runtime, 0.0).watch(NAME, LEASE, may_overwrite=False)
    watch = DeadLockReaper(entries, runtime, 2.0).watch(NAME, LEASE, may_overwrite=False)
    assert not watch.remove_dead_if_due(own)
    for _ in range(2):
        watch.observe(entries.of(NAME), runtime.read_clocks())
        pass_time(LEASE / 2)
    entries.check(own)
    hms.calls.clear()
    assert not never.remove_dead_if_due(own)
    assert "show_locks" not in hms.calls
    assert watch.remove_dead_if_due(own)
    assert not watch.remove_dead_if_due(own)
    runtime.time += 1
    assert not watch.remove_dead_if_due(own)
    assert hms.calls.count("show_locks") == 1


@pytest.mark.parametrize(("remembered_max", "removed"), [(4, 3), (3, 0)])
def test_an_entry_that_was_forgotten_is_observed_anew(
    remembered_max: int,
    removed: int,
    entries: LockEntries,
    runtime: ByHand,
    pass_time: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_lock_reaper, "REMEMBERED_MAX", remembered_max)
    reaper = DeadLockReaper(entries, runtime, 0.0)
    for _ in range(3):
        entries.enqueue(NAME, ELSEWHERE + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    assert reaper.remove_dead(NAME, own, LEASE) == 0
    pass_time(LEASE)
    entries.check(own)
    assert reaper.remove_dead(NAME, own, LEASE) == removed
