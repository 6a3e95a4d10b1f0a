from __future__ import annotations

import pytest

from iceberg_hms.metastore.compare_and_swap import findings as module
from iceberg_hms.metastore.compare_and_swap.findings import (
    BROKEN_SECONDS,
    CompareAndSwap,
    CompareAndSwapFindings,
    Findings,
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


def learned(*verdicts: tuple[str, CompareAndSwap], time: Time | None = None) -> CompareAndSwapFindings:
    found = CompareAndSwapFindings([ONE, OTHER], (time or Time()).now)
    for uri, verdict in verdicts:
        found.learned(uri, DB, verdict)
    return found


def said(verdicts: CompareAndSwapFindings, namespace: str = DB) -> tuple[SwapProtection, bool]:
    return verdicts.word(namespace), verdicts.all_atomic(namespace)


def test_nothing_is_proven_at_first() -> None:
    verdicts = learned((ONE, UNKNOWN))
    assert said(verdicts) == (SwapProtection.UNPROVEN, False)
    assert verdicts.of(ONE, DB) is UNKNOWN


def test_one_proven_connection_is_cas_and_the_list_only_when_each_is_proven() -> None:
    verdicts = learned((ONE, ATOMIC))
    assert said(verdicts) == (SwapProtection.CAS, False)
    verdicts.learned(OTHER, DB, ATOMIC)
    assert said(verdicts) == (SwapProtection.CAS, True)


@pytest.mark.parametrize("verdict", [CompareAndSwap.CHECKED, CompareAndSwap.IGNORED, BROKEN])
def test_one_that_is_not_atomic_makes_blind_and_stays(verdict: CompareAndSwap) -> None:
    verdicts = learned((ONE, ATOMIC), (OTHER, ATOMIC), (ONE, verdict))
    assert said(verdicts) == (SwapProtection.BLIND, False)
    verdicts.learned(ONE, DB, ATOMIC)
    assert verdicts.of(ONE, DB) is verdict
    assert verdicts.word(DB) is SwapProtection.BLIND


def test_each_database_is_a_case_of_its_own() -> None:
    verdicts = learned((ONE, ATOMIC), (OTHER, ATOMIC))
    assert said(verdicts, "elsewhere") == (SwapProtection.UNPROVEN, False)
    verdicts.learned(ONE, "elsewhere", CompareAndSwap.IGNORED)
    assert said(verdicts, "elsewhere") == (SwapProtection.BLIND, False)
    assert said(verdicts) == (SwapProtection.CAS, True)


def test_broken_is_over_after_a_while_since_it_was_last_found(time: Time) -> None:
    verdicts = learned((ONE, BROKEN), (OTHER, ATOMIC), time=time)
    time.late = BROKEN_SECONDS - 1
    verdicts.learned(ONE, DB, BROKEN)
    time.late += BROKEN_SECONDS - 1
    verdicts.learned(ONE, DB, ATOMIC)
    assert verdicts.word(DB) is SwapProtection.BLIND
    time.late += 1
    assert said(verdicts) == (SwapProtection.CAS, False)
    verdicts.learned(ONE, DB, ATOMIC)
    assert said(verdicts) == (SwapProtection.CAS, True)


def test_what_a_server_cannot_do_outlasts_what_its_database_could_not(time: Time) -> None:
    verdicts = learned((ONE, BROKEN), (ONE, CompareAndSwap.IGNORED), (ONE, BROKEN), time=time)
    time.late = 100 * BROKEN_SECONDS
    assert verdicts.of(ONE, DB) is CompareAndSwap.IGNORED


def test_a_connection_knows_each_database_and_whether_a_swap_was_made_there(time: Time) -> None:
    found = Findings(time.now)
    found.learned(DB, ATOMIC)
    found.learned("elsewhere", BROKEN)
    found.swapped(DB)
    found.swapped("nowhere")
    assert [found.of(name) for name in (DB, "elsewhere", "nowhere")] == [ATOMIC, BROKEN, UNKNOWN]
    assert [found.has_swapped(name) for name in (DB, "elsewhere", "nowhere")] == [True, False, False]
    found.learned(DB, UNKNOWN)
    time.late = BROKEN_SECONDS
    assert [found.of(name) for name in (DB, "elsewhere")] == [ATOMIC, UNKNOWN]


def test_no_more_than_so_many_databases_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DATABASES_MAX", 2)
    verdicts, found = CompareAndSwapFindings([ONE]), Findings()
    for name in ("a", "b", "c"):
        verdicts.learned(ONE, name, ATOMIC)
        found.learned(name, ATOMIC)
    assert [verdicts.of(ONE, name) for name in ("a", "b", "c")] == [UNKNOWN, ATOMIC, ATOMIC]
    assert [found.of(name) for name in ("a", "b", "c")] == [UNKNOWN, ATOMIC, ATOMIC]
