"""Attributes that an object computes once."""

from __future__ import annotations

import threading

from iceberg_hms.format.cached_property import cached_property
from tests.forking import said_by

LIMIT = 30


class Thing:
    def __init__(self) -> None:
        self.asked = 0

    @cached_property
    def answer(self) -> list[int]:
        """The documentation."""
        self.asked += 1
        return [self.asked]


def test_a_cached_property_is_computed_on_first_access_and_once() -> None:
    thing = Thing()
    assert thing.asked == 0
    assert thing.answer is thing.answer
    assert (thing.answer, thing.asked, Thing().answer) == ([1], 1, [1])
    assert Thing.answer.__doc__ == "The documentation."


def test_an_existing_value_is_not_computed() -> None:
    thing = Thing()
    thing.__dict__["answer"] = [7]
    assert (thing.answer, thing.asked) == ([7], 0)


def test_concurrent_threads_get_the_same_value_without_waiting() -> None:
    both = threading.Barrier(2)

    class Slow:
        @cached_property
        def answer(self) -> object:
            both.wait(LIMIT)
            return object()

    slow, found = Slow(), []
    threads = [threading.Thread(target=lambda: found.append(slow.answer)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert found[0] is found[1] is slow.answer


#: Forks while a thread of the parent computes a table's location.
FORKING = """
import os, signal, threading
from iceberg_hms.format.metadata.table_metadata import TableMetadata

asked, forked = threading.Event(), threading.Event()

class Slow(dict):
    def __getitem__(self, key):
        asked.set()
        forked.wait()
        return super().__getitem__(key)

slow = TableMetadata(Slow(location="file:/slow/"))
thread = threading.Thread(target=lambda: slow.location)
thread.start()
asked.wait()
child = os.fork()
if child == 0:
    signal.alarm(5)
    os._exit(0 if TableMetadata({"location": "file:/x/"}).location == "file:/x" else 1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
forked.set()
thread.join()
print(code, slow.location)
"""


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    assert said_by(FORKING) == "0 file:/slow\n"
