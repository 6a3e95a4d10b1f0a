from __future__ import annotations

import pytest

from iceberg_hms.metastore.verdict import CompareAndSwap, Verdicts, Word

ONE, OTHER = "thrift://one:9083", "thrift://other:9083"


def learned(*verdicts: tuple[str, CompareAndSwap]) -> Verdicts:
    found = Verdicts([ONE, OTHER])
    for uri, verdict in verdicts:
        found.learned(uri, verdict)
    return found


def test_nothing_is_proven_at_first() -> None:
    verdicts = learned((ONE, CompareAndSwap.UNKNOWN))
    assert (verdicts.word, verdicts.all_atomic) == (Word.UNPROVEN, False)
    assert verdicts.of(ONE) is CompareAndSwap.UNKNOWN
    assert verdicts.unknown == (ONE, OTHER)


def test_one_proven_connection_is_cas_and_the_list_only_when_each_is_proven() -> None:
    verdicts = learned((ONE, CompareAndSwap.ATOMIC))
    assert (verdicts.word, verdicts.all_atomic, verdicts.unknown) == (Word.CAS, False, (OTHER,))
    verdicts.learned(OTHER, CompareAndSwap.ATOMIC)
    assert (verdicts.word, verdicts.all_atomic, verdicts.unknown) == (Word.CAS, True, ())


@pytest.mark.parametrize("verdict", [CompareAndSwap.CHECKED, CompareAndSwap.IGNORED, CompareAndSwap.BROKEN])
def test_one_that_is_not_atomic_makes_blind_and_stays(verdict: CompareAndSwap) -> None:
    verdicts = learned((ONE, CompareAndSwap.ATOMIC), (OTHER, CompareAndSwap.ATOMIC), (ONE, verdict))
    assert (verdicts.word, verdicts.all_atomic) == (Word.BLIND, False)
    verdicts.learned(ONE, CompareAndSwap.ATOMIC)
    assert verdicts.of(ONE) is verdict
    assert verdicts.word is Word.BLIND
