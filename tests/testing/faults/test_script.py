from __future__ import annotations

import threading

import pytest

from iceberg_hms.testing.faults.script import FREEZE, PASS, FaultStep, ProxiedCall, ScriptedFault, Wait, delay


def hits(fault: ScriptedFault, *calls: ProxiedCall) -> list[bool]:
    return [fault.hits(call) for call in calls]


def call(method: str = "lock", connection: int = 1) -> ProxiedCall:
    return ProxiedCall(connection, method, 1)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (ScriptedFault("lock", PASS), [True, False, False, False]),
        (ScriptedFault("lock", PASS, nth=2), [False, False, True, False]),
        (ScriptedFault("lock", PASS, nth=2, times=2), [False, False, True, True]),
        (ScriptedFault("lock", PASS, times=None), [True, False, True, True]),
        (ScriptedFault("", PASS, nth=2), [False, True, False, False]),
        (ScriptedFault("lock", PASS, connection=2), [False, False, False, True]),
    ],
)
def test_a_fault_hits_the_calls_that_it_names(fault: ScriptedFault, expected: list[bool]) -> None:
    assert hits(fault, call(), call("unlock"), call(), call(connection=2)) == expected


def test_a_fault_can_test_the_request() -> None:
    fault = ScriptedFault("lock", PASS, nth=2, only=lambda request: b"mine" in request)
    asked = [b"mine 1", b"another's", b"mine 2", b"mine 3"]
    assert [fault.hits(call(), request) for request in asked] == [False, False, True, False]


def test_a_delay_lets_the_call_through_afterwards() -> None:
    assert delay(0.5) == (Wait(0.5), FaultStep.SEND, FaultStep.REPLY)


@pytest.mark.parametrize("let_go", [True, False])
def test_a_held_call_waits_for_the_test(let_go: bool) -> None:
    fault = ScriptedFault("lock", FREEZE)
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(fault.hold()))
    assert not fault.held(0)
    thread.start()
    assert fault.held(10)
    assert answers == []
    (fault.release if let_go else fault.drop)()
    thread.join(10)
    assert answers == [let_go]
    assert not fault.done(0)
    fault.finish()
    assert fault.done(0)
