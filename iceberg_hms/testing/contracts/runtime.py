"""What every implementation of `coordinator.ports.Runtime` must do.

Each check takes the runtime, and runs on one of its threads. Functions passed to `gather` must not wait for each other,
since a simulation may run them one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from iceberg_hms import work
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.testing.contracts import checks_of, expect, expect_equal, expect_raises

Check = Callable[[Runtime], None]

#: Only a broken runtime makes a check wait that long; seconds.
_LONG: Final = 30.0
_TASKS: Final = 4


def time_advances_at_least_by_a_sleep(runtime: Runtime) -> None:
    before = runtime.now()
    runtime.sleep(0.02)
    expect(runtime.now() - before >= 0.02, "sleep ended early")
    runtime.sleep(0)
    expect(runtime.now() >= before, "now() went back")


def the_wall_clock_counts_milliseconds(runtime: Runtime) -> None:
    expect(isinstance(runtime.now_ms(), int), "now_ms is not a whole number")
    expect(runtime.now_ms() > 10**12, "now_ms does not count milliseconds since 1970")


def random_numbers_are_in_their_range_and_differ(runtime: Runtime) -> None:
    found = [runtime.jitter() for _ in range(50)]
    expect(all(0 <= number < 1 for number in found), "jitter outside of [0, 1)")
    expect(len(set(found)) > 1, "jitter is always the same")


def ids_are_new(runtime: Runtime) -> None:
    found = {runtime.uuid() for _ in range(50)}
    expect_equal(len(found), 50, "different ids")
    expect(all(len(each) <= 36 and each == each.lower() for each in found), "an id is no lower-case uuid")


def a_wait_returns_on_the_event_or_after_its_timeout(runtime: Runtime) -> None:
    event = runtime.event()
    expect(not event.is_set(), "a new event is set")
    expect_equal(event.wait(0.01), False, "wait for an event that never comes")
    expect_equal(event.wait(0), False, "wait without waiting")
    runtime.spawn("setter", event.set)
    expect_equal(event.wait(_LONG), True, "wait")
    expect(event.is_set(), "the event is not set")
    event.set()
    expect_equal(event.wait(0), True, "wait for an event that is set")


def a_mutex_admits_one_thread_at_a_time(runtime: Runtime) -> None:
    mutex, done = runtime.mutex(), runtime.event()
    count, ended = [0], [0]

    def work() -> None:
        for _ in range(3):
            with mutex:
                seen = count[0]
                runtime.sleep(0.001)
                count[0] = seen + 1
        with mutex:
            ended[0] += 1
            if ended[0] == _TASKS:
                done.set()

    for number in range(_TASKS):
        runtime.spawn(f"worker {number}", work)
    expect(done.wait(_LONG), "the workers did not end")
    expect_equal(count[0], 3 * _TASKS, "count under the mutex")


def gathered_results_are_in_order(runtime: Runtime) -> None:
    expect_equal(runtime.gather([]), [], "gather of nothing")
    expect_equal(runtime.gather([partial(pow, n, 2) for n in range(6)]), [0, 1, 4, 9, 16, 25], "gather")


def gather_raises_an_error_after_all_functions_ended(runtime: Runtime) -> None:
    ended: list[int] = []

    def work(number: int) -> None:
        if number == 1:
            raise LookupError(number)
        runtime.sleep(0.005)
        ended.append(number)

    with expect_raises(LookupError, "gather"):
        runtime.gather([partial(work, n) for n in range(4)])
    expect_equal(sorted(ended), [0, 2, 3], "functions that ended before gather raised")


def gathered_functions_share_the_callers_context_and_spawned_ones_do_not(runtime: Runtime) -> None:
    done = runtime.event()

    def spawned() -> None:
        work.called("heartbeat")
        done.set()

    with work.measured() as measured:
        runtime.gather([partial(work.wrote, n) for n in range(1, 5)])
        runtime.spawn("heartbeat", spawned)
        expect(done.wait(_LONG), "the heartbeat did not come")
    expect_equal(sorted(measured.writes), [1, 2, 3, 4], "counted bytes")
    expect_equal(measured.calls, [], "counted calls")


def begun_functions_end_in_the_callers_context(runtime: Runtime) -> None:
    with work.measured() as measured:
        begun = [runtime.begin(partial(_wrote, n)) for n in range(1, 5)]
    expect_equal([each.result() for each in begun], [1, 2, 3, 4], "results")
    expect_equal(sorted(measured.writes), [1, 2, 3, 4], "counted bytes")


def _wrote(number: int) -> int:
    work.wrote(number)
    return number


def a_begun_function_raises_its_error_where_its_result_is_wanted(runtime: Runtime) -> None:
    def fail() -> None:
        raise LookupError("begun")

    begun, other = runtime.begin(fail), runtime.begin(lambda: 7)
    with expect_raises(LookupError, "result"):
        begun.result()
    expect_equal(other.result(), 7, "the other's result")


def an_abandoned_function_keeps_nobody_waiting(runtime: Runtime) -> None:
    runtime.begin(lambda: runtime.sleep(0.001)).abandon()
    expect_equal(runtime.begin(lambda: 7).result(), 7, "the next one's result")


def run_while_waiting_returns_after_both_functions_ended(runtime: Runtime) -> None:
    ended: list[str] = []

    def build() -> None:
        runtime.sleep(0.02)
        work.wrote(1)
        ended.append("work")

    with work.measured() as measured:
        expect_equal(runtime.run_while_waiting(build, lambda: ended.append("wait") or 7), 7, "the wait's result")  # type: ignore[func-returns-value]
    expect_equal(sorted(ended), ["wait", "work"], "functions that ended")
    expect_equal(measured.writes, [1], "counted bytes")


def run_while_waiting_raises_either_error_after_both_functions_ended(runtime: Runtime) -> None:
    ended: list[str] = []

    def raises() -> None:
        raise LookupError

    def ends() -> None:
        begun.append(1)
        runtime.sleep(0.02)
        ended.append("")

    for first, wait in ((raises, ends), (ends, raises)):
        begun: list[int] = []
        ended.clear()
        with expect_raises(LookupError, "run_while_waiting"):
            runtime.run_while_waiting(first, wait)
        expect_equal(len(ended), len(begun), "functions that ended before the error")


CHECKS: Final[tuple[Check, ...]] = checks_of(globals())
