"""What is counted, and for whom."""

import threading

import pytest

from iceberg_hms.coordinator import usage
from iceberg_hms.runtime import ThreadRuntime


def test_what_nobody_measures_is_not_counted():
    usage.called("lock")
    usage.wrote(7)
    with usage.measured() as measured:
        pass
    usage.called("unlock")
    assert (measured.calls, measured.writes) == ([], [])


def test_calls_and_bytes_are_collected_in_order():
    with usage.measured() as measured:
        usage.called("lock")
        usage.wrote(7)
        usage.called("unlock")
    assert (measured.calls, measured.writes) == (["lock", "unlock"], [7])


def test_an_inner_measurement_counts_for_itself():
    def breaks():
        with usage.measured() as inner:
            usage.called("lock")
            inners.append(inner)
            raise ValueError("broken")

    inners = []
    with usage.measured() as outer:
        with pytest.raises(ValueError, match="broken"):
            breaks()
        usage.called("unlock")
    assert (outer.calls, inners[0].calls) == (["unlock"], ["lock"])


def test_threads_that_work_for_a_commit_are_counted_and_others_are_not():
    runtime = ThreadRuntime()
    with usage.measured() as measured:
        runtime.gather([lambda length=length: usage.wrote(length) for length in range(1, 6)])
        beaten = threading.Event()

        def beat():
            usage.called("heartbeat")
            beaten.set()

        runtime.spawn("heartbeat", beat)
        assert beaten.wait(10)
    assert sorted(measured.writes) == [1, 2, 3, 4, 5]
    assert measured.calls == []
