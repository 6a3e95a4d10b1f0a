from __future__ import annotations

import pytest

from iceberg_hms.metastore.connection import cas_support
from iceberg_hms.metastore.connection.cas_support import (
    BROKEN_SECONDS,
    CompareAndSwap,
    ConnectionCasSupport,
    PoolCasSupport,
    SwapProtection,
)

ONE, OTHER = "thrift://one:9083", "thrift://other:9083"
DB = "db"
ATOMIC, BROKEN, UNKNOWN = CompareAndSwap.ATOMIC, CompareAndSwap.BROKEN, CompareAndSwap.UNKNOWN


class Time:
    def __init__(self) -> None:
        self.late = 0.0

    def now(self) -> float:
        return self.late


@pytest.fixture
def time() -> Time:
    return Time()


def pool_that_learned(*proofs: tuple[str, CompareAndSwap], time: Time | None = None) -> PoolCasSupport:
    pool = PoolCasSupport((time or Time()).now)
    for uri, each in proofs:
        pool.learn(uri, DB, each)
    return pool


def said(support: PoolCasSupport, namespace: str = DB) -> tuple[SwapProtection, bool]:
    return support.protection(namespace), support.may_overwrite(namespace)


def test_nothing_is_proved_at_first() -> None:
    support = pool_that_learned((ONE, UNKNOWN))
    assert said(support) == (SwapProtection.UNPROVEN, False)
    assert support.of(ONE, DB) is UNKNOWN


def test_one_proved_connection_is_cas() -> None:
    support = pool_that_learned((ONE, ATOMIC))
    assert said(support) == (SwapProtection.CAS, False)
    support.learn(OTHER, DB, ATOMIC)
    assert said(support) == (SwapProtection.CAS, False)


@pytest.mark.parametrize("each", [CompareAndSwap.CHECKED, CompareAndSwap.IGNORED, BROKEN])
def test_an_address_that_was_not_atomic_once_stays_so_and_makes_its_database_blind(each: CompareAndSwap) -> None:
    support = pool_that_learned((ONE, ATOMIC), (OTHER, ATOMIC), (ONE, each))
    assert said(support) == (SwapProtection.BLIND, True)
    support.learn(ONE, DB, ATOMIC)
    assert support.of(ONE, DB) is each
    assert support.protection(DB) is SwapProtection.BLIND


def test_each_database_is_proved_on_its_own() -> None:
    support = pool_that_learned((ONE, ATOMIC), (OTHER, ATOMIC))
    assert said(support, "elsewhere") == (SwapProtection.UNPROVEN, False)
    support.learn(ONE, "elsewhere", CompareAndSwap.IGNORED)
    assert said(support, "elsewhere") == (SwapProtection.BLIND, True)
    assert said(support) == (SwapProtection.CAS, False)


def test_broken_expires_some_time_after_it_was_last_connection(time: Time) -> None:
    support = pool_that_learned((ONE, BROKEN), (OTHER, ATOMIC), time=time)
    time.late = BROKEN_SECONDS - 1
    support.learn(ONE, DB, BROKEN)
    time.late += BROKEN_SECONDS - 1
    support.learn(ONE, DB, ATOMIC)
    assert support.protection(DB) is SwapProtection.BLIND
    time.late += 1
    assert said(support) == (SwapProtection.CAS, False)


def test_what_a_server_ignores_does_not_expire_with_what_its_database_failed(time: Time) -> None:
    support = pool_that_learned((ONE, BROKEN), (ONE, CompareAndSwap.IGNORED), (ONE, BROKEN), time=time)
    time.late = 100 * BROKEN_SECONDS
    assert support.of(ONE, DB) is CompareAndSwap.IGNORED


def test_a_connection_knows_for_each_database_its_support_and_whether_a_swap_succeeded(time: Time) -> None:
    connection = ConnectionCasSupport(time.now)
    connection.learn(DB, ATOMIC)
    connection.learn("elsewhere", BROKEN)
    connection.record_swap(DB)
    connection.record_swap("nowhere")
    assert [connection.of(name) for name in (DB, "elsewhere", "nowhere")] == [ATOMIC, BROKEN, UNKNOWN]
    assert [connection.has_swapped(name) for name in (DB, "elsewhere", "nowhere")] == [True, False, False]
    connection.learn(DB, UNKNOWN)
    time.late = BROKEN_SECONDS
    assert [connection.of(name) for name in (DB, "elsewhere")] == [ATOMIC, UNKNOWN]


def test_only_the_last_databases_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cas_support, "DATABASES_MAX", 2)
    pool, connection = PoolCasSupport(), ConnectionCasSupport()
    for name in ("a", "b", "c"):
        pool.learn(ONE, name, ATOMIC)
        connection.learn(name, ATOMIC)
    assert [pool.of(ONE, name) for name in ("a", "b", "c")] == [UNKNOWN, ATOMIC, ATOMIC]
    assert [connection.of(name) for name in ("a", "b", "c")] == [UNKNOWN, ATOMIC, ATOMIC]
