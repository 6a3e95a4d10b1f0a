"""The owner of a thread's work, whether its caller has left, and what the work used."""

from __future__ import annotations

import contextlib
import threading
from functools import partial

import pytest

from iceberg_hms import work
from iceberg_hms.errors import CommitFailed
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.work import NOBODY, owned_by, owner, stop_if_caller_left, working_for


def test_work_belongs_to_the_innermost_owner_who_was_named() -> None:
    assert owner() == NOBODY
    with owned_by("a"):
        with owned_by("b"):
            assert owner() == "b"
        assert owner() == "a"
    assert owner() == NOBODY


def test_an_error_ends_the_work_too() -> None:
    with contextlib.suppress(ValueError), owned_by("a"):
        raise ValueError
    assert owner() == NOBODY


def test_threads_that_help_work_for_the_same_owner() -> None:
    with owned_by("a"):
        assert ThreadRuntime().gather([owner] * 20) == ["a"] * 20


def test_work_without_a_caller_goes_on() -> None:
    stop_if_caller_left()


def test_work_stops_when_its_caller_has_left() -> None:
    left = False
    with working_for(lambda: left):
        stop_if_caller_left()
        left = True
        with pytest.raises(CommitFailed, match="its caller left"):
            stop_if_caller_left()
    stop_if_caller_left()


def test_work_within_work_has_its_own_caller() -> None:
    with working_for(lambda: True), working_for(lambda: False):
        stop_if_caller_left()


def test_what_nobody_measures_is_not_counted() -> None:
    work.called("lock")
    work.wrote(7)
    with work.measured() as measured:
        pass
    work.called("unlock")
    assert (measured.calls, measured.writes) == ([], [])


def test_calls_and_bytes_are_collected_in_order() -> None:
    with work.measured() as measured:
        work.called("lock")
        work.wrote(7)
        work.called("unlock")
    assert (measured.calls, measured.writes) == (["lock", "unlock"], [7])


def test_an_inner_measurement_counts_for_itself() -> None:
    def breaks() -> None:
        with work.measured() as inner:
            work.called("lock")
            inners.append(inner)
            raise ValueError("broken")

    inners: list[work.Usage] = []
    with work.measured() as outer:
        with pytest.raises(ValueError, match="broken"):
            breaks()
        work.called("unlock")
    assert (outer.calls, inners[0].calls) == (["unlock"], ["lock"])


def test_threads_that_work_for_a_commit_are_counted_and_others_are_not() -> None:
    runtime = ThreadRuntime()
    with work.measured() as measured:
        runtime.gather([partial(work.wrote, length) for length in range(1, 6)])
        beaten = threading.Event()

        def beat() -> None:
            work.called("heartbeat")
            beaten.set()

        runtime.spawn("heartbeat", beat)
        assert beaten.wait(10)
    assert sorted(measured.writes) == [1, 2, 3, 4, 5]
    assert measured.calls == []


def test_the_three_are_independent() -> None:
    with owned_by("a"), work.measured() as measured, working_for(lambda: True):
        work.called("lock")
        assert owner() == "a"
        with owned_by("b"), pytest.raises(CommitFailed):
            stop_if_caller_left()
    assert measured.calls == ["lock"]
