from __future__ import annotations

import asyncio
import threading

import pytest

from iceberg_hms.errors import QueueFull
from iceberg_hms.rest.request_threads import RequestThreads
from iceberg_hms.work_owner import NOBODY, owner


def test_functions_run_on_a_thread_of_the_pool() -> None:
    workers = RequestThreads("pool", 1)
    name = asyncio.run(workers.run(lambda: threading.current_thread().name))
    workers.close()
    assert name.startswith("pool")


def test_work_for_a_caller_is_known_as_the_callers() -> None:
    workers = RequestThreads("pool", 1)

    async def twice() -> list[str]:
        return [await workers.run_for("etl")(owner), await workers.run(owner)]

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
