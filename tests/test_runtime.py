import gc
import threading
import weakref

import pytest

from iceberg_hms.runtime import GATHER_THREADS, ThreadRuntime
from tests.forking import said_by


def test_gather_returns_results_in_order_and_runs_in_parallel():
    runtime = ThreadRuntime()
    both = threading.Barrier(2, timeout=10)
    assert runtime.gather([lambda: both.wait() >= 0, lambda: both.wait() >= 0, lambda: 3]) == [True, True, 3]


def test_gather_waits_for_all_and_then_raises_the_first_error():
    runtime = ThreadRuntime()
    ended = threading.Event()

    def fails():
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        runtime.gather([fails, ended.set])
    assert ended.is_set()


def test_nested_gathers_do_not_block_each_other():
    runtime = ThreadRuntime()

    def nested(depth):
        return 1 if depth == 0 else sum(runtime.gather([lambda: nested(depth - 1)] * 6))

    done = []
    caller = threading.Thread(target=lambda: done.append(nested(3)), daemon=True)
    caller.start()
    caller.join(60)
    assert done == [216], f"more of them wait than there are threads: {GATHER_THREADS}"


def no_thread_starts(thread):
    raise RuntimeError("can't start new thread")


def test_gather_works_when_no_thread_can_be_started(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", no_thread_starts)
    assert ThreadRuntime().gather([lambda: 1, lambda: 2]) == [1, 2]


AT_THE_END_OF_THE_PROCESS = """
import atexit

# Handlers run in the opposite order: this one after the pool's.
atexit.register(lambda: print(runtime.gather([lambda: 3, lambda: 4])))
from iceberg_hms.runtime import ThreadRuntime

runtime = ThreadRuntime()
runtime.gather([lambda: 1, lambda: 2])
"""


def test_gather_works_at_the_end_of_the_process_when_the_pool_takes_no_more_work():
    assert said_by(AT_THE_END_OF_THE_PROCESS) == "[3, 4]\n"


AFTER_THE_MAIN_THREAD = """
import threading
from iceberg_hms.runtime import ThreadRuntime

def work():
    threading.main_thread().join()
    both = threading.Barrier(2, timeout=10)
    runtime.gather([both.wait, both.wait])
    print("in parallel")

runtime = ThreadRuntime()
threading.Thread(target=work).start()
"""


def test_gather_runs_in_parallel_for_threads_that_outlive_the_main_thread():
    assert said_by(AFTER_THE_MAIN_THREAD) == "in parallel\n"


def test_after_close_the_pools_threads_end_and_gather_runs_on_the_callers_thread():
    runtime, threads = ThreadRuntime(), []
    both = threading.Barrier(2, timeout=10)
    runtime.gather([lambda: (both.wait(), threads.append(threading.current_thread()))] * 2)
    runtime.close()
    threads.remove(threading.current_thread())
    [of_the_pool] = threads
    of_the_pool.join(10)
    assert not of_the_pool.is_alive()
    assert runtime.gather([threading.current_thread] * 2) == [threading.current_thread()] * 2


class Bytes(bytearray):
    """Can be referred to weakly."""


def test_an_ended_batch_holds_no_memory_while_the_pool_still_refers_to_it():
    """Another caller has all threads of the pool for long, so the pool keeps what the batch asked it to run."""
    runtime, over = ThreadRuntime(), threading.Event()
    taken = threading.Barrier(GATHER_THREADS + 2, timeout=30)
    busy = [lambda: (taken.wait(), over.wait())] * (GATHER_THREADS + 1)
    other = threading.Thread(target=runtime.gather, args=[busy])
    other.start()
    taken.wait()
    try:
        data = Bytes(10)
        alive = weakref.ref(data)
        assert runtime.gather([lambda data=data: data, lambda data=data: len(data)])[1] == 10
        assert runtime.run_while_waiting(lambda data=data: data.append(1), lambda: 1) == 1
        with pytest.raises(ValueError, match="no lock"):
            runtime.run_while_waiting(lambda data=data: data.append(1), raises_no_lock)
        del data
        gc.collect()
        assert alive() is None
    finally:
        over.set()
        other.join(30)


def raises_no_lock():
    raise ValueError("no lock")


def test_as_many_functions_run_at_once_as_it_has_threads_and_the_caller() -> None:
    together = threading.Barrier(101, timeout=30)
    ThreadRuntime(threads=100).gather([together.wait] * 101)


def test_run_while_waiting_waits_on_the_caller_s_thread_and_works_on_another():
    runtime, threads = ThreadRuntime(), {}
    begun = threading.Event()

    def work():
        threads["work"] = threading.current_thread()
        begun.set()

    def wait():
        threads["wait"] = threading.current_thread()
        return begun.wait(10)

    assert runtime.run_while_waiting(work, wait)
    assert threads["wait"] is threading.current_thread()
    assert threads["work"] is not threading.current_thread()


def test_work_without_a_thread_runs_after_the_wait_unless_the_wait_failed(monkeypatch):
    runtime, done = ThreadRuntime(), []
    monkeypatch.setattr(threading.Thread, "start", no_thread_starts)
    assert runtime.run_while_waiting(lambda: done.append("work"), lambda: done.append("wait")) is None
    assert done == ["wait", "work"]
    with pytest.raises(ValueError, match="no lock"):
        runtime.run_while_waiting(lambda: done.append("more"), raises_no_lock)
    assert done == ["wait", "work"]


def test_gather_of_one_and_of_none():
    assert ThreadRuntime().gather([lambda: 1]) == [1]
    assert ThreadRuntime().gather([]) == []


def test_spawn_runs_on_a_thread_that_the_process_waits_for():
    runtime, seen = ThreadRuntime(), []
    done = runtime.event()

    def work():
        seen.append(threading.current_thread())
        done.set()

    runtime.spawn("worker", work)
    assert done.wait(10)
    assert seen[0] is not threading.current_thread()
    assert seen[0].name == "worker"
    assert not seen[0].daemon


def test_a_background_thread_does_not_keep_the_process_alive():
    runtime, seen = ThreadRuntime(), []
    done = runtime.event()

    def work():
        seen.append(threading.current_thread())
        done.set()

    runtime.spawn("heartbeat", work, background=True)
    assert done.wait(10)
    assert seen[0].daemon


def test_the_clock_is_the_one_that_was_given():
    class Fixed:
        def monotonic(self):
            return 5.0

        def now_ms(self):
            return 6

        def sleep(self, seconds):
            slept.append(seconds)

        def uuid(self):
            return "u"

        def snapshot_id(self):
            return 7

        def jitter(self):
            return 0.5

    slept: list[float] = []
    runtime = ThreadRuntime(Fixed())
    runtime.sleep(2.0)
    assert (runtime.now(), runtime.now_ms(), runtime.uuid(), runtime.jitter(), slept) == (5.0, 6, "u", 0.5, [2.0])


def test_a_wait_for_an_event_ends_after_its_timeout():
    assert not ThreadRuntime().event().wait(0.001)


def test_a_mutex_excludes():
    mutex = ThreadRuntime().mutex()
    with mutex:
        assert not mutex.acquire(blocking=False)
    assert mutex.acquire(blocking=False)
