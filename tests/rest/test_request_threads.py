from __future__ import annotations

import asyncio
import threading

import pytest

from iceberg_hms.errors import QueueFull
from iceberg_hms.rest.request_threads import RequestThreads
from iceberg_hms.work import NOBODY, owner

SECONDS = 10


def test_functions_run_on_a_thread_of_the_pool() -> None:
    workers = RequestThreads("pool", 1)
    name = asyncio.run(workers.run(lambda: threading.current_thread().name))
    workers.close()
    assert name.startswith("pool")


def test_work_for_a_caller_is_known_as_the_callers() -> None:
    workers = RequestThreads("pool", 1)

    async def twice() -> list[str]:
        return [await workers.run_for("etl", owner), await workers.run(owner)]

    assert asyncio.run(twice()) == ["caller etl", NOBODY]
    workers.close()


def test_an_error_reaches_the_caller_and_frees_the_place() -> None:
    workers = RequestThreads("pool", 1, waiting_per_thread=0)

    def fail() -> None:
        raise KeyError("x")

    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(KeyError):
                await workers.run(fail)

    asyncio.run(twice())
    workers.close()
    assert workers.pending == 0


def test_requests_beyond_the_bound_are_refused_at_once() -> None:
    workers = RequestThreads("pool", 2, waiting_per_thread=1)
    gate = threading.Event()
    done: list[int] = []

    async def crowd() -> None:
        tasks = [asyncio.create_task(workers.run(lambda i=i: (gate.wait(30), done.append(i)))) for i in range(4)]
        await asyncio.sleep(0)
        assert workers.pending == 4
        with pytest.raises(QueueFull, match="did nothing of this one"):
            await workers.run(lambda: done.append(99))
        gate.set()
        await asyncio.gather(*tasks)

    asyncio.run(crowd())
    workers.close()
    assert sorted(done) == [0, 1, 2, 3]


class Crowd:
    """Requests for one thread, each of which ends when the test says so."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = RequestThreads("pool", threads)
        self.served: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._gates: dict[str, threading.Event] = {}

    async def ask(self, caller: str, name: str) -> None:
        gate = self._gates[name] = threading.Event()

        def serve() -> None:
            self.served.append(name)
            gate.wait(SECONDS)

        self.tasks[name] = asyncio.create_task(self.threads.run(serve, caller))
        await asyncio.sleep(0)

    def open(self, name: str) -> None:
        self._gates[name].set()

    async def end(self, name: str) -> None:
        self.open(name)
        await asyncio.wait_for(self.tasks[name], SECONDS)

    async def finish(self) -> None:
        for gate in self._gates.values():
            gate.set()
        await asyncio.wait_for(asyncio.gather(*self.tasks.values(), return_exceptions=True), SECONDS)
        assert not self.threads.pending


def test_callers_take_turns_however_many_requests_they_have() -> None:
    async def crowd() -> list[str]:
        crowd = Crowd()
        for number in range(4):
            await crowd.ask("many", f"m{number}")
        for number in range(2):
            await crowd.ask("few", f"f{number}")
        for name in ("m0", "m1", "f0", "m2", "f1"):
            await crowd.end(name)
        await crowd.finish()
        crowd.threads.close()
        return crowd.served

    assert asyncio.run(crowd()) == ["m0", "m1", "f0", "m2", "f1", "m3"]


def test_the_next_thread_is_for_the_caller_with_the_fewest() -> None:
    async def crowd() -> list[str]:
        crowd = Crowd(4)
        for number in range(7):
            await crowd.ask("many", f"m{number}")
        for number in range(2):
            await crowd.ask("few", f"f{number}")
        for name in ("m0", "m1"):
            await crowd.end(name)
        await crowd.finish()
        crowd.threads.close()
        return crowd.served[4:6]

    assert asyncio.run(crowd()) == ["f0", "f1"]


def test_a_request_that_is_cancelled_while_it_waits_takes_no_thread() -> None:
    async def crowd() -> list[str]:
        crowd = Crowd()
        for name in ("a", "b", "c", "d"):
            await crowd.ask(name, name)
        # One is cancelled before its turn, and one in the moment between its turn and its thread.
        crowd.tasks["b"].cancel()
        crowd.open("a")
        while not crowd.tasks["a"].done():
            await asyncio.sleep(0)
        crowd.tasks["c"].cancel()
        await crowd.end("d")
        await crowd.finish()
        await crowd.ask("e", "e")
        await crowd.finish()
        crowd.threads.close()
        return crowd.served

    assert asyncio.run(crowd()) == ["a", "d", "e"]


def test_requests_that_wait_when_the_pool_is_closed_are_cancelled() -> None:
    async def crowd() -> bool:
        crowd = Crowd()
        for name in ("a", "b"):
            await crowd.ask("caller", name)
        crowd.threads.close()
        await crowd.finish()
        return crowd.tasks["b"].cancelled()

    assert asyncio.run(crowd())
