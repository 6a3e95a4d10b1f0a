from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.coordinator.ports import Pointer, Refused, Sending, Swapped, Unanswered
from iceberg_hms.errors import LockLost
from iceberg_hms.locking.held_locks import NoLock
from iceberg_hms.metastore.compare_and_swap.row_write import alter_arguments
from iceberg_hms.metastore.compare_and_swap.swap import SwapSender
from iceberg_hms.metastore.connection.pool import ClientPool
from tests.metastore.compare_and_swap.swaps import ALTER, NAME, PROBE, TRUE, is_unanswered, location, moved_to
from tests.metastore.fake_hms import Late, Running, Silence, pool_of
from tests.metastore.recording_hms import Recording


def test_an_alter_compares_what_it_is_given_and_asks_for_no_statistics() -> None:
    arguments = alter_arguments(NAME, row := object(), ("metadata_location", "m0"))
    assert arguments.pop("environment_context").properties == {
        "DO_NOT_UPDATE_STATS": "true",
        "expected_parameter_key": "metadata_location",
        "expected_parameter_value": "m0",
    }
    assert arguments == {"dbname": "db", "tbl_name": "t", "new_tbl": row}


def test_an_alter_without_an_expected_value_compares_nothing() -> None:
    context = alter_arguments(NAME, object(), None)["environment_context"]
    assert context.properties == {"DO_NOT_UPDATE_STATS": "true"}


@pytest.mark.parametrize("kind", ["checked", "ignored", "broken"])
def test_a_swap_that_is_not_atomic_waits_patiently_for_its_answer(
    kind: str, hms: Recording, server: Running, base: Pointer
) -> None:
    hms.swap_support = kind
    with pool_of(server, timeout_ms=250) as pool:
        swaps = SwapSender(pool)
        assert swaps.alter(base, moved_to(base, "m0"), Sending()) == Swapped()  # proves the connection
        late = Late()
        hms.misbehave[ALTER].append(late)
        assert swaps.alter(base, moved_to(base, "m1"), Sending(overdue=late.go.set)) == Swapped()
    assert late.go.is_set()
    assert location(hms) == "m1"


def test_the_first_swap_of_a_connection_waits_patiently_too(hms: Recording, server: Running, base: Pointer) -> None:
    hms.swap_support = "checked"
    late = Late()
    hms.misbehave[ALTER] += [None, late]
    with pool_of(server, timeout_ms=250) as pool:
        assert SwapSender(pool).alter(base, moved_to(base, "m1"), Sending(overdue=late.go.set)) == Swapped()
    assert late.go.is_set()


def test_an_atomic_swap_waits_for_the_ordinary_time(hms: Recording, server: Running, base: Pointer) -> None:
    with pool_of(server, timeout_ms=100) as pool:
        swaps = SwapSender(pool)
        assert swaps.alter(base, moved_to(base, "m0"), Sending()) == Swapped()
        hms.misbehave[ALTER].append(Silence())
        told: list[bool] = []
        answer = swaps.alter(base, moved_to(base, "m1"), Sending(overdue=lambda: told.append(True)))
        assert is_unanswered(answer, atomic=True)
    assert told == []


def test_an_unanswered_swap_says_how_long_it_waited(hms: Recording, server: Running, base: Pointer) -> None:
    hms.swap_support = "checked"
    hms.misbehave[ALTER] += [None, Late()]
    pool = ClientPool([server.uri], connect_timeout_ms=5_000, socket_timeout_ms=500, patience_ms=600)
    answer = SwapSender(pool).alter(base, moved_to(base, "m1"), Sending())
    pool.close()
    assert isinstance(answer, Unanswered)
    assert answer.waited_seconds >= 0.6


class Aged(NoLock):
    lease_seconds = 300.0
    age = 0.0

    def seconds_since_renewal(self) -> float:
        return self.age


@pytest.mark.parametrize(
    ("behaviour", "asked", "raised"),
    [("checked", [PROBE], True), ("ignored", [PROBE], True), ("broken", [PROBE, TRUE], False)],
)
def test_an_alter_that_is_not_atomic_is_not_sent_if_its_lock_aged_during_the_probe(
    behaviour: str, asked: list[Any], raised: bool, hms: Recording, swaps: SwapSender, base: Pointer
) -> None:
    """Another writer may have the lock by now. Where a first alter was sent the caller must check the table."""
    hms.swap_support = behaviour
    lock = Aged()
    hms.before_alter = lambda _table: setattr(lock, "age", 150.1 if hms.expected == asked else 0.0)
    if raised:
        with pytest.raises(LockLost):
            swaps.alter(base, moved_to(base, "m1"), Sending([lock]))
    else:
        answer = swaps.alter(base, moved_to(base, "m1"), Sending([lock]))
        assert isinstance(answer, Refused)
        assert (answer.conflict, type(answer.error)) == (True, LockLost)
    assert hms.expected == asked
    assert location(hms) == "m0"


def test_an_atomic_alter_is_not_sent_if_its_lock_expired_during_the_probe(
    hms: Recording, swaps: SwapSender, base: Pointer
) -> None:
    """Behind one address another server may compare nothing: a writer that took the lock swaps there, over this one."""

    class Expired(Aged):
        def seconds_since_renewal(self) -> float:
            if self.age:
                raise LockLost("not renewed for its lease")
            return 0.0

    hms.swap_support = "atomic"
    lock = Expired()
    hms.before_alter = lambda _table: setattr(lock, "age", 300.1)
    with pytest.raises(LockLost):
        swaps.alter(base, moved_to(base, "m1"), Sending([lock]))
    assert (hms.expected, location(hms)) == ([PROBE], "m0")
    lock.age = 0.0
    assert isinstance(swaps.alter(base, moved_to(base, "m1"), Sending([lock])), Swapped)
