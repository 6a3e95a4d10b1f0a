from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore import stale
from iceberg_hms.metastore.entries import Entry, LockEntries
from iceberg_hms.metastore.identity import agent_info
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.stale import StaleEntries
from iceberg_hms.metastore.verdict import CompareAndSwap, Word
from tests.metastore.fake_hms import FakeHms, Running, pool_of, running
from tests.metastore.runtimes import ByHand
from tests.metastore.test_identity import of_a_process_that_ended
from tests.test_forks import said_by

NAME = TableName("db", "t")
LEASE = 300.0
ELSEWHERE = f"iceberg-hms/{'0' * 32}/1/2-3/r.000/"


@pytest.fixture
def runtime() -> Iterator[ByHand]:
    runtime = ByHand()
    yield runtime
    runtime.join()


@pytest.fixture
def found(pool: ClientPool, entries: LockEntries, runtime: ByHand) -> StaleEntries:
    return StaleEntries(pool, entries, runtime, 2.0)


@pytest.fixture(scope="module")
def ended() -> str:
    """What a process of this machine that has ended said, without its last word."""
    return of_a_process_that_ended().removesuffix(Word.UNPROVEN)


def left(hms: FakeHms) -> list[str]:
    return [lock.agentInfo for lock in hms.locks.values()]


@pytest.fixture
def look(hms: FakeHms, entries: LockEntries, found: StaleEntries) -> Callable[[Entry], int]:
    def look(own: Entry) -> int:
        entries.check(own)
        return found.remove_dead(NAME, own, LEASE)

    return look


def prove(server: Running, pool: ClientPool, verdict: CompareAndSwap = CompareAndSwap.ATOMIC) -> None:
    pool.verdicts.learned(server.uri, verdict)


