import threading

import pytest

from iceberg_hms.catalog.runtime import GATHER_THREADS, ThreadRuntime
from tests.test_forks import said_by


def test_gather_returns_results_in_order_and_runs_side_by_side():
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


def test_callers_who_wait_for_one_another_s_threads_are_not_stuck():
    runtime = ThreadRuntime()

    def nested(depth):
        return 1 if depth == 0 else sum(runtime.gather([lambda: nested(depth - 1)] * 6))

    done = []
    caller = threading.Thread(target=lambda: done.append(nested(3)), daemon=True)
    caller.start()
    caller.join(60)
    assert done == [216], f"more of them wait than there are threads: {GATHER_THREADS}"


def test_gather_works_when_the_pool_takes_no_more():
    runtime = ThreadRuntime()
    runtime._pool.shutdown()
    assert runtime.gather([lambda: 1, lambda: 2]) == [1, 2]


#: Forks while all threads of `gather` are taken, and somebody has the executor's mutex.
FORKING = """
import os, signal, threading
from iceberg_hms.catalog.runtime import GATHER_THREADS, ThreadRuntime

runtime = ThreadRuntime()
everyone, forked = threading.Barrier(GATHER_THREADS + 2), threading.Event()
work = [lambda: (everyone.wait(), forked.wait())] * (GATHER_THREADS + 1)
parents = threading.Thread(target=runtime.gather, args=(work,))
parents.start()
everyone.wait()
mutex = runtime._pool._shutdown_lock
mutex.acquire()
child = os.fork()
if child == 0:
    signal.alarm(30)
    both = threading.Barrier(2, timeout=10)
    os._exit(0 if sorted(runtime.gather([both.wait, both.wait])) == [0, 1] else 1)
mutex.release()
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
forked.set()
parents.join()
print(code, runtime.gather([lambda: 1, lambda: 2]))
"""


def test_gather_has_threads_of_its_own_in_a_forked_child():
    assert said_by(FORKING) == "0 [1, 2]\n"


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


def test_what_runs_in_the_background_does_not_keep_the_process():
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


def test_an_event_that_is_never_set_lets_its_waiter_go():
    assert not ThreadRuntime().event().wait(0.001)


def test_a_mutex_excludes():
    mutex = ThreadRuntime().mutex()
    with mutex:
        assert not mutex.acquire(blocking=False)
    assert mutex.acquire(blocking=False)
