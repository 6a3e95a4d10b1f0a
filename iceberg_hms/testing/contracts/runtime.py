"""What every implementation of `coordinator.ports.Runtime` must do.

Each check takes the runtime, on a thread of which it runs. Functions that `gather` runs side by side must not wait for
each other: a simulation runs them one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.coordinator.protocol import usage
from iceberg_hms.testing.contracts import expect, expect_equal, expect_raises

Check = Callable[[Runtime], None]

#: Only a broken runtime makes a check wait so long; seconds.
_LONG: Final = 30.0
_TASKS: Final = 4


def time_goes_on_and_a_sleep_takes_it(runtime: Runtime) -> None:
    before = runtime.now()
    runtime.sleep(0.02)
    expect(runtime.now() - before >= 0.02, "sleep ended early")
    runtime.sleep(0)
    expect(runtime.now() >= before, "now() went back")


def the_wall_clock_tells_milliseconds(runtime: Runtime) -> None:
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


def an_event_is_waited_for_and_a_wait_in_vain_ends(runtime: Runtime) -> None:
    event = runtime.event()
    expect(not event.is_set(), "a new event is set")
    expect_equal(event.wait(0.01), False, "wait in vain")
    expect_equal(event.wait(0), False, "wait without waiting")
    runtime.spawn("setter", event.set)
    expect_equal(event.wait(_LONG), True, "wait")
    expect(event.is_set(), "the event is not set")
    event.set()
    expect_equal(event.wait(0), True, "wait for what has happened")


def a_mutex_lets_one_in(runtime: Runtime) -> None:
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
    expect_equal(count[0], 3 * _TASKS, "what was counted under the mutex")


def gathered_results_are_in_order(runtime: Runtime) -> None:
    expect_equal(runtime.gather([]), [], "gather of nothing")
    expect_equal(runtime.gather([partial(pow, n, 2) for n in range(6)]), [0, 1, 4, 9, 16, 25], "gather")


def a_gathered_error_is_raised_when_all_have_ended(runtime: Runtime) -> None:
    ended: list[int] = []

    def work(number: int) -> None:
        if number == 1:
            raise LookupError(number)
        runtime.sleep(0.005)
        ended.append(number)

    with expect_raises(LookupError, "gather"):
        runtime.gather([partial(work, n) for n in range(4)])
    expect_equal(sorted(ended), [0, 2, 3], "who ended before the error was raised")


def what_is_gathered_is_in_its_caller_s_context_and_what_is_spawned_is_not(runtime: Runtime) -> None:
    done = runtime.event()

    def elsewhere() -> None:
        usage.called("heartbeat")
        done.set()

    with usage.measured() as measured:
        runtime.gather([partial(usage.wrote, n) for n in range(1, 5)])
        runtime.spawn("heartbeat", elsewhere)
        expect(done.wait(_LONG), "the heartbeat did not come")
    expect_equal(sorted(measured.writes), [1, 2, 3, 4], "bytes that were counted")
    expect_equal(measured.calls, [], "calls that were counted")


def what_is_done_meanwhile_has_ended_when_the_wait_has(runtime: Runtime) -> None:
    ended: list[str] = []

    def work() -> None:
        runtime.sleep(0.02)
        usage.wrote(1)
        ended.append("work")

    with usage.measured() as measured:
        expect_equal(runtime.run_while_waiting(work, lambda: ended.append("wait") or 7), 7, "the wait's result")  # type: ignore[func-returns-value]
    expect_equal(sorted(ended), ["wait", "work"], "what has ended")
    expect_equal(measured.writes, [1], "bytes that were counted")


def an_error_of_the_wait_or_of_the_work_is_raised_when_both_have_ended(runtime: Runtime) -> None:
    ended: list[str] = []

    def raises() -> None:
        raise LookupError

    def ends() -> None:
        begun.append(1)
        runtime.sleep(0.02)
        ended.append("")

    for work, wait in ((raises, ends), (ends, raises)):
        begun: list[int] = []
        ended.clear()
        with expect_raises(LookupError, "meanwhile"):
            runtime.run_while_waiting(work, wait)
        expect_equal(len(ended), len(begun), "who had ended before the error was raised")


CHECKS: Final[tuple[Check, ...]] = (
    time_goes_on_and_a_sleep_takes_it,
    the_wall_clock_tells_milliseconds,
    random_numbers_are_in_their_range_and_differ,
    ids_are_new,
    an_event_is_waited_for_and_a_wait_in_vain_ends,
    a_mutex_lets_one_in,
    gathered_results_are_in_order,
    a_gathered_error_is_raised_when_all_have_ended,
    what_is_gathered_is_in_its_caller_s_context_and_what_is_spawned_is_not,
    what_is_done_meanwhile_has_ended_when_the_wait_has,
    an_error_of_the_wait_or_of_the_work_is_raised_when_both_have_ended,
)