def test_what_an_ended_process_of_this_machine_left_goes_at_once(
    hms: FakeHms, entries: LockEntries, look: Callable[[Entry], int], ended: str
) -> None:
    entries.enqueue(NAME, ended + "cas")
    entries.enqueue(NAME, ended + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    entries.enqueue(NAME, ended + "cas")
    assert look(own) == 3
    assert left(hms) == [own.agent_info]
    assert entries.check(own).acquired


@pytest.mark.parametrize(
    "text", ["another writer", "", agent_info("mine", Word.CAS), ELSEWHERE + "cas", "iceberg-hms/x/cas"]
)
def test_what_is_foreign_or_alive_stays(
    text: str, hms: FakeHms, entries: LockEntries, look: Callable[[Entry], int]
) -> None:
    entries.enqueue(NAME, text)
    own = entries.enqueue(NAME, agent_info("r"))
    assert look(own) == 0
    assert len(hms.locks) == 2


def test_entries_of_other_tables_stay(
    hms: FakeHms, entries: LockEntries, look: Callable[[Entry], int], ended: str
) -> None:
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
    look: Callable[[Entry], int],
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
    hms: FakeHms, entries: LockEntries, look: Callable[[Entry], int], runtime: ByHand
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
    hms: FakeHms, entries: LockEntries, look: Callable[[Entry], int], runtime: ByHand
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


def test_what_one_waiter_saw_counts_for_the_next(
    hms: FakeHms, entries: LockEntries, look: Callable[[Entry], int], runtime: ByHand
) -> None:
    entries.enqueue(NAME, ELSEWHERE + "cas")
    first = entries.enqueue(NAME, agent_info("r"))
    assert look(first) == 0
    entries.remove(first)
    runtime.time += LEASE
    hms.now_ms += int(LEASE) * 1000
    assert look(entries.enqueue(NAME, agent_info("r"))) == 1


def test_without_the_databases_time_nothing_is_called_dead(
    hms: FakeHms, entries: LockEntries, found: StaleEntries, runtime: ByHand
) -> None:
    entries.enqueue(NAME, ELSEWHERE + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    found.remove_dead(NAME, own, LEASE)
    runtime.time += 10 * LEASE
    hms.now_ms += int(10 * LEASE) * 1000
    entries.remove(own)
    assert found.remove_dead(NAME, own, LEASE) == 0
    next(iter(hms.locks.values())).lastheartbeat = 0
    own = entries.enqueue(NAME, agent_info("r"))
    assert found.remove_dead(NAME, own, LEASE) == 0
    runtime.time += 10 * LEASE
    assert found.remove_dead(NAME, own, LEASE) == 0
    assert len(hms.locks) == 2


def test_who_may_have_swapped_blindly_is_left_and_that_is_told_once(
    hms: FakeHms,
    server: Running,
    pool: ClientPool,
    entries: LockEntries,
    look: Callable[[Entry], int],
    ended: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    prove(server, pool)
    entries.enqueue(NAME, ended + "blind")
    own = entries.enqueue(NAME, agent_info("r"))
    with caplog.at_level(logging.WARNING):
        assert [look(own) for _ in range(3)] == [0, 0, 0]
    assert len(hms.locks) == 2
    (told,) = [record.getMessage() for record in caplog.records]
    assert "is left" in told
    assert f"`iceberg-hms locks break {min(hms.locks)} --yes`" in told


def test_the_unproven_goes_when_every_server_is_proven(
    hms: FakeHms,
    server: Running,
    pool: ClientPool,
    entries: LockEntries,
    look: Callable[[Entry], int],
    ended: str,
) -> None:
    prove(server, pool)
    entries.enqueue(NAME, ended + "unproven")
    assert look(entries.enqueue(NAME, agent_info("r"))) == 1
    assert "create_table" not in hms.calls


def test_a_server_that_nothing_is_known_of_is_proven_for_it(
    hms: FakeHms, entries: LockEntries, look: Callable[[Entry], int], runtime: ByHand, ended: str
) -> None:
    entries.enqueue(NAME, ended + "unproven")
    own = entries.enqueue(NAME, agent_info("r"))
    assert look(own) == 0
    runtime.join()
    assert look(own) == 1
    assert hms.calls.count("create_table") == 1
    assert hms.tables == {}


def test_a_scratch_row_that_stayed_after_a_proof_is_dropped(
    hms: FakeHms, entries: LockEntries, look: Callable[[Entry], int], runtime: ByHand, ended: str
) -> None:
    hms.misbehave["drop_table"].append(MetaException("busy"))
    entries.enqueue(NAME, ended + "unproven")
    assert look(entries.enqueue(NAME, agent_info("r"))) == 0
    runtime.join()
    assert hms.calls.count("drop_table") == 2
    assert hms.tables == {}


def test_every_server_of_the_list_must_be_proven(
    hms: FakeHms, server: Running, entries: LockEntries, runtime: ByHand, ended: str
) -> None:
    with running() as other, pool_of(server, other) as both:
        other.hms.compare_and_swap = "ignored"
        found = StaleEntries(both, LockEntries(both, "ada"), runtime, 2.0)
        entries.enqueue(NAME, ended + "unproven")
        own = entries.enqueue(NAME, agent_info("r"))
        for _ in range(3):
            assert found.remove_dead(NAME, own, LEASE) == 0
            runtime.join()
        assert both.verdicts.word is Word.BLIND
    assert len(hms.locks) == 2


def test_nothing_is_proven_when_one_server_is_known_not_to_be_atomic(
    hms: FakeHms, server: Running, runtime: ByHand, ended: str
) -> None:
    with running() as other, pool_of(server, other) as both:
        prove(other, both, CompareAndSwap.IGNORED)
        entries = LockEntries(both, "ada")
        entries.enqueue(NAME, ended + "unproven")
        own = entries.enqueue(NAME, agent_info("r"))
        assert StaleEntries(both, entries, runtime, 2.0).remove_dead(NAME, own, LEASE) == 0
        assert runtime.threads == []
    assert "create_table" not in hms.calls


@pytest.mark.parametrize("behaviour", ["checked", "ignored", "broken"])
def test_the_unproven_stays_where_servers_are_not_atomic(
    behaviour: str,
    hms: FakeHms,
    entries: LockEntries,
    look: Callable[[Entry], int],
    runtime: ByHand,
    ended: str,
) -> None:
    hms.compare_and_swap = behaviour
    entries.enqueue(NAME, ended + "unproven")
    own = entries.enqueue(NAME, agent_info("r"))
    for _ in range(3):
        assert look(own) == 0
        runtime.join()
        runtime.time += 2 * stale.PROOF_INTERVAL_SECONDS
    assert hms.calls.count("create_table") == 1
    assert len(hms.locks) == 2


def test_a_proof_that_fails_is_not_tried_at_every_look(
    hms: FakeHms, entries: LockEntries, look: Callable[[Entry], int], runtime: ByHand, ended: str
) -> None:
    hms.misbehave["create_table"] += [MetaException("Permission denied")] * 2
    entries.enqueue(NAME, ended + "unproven")
    own = entries.enqueue(NAME, agent_info("r"))
    for _ in range(3):
        assert look(own) == 0
        runtime.join()
    assert hms.calls.count("create_table") == 1
    runtime.time += stale.PROOF_INTERVAL_SECONDS
    look(own)
    runtime.join()
    assert hms.calls.count("create_table") == 2


def test_a_server_out_of_reach_stays_unproven(
    hms: FakeHms, server: Running, entries: LockEntries, runtime: ByHand, ended: str
) -> None:
    with running() as gone:
        pass
    with pool_of(server, gone) as both:
        found = StaleEntries(both, LockEntries(both, "ada"), runtime, 2.0)
        entries.enqueue(NAME, ended + "unproven")
        own = entries.enqueue(NAME, agent_info("r"))
        for _ in range(2):
            assert found.remove_dead(NAME, own, LEASE) == 0
            runtime.join()
        assert both.verdicts.of(server.uri) is CompareAndSwap.ATOMIC
        assert both.verdicts.unknown == (gone.uri,)


@pytest.mark.parametrize("method", ["show_locks", "unlock"])
def test_a_metastore_that_fails_is_asked_again_at_the_next_look(
    method: str, hms: FakeHms, entries: LockEntries, look: Callable[[Entry], int], ended: str
) -> None:
    entries.enqueue(NAME, ended + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    hms.misbehave[method].append(MetaException("deadlock"))
    assert look(own) == 0
    assert look(own) == 1


def test_looks_keep_their_distance_and_zero_never_looks(
    hms: FakeHms, pool: ClientPool, entries: LockEntries, runtime: ByHand, ended: str
) -> None:
    entries.enqueue(NAME, ended + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    never = StaleEntries(pool, entries, runtime, 0.0).watch(NAME, LEASE)
    watch = StaleEntries(pool, entries, runtime, 2.0).watch(NAME, LEASE)
    assert not watch.look(own)
    runtime.time += 2
    assert not never.look(own)
    assert "show_locks" not in hms.calls
    assert watch.look(own)
    assert not watch.look(own)
    runtime.time += 1
    assert not watch.look(own)
    assert hms.calls.count("show_locks") == 1


def test_no_more_than_so_many_entries_are_remembered(
    entries: LockEntries, found: StaleEntries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stale, "SEEN_MAX", 3)
    for _ in range(9):
        entries.enqueue(NAME, ELSEWHERE + "cas")
    own = entries.enqueue(NAME, agent_info("r"))
    assert found.remove_dead(NAME, own, LEASE) == 0
    assert len(found._seen) == 3


#: Forks while a thread of the parent proves the servers, and remembers what it has seen.
FORKING = """
import os, signal, sys
from iceberg_hms.metastore.entries import LockEntries
from iceberg_hms.metastore.identity import agent_info
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.stale import StaleEntries
from tests.metastore.runtimes import ByHand
from tests.metastore.test_stale import ELSEWHERE, LEASE, NAME

pool, runtime = ClientPool([sys.argv[1]]), ByHand()
entries = LockEntries(pool, "ada")
found = StaleEntries(pool, entries, runtime, 2.0)
entries.enqueue(NAME, ELSEWHERE + "cas")
entries.enqueue(NAME, ELSEWHERE + "unproven")
own = entries.enqueue(NAME, agent_info("r"))
found.remove_dead(NAME, own, LEASE)
seen = dict(found._seen)
runtime.spawn = lambda *_, **__: None
found._begin_proof("db")
found._mutex.acquire()
child = os.fork()
if child == 0:
    signal.alarm(10)
    proofs = []
    runtime.spawn = lambda *_, **__: proofs.append(1)
    found.remove_dead(NAME, own, LEASE)
    found._begin_proof("db")
    os._exit(0 if proofs and seen and all(found._seen[key] is sight for key, sight in seen.items()) else 1)
found._mutex.release()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_knows_what_was_seen_and_may_begin_a_proof(server: Running) -> None:
    assert said_by(FORKING, server.uri) == "0\n"
