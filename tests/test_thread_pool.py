"""Threads of a pool: how many, what they keep alive, and what they do while the process ends."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from iceberg_hms.thread_pool import ThreadPool
from tests.forking import said_by

SECONDS = 30


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    made = ThreadPool("pool", 2)
    yield made
    made.close()


def test_results_and_errors_reach_the_caller(pool: ThreadPool) -> None:
    def fail() -> None:
        raise KeyError("x")

    assert pool.submit(lambda: threading.current_thread().name).result(SECONDS).startswith("pool_")
    with pytest.raises(KeyError):
        pool.submit(fail).result(SECONDS)
    assert pool.submit(lambda: 1).result(SECONDS) == 1


def test_an_idle_thread_is_used_again(pool: ThreadPool) -> None:
    names = {pool.submit(lambda: threading.current_thread().name).result(SECONDS) for _ in range(50)}
    assert names == {"pool_0"}


def test_no_more_threads_start_than_were_asked_for(pool: ThreadPool) -> None:
    both, gate = threading.Barrier(3), threading.Event()

    def occupy() -> str:
        both.wait(SECONDS)
        gate.wait(SECONDS)
        return threading.current_thread().name

    busy = [pool.submit(occupy) for _ in range(2)]
    both.wait(SECONDS)
    third = pool.submit(lambda: threading.current_thread().name)
    assert not third.done()
    gate.set()
    assert {future.result(SECONDS) for future in busy} == {"pool_0", "pool_1"}
    assert third.result(SECONDS) in {"pool_0", "pool_1"}


def test_a_cancelled_function_is_not_called(pool: ThreadPool) -> None:
    gate, called = threading.Event(), []
    busy = [pool.submit(lambda: gate.wait(SECONDS)) for _ in range(2)]
    waiting = pool.submit(lambda: called.append(1))
    assert waiting.cancel()
    gate.set()
    assert [future.result(SECONDS) for future in busy] == [True, True]
    assert pool.submit(lambda: 2).result(SECONDS) == 2
    assert called == []


def threads_of(pool: ThreadPool) -> set[threading.Thread]:
    """The pool's threads, once all have started."""
    barrier = threading.Barrier(2)

    def meet() -> threading.Thread:
        barrier.wait(SECONDS)
        return threading.current_thread()

    return {future.result(SECONDS) for future in [pool.submit(meet) for _ in range(2)]}


def test_threads_end_with_the_pool_once_their_work_is_done(pool: ThreadPool) -> None:
    threads = threads_of(pool)
    gate, done = threading.Event(), []
    pool.submit(lambda: done.append(gate.wait(SECONDS)))
    pool.close()
    pool.close()
    with pytest.raises(RuntimeError, match="no more work"):
        pool.submit(lambda: done.append(False))
    gate.set()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert done == [True]


def test_threads_of_a_pool_that_is_garbage_end() -> None:
    pool = ThreadPool("pool", 2)
    threads = threads_of(pool)
    alive = weakref.ref(pool)
    del pool
    gc.collect()
    assert alive() is None
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads)


class Bytes(bytearray):
    """Can be referred to weakly."""


def test_an_idle_thread_keeps_nothing_alive(pool: ThreadPool) -> None:
    data = Bytes(10)
    alive = weakref.ref(data)
    assert pool.submit(lambda data=data: len(data)).result(SECONDS) == 10  # type: ignore[misc]
    del data
    # The thread has let go of one item when it takes the next.
    assert pool.submit(lambda: 1).result(SECONDS) == 1
    gc.collect()
    assert alive() is None


def test_a_thread_that_cannot_start_is_done_without_if_there_is_another(
    pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread_starts(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread_starts)
        with pytest.raises(RuntimeError, match="can't start"):
            pool.submit(lambda: 1)
    gate = threading.Event()
    busy = pool.submit(lambda: gate.wait(SECONDS))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread_starts)
        waiting = pool.submit(lambda: 2)
    gate.set()
    assert (busy.result(SECONDS), waiting.result(SECONDS)) == (True, 2)


AFTER_THE_MAIN_THREAD = """
import threading
from iceberg_hms.thread_pool import ThreadPool

def work():
    threading.main_thread().join()
    pool = ThreadPool("pool", 2)
    print(pool.submit(lambda: 1).result(), old.submit(lambda: 2).result())

old = ThreadPool("pool", 2)
old.submit(lambda: 0).result()
threading.Thread(target=work).start()
"""


def test_a_pool_works_for_threads_that_outlive_the_main_thread() -> None:
    assert said_by(AFTER_THE_MAIN_THREAD) == "1 2\n"


AT_THE_END_OF_THE_PROCESS = """
import threading
from iceberg_hms.thread_pool import ThreadPool

def work():
    begun.set()
    threading.main_thread().join()
    print("done")

begun = threading.Event()
pool = ThreadPool("pool", 1)
pool.submit(work)
pool.submit(lambda: print("next"))
begun.wait()
"""


def test_the_process_ends_only_after_work_that_was_handed_in() -> None:
    assert said_by(AT_THE_END_OF_THE_PROCESS) == "done\nnext\n"


IN_A_FORKED_CHILD = """
import os
import sys
import threading
from iceberg_hms.thread_pool import ThreadPool

gate = threading.Event()
pool = ThreadPool("pool", 1)
busy = pool.submit(gate.wait)
pool._work.mutex.acquire()
child = os.fork()
if not child:
    sys.exit(0)
pool._work.mutex.release()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
gate.set()
"""


def test_a_forked_child_does_not_wait_for_its_parents_work() -> None:
    assert said_by(IN_A_FORKED_CHILD) == "0\n"
