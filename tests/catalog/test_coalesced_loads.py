"""Concurrent callers that load the same key."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from iceberg_hms.catalog.coalesced_loads import CoalescedLoads
from iceberg_hms.coordinator.ports import ThreadEvent
from iceberg_hms.errors import MetastoreUnavailable, NoSuchTable, ResourceExhausted
from iceberg_hms.runtime import ThreadRuntime

#: Seconds after which a test gives up.
LIMIT = 20


class Watched(ThreadRuntime):
    """Releases `waiting` when a thread begins to wait for an event."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Semaphore(0)

    def event(self) -> ThreadEvent:
        waiting = self.waiting

        class Announced(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                waiting.release()
                return super().wait(timeout)

        return Announced()

    def wait_for_waiters(self, count: int) -> None:
        for _ in range(count):
            assert self.waiting.acquire(timeout=LIMIT)


class Question:
    """Each call is held until the test answers it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Future[object]]] = []
        self._called = threading.Condition()

    def __call__(self, key: str) -> object:
        answer: Future[object] = Future()
        with self._called:
            self.calls.append((key, answer))
            self._called.notify_all()
        return answer.result(LIMIT)

    def call(self, number: int) -> Future[object]:
        """The answer that a test sets for a call, once the call was made."""
        with self._called:
            assert self._called.wait_for(lambda: len(self.calls) > number, LIMIT)
            return self.calls[number][1]


class Scene:
    def __init__(self, pool: ThreadPoolExecutor, wait_seconds: float = LIMIT) -> None:
        self.runtime = Watched()
        self.question = Question()
        self.coalesced: CoalescedLoads[str, object] = CoalescedLoads(
            self.runtime, self.question, wait_seconds=wait_seconds
        )
        self._pool = pool

    def ask(self, key: str = "t") -> Future[object]:
        return self._pool.submit(self.coalesced.get, key)

    def one_under_way_and(self, waiting: int) -> tuple[Future[object], list[Future[object]]]:
        """A running call, and callers that arrived after it began."""
        first = self.ask()
        self.question.call(0)
        others = [self.ask() for _ in range(waiting)]
        self.runtime.wait_for_waiters(waiting)
        return first, others

    def is_idle(self) -> bool:
        """Whether the next caller waits for nobody and has a call of its own."""
        while self.runtime.waiting.acquire(blocking=False):
            pass
        made = len(self.question.calls)
        asked = self.ask()
        self.question.call(made).set_result("own")
        return asked.result(LIMIT) == "own" and not self.runtime.waiting.acquire(blocking=False)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(40) as threads:
        yield threads


@pytest.fixture
def scene(pool: ThreadPoolExecutor) -> Scene:
    return Scene(pool)


def test_many_concurrent_callers_cause_two_calls(scene: Scene) -> None:
    first, others = scene.one_under_way_and(30)
    assert len(scene.question.calls) == 1
    scene.question.call(0).set_result("old")
    scene.question.call(1).set_result("new")
    assert first.result(LIMIT) == "old"
    assert [other.result(LIMIT) for other in others] == ["new"] * 30, "no result is of a call from before its caller"
    assert len(scene.question.calls) == 2
    assert scene.is_idle()


def test_a_caller_during_a_call_waits_for_the_one_after_it(scene: Scene) -> None:
    _, second = scene.one_under_way_and(1)
    scene.question.call(0).set_result(0)
    scene.question.call(1)
    third = [scene.ask() for _ in range(3)]
    scene.runtime.wait_for_waiters(3)
    assert len(scene.question.calls) == 2
    scene.question.call(1).set_result(1)
    scene.question.call(2).set_result(2)
    assert second[0].result(LIMIT) == 1
    assert [each.result(LIMIT) for each in third] == [2, 2, 2]
    assert scene.is_idle()


def test_callers_one_after_the_other_each_make_a_call(scene: Scene) -> None:
    for number in range(3):
        asked = scene.ask()
        scene.question.call(2 * number).set_result(number)
        assert asked.result(LIMIT) == number
        assert scene.is_idle()


def test_keys_do_not_wait_for_each_other(scene: Scene) -> None:
    scene.one_under_way_and(0)
    other = scene.ask("u")
    scene.question.call(1).set_result("u's")
    assert other.result(LIMIT) == "u's"
    scene.question.call(0).set_result("t's")
    assert [key for key, _ in scene.question.calls] == ["t", "u"]


def test_each_caller_gets_an_error_of_its_own(scene: Scene) -> None:
    first, others = scene.one_under_way_and(3)
    scene.question.call(0).set_result("there")
    error = NoSuchTable("db.t")
    scene.question.call(1).set_exception(error)
    raised = [other.exception(LIMIT) for other in others]
    assert all(type(each) is NoSuchTable and str(each) == str(error) and each.table == "db.t" for each in raised)
    assert len({id(each) for each in raised}) == 3
    assert first.result(LIMIT) == "there", "the one before was answered"
    assert scene.is_idle()


def test_an_error_is_not_cached(scene: Scene) -> None:
    first, others = scene.one_under_way_and(1)
    scene.question.call(0).set_exception(MetastoreUnavailable("away"))
    scene.question.call(1).set_result("back")
    assert isinstance(first.exception(LIMIT), MetastoreUnavailable)
    assert others[0].result(LIMIT) == "back"


@pytest.mark.parametrize(
    "ending", [KeyboardInterrupt(), ResourceExhausted("no memory"), ValueError("a defect, which may not be copied")]
)
def test_callers_load_by_themselves_after_a_call_that_was_interrupted(scene: Scene, ending: BaseException) -> None:
    first, others = scene.one_under_way_and(3)
    scene.question.call(0).set_result("old")
    scene.question.call(1).set_exception(ending)
    for number in (2, 3):
        scene.question.call(number).set_result("own")
    ended = [other.exception(LIMIT) for other in others]
    assert [type(each) for each in ended if each is not None] == [type(ending)]
    assert [other.result(LIMIT) for other in others if other.exception(LIMIT) is None] == ["own", "own"]
    assert first.result(LIMIT) == "old"
    assert scene.is_idle()


def test_no_caller_waits_for_others_beyond_the_limit(pool: ThreadPoolExecutor) -> None:
    scene = Scene(pool, wait_seconds=0.01)
    first, others = scene.one_under_way_and(3)
    scene.question.call(3)
    for number in (1, 2, 3):
        scene.question.call(number).set_result("own")
    assert [other.result(LIMIT) for other in others] == ["own"] * 3
    assert not first.done()
    scene.question.call(0).set_result("late")
    assert first.result(LIMIT) == "late"
    assert scene.is_idle()


def test_none_is_a_result_too(scene: Scene) -> None:
    _, others = scene.one_under_way_and(2)
    scene.question.call(0).set_result(None)
    scene.question.call(1).set_result(None)
    assert [other.result(LIMIT) for other in others] == [None, None]
    assert len(scene.question.calls) == 2


def test_no_result_is_older_than_its_request(pool: ThreadPoolExecutor) -> None:
    """Writers count up and readers ask; each reader must see what was counted before it asked."""
    counted = 0
    mutex = threading.Lock()

    def look(_: str) -> int:
        with mutex:
            return counted

    coalesced: CoalescedLoads[str, int] = CoalescedLoads(ThreadRuntime(), look)

    def run(step: Callable[[], bool]) -> bool:
        return all(step() for _ in range(2_000))

    def write() -> bool:
        nonlocal counted
        with mutex:
            counted += 1
        return True

    def read() -> bool:
        before = counted
        return coalesced.get("t") >= before

    assert all(future.result(LIMIT) for future in [pool.submit(run, step) for step in (write, *[read] * 8)])
