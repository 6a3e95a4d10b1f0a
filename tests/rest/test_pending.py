from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.clock import SystemClock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.errors import CommitConflict, LockNotAcquired
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.dispatch import Call
from iceberg_hms.rest.pending import Later
from tests.rest.fakes import SCHEMA, FakeCatalog, Pending, Web

PATH = "/v1/namespaces/default/tables/t"


def body(name: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {name: "x"}}]}


async def unused(function: Callable[[], CommitReport]) -> CommitReport:
    raise AssertionError("no thread is needed")


async def until_pending(catalog: FakeCatalog, count: int) -> None:
    async with asyncio.timeout(30):
        while len(catalog.pending) < count:
            await asyncio.sleep(0.001)


def test_commits_that_wait_take_no_thread() -> None:
    catalog = FakeCatalog(Settings(rest_commit_threads=1, rest_threads=1))
    catalog.create_table(("default", "t"), SCHEMA)
    catalog.settles = False
    app = create_app(catalog, token=None, settings=catalog.settings)

    async def scene() -> list[int]:
        async with Web(app).client() as client:
            tasks = [asyncio.create_task(client.post(PATH, json=body(f"p{number}"))) for number in range(20)]
            await until_pending(catalog, 20)
            assert (await client.get(PATH)).status_code == 200
            await asyncio.to_thread(lambda: [pending.settle() for pending in catalog.pending])
            return [answer.status_code for answer in await asyncio.gather(*tasks)]

    assert asyncio.run(scene()) == [200] * 20


def test_commits_that_wait_keep_no_request_and_so_no_body() -> None:
    catalog = FakeCatalog(Settings())
    catalog.create_table(("default", "t"), SCHEMA)
    catalog.settles = False
    app = create_app(catalog, token=None, settings=catalog.settings)

    async def scene() -> list[Call]:
        async with Web(app).client() as client:
            tasks = [asyncio.create_task(client.post(PATH, json=body(f"let-go-{number}"))) for number in range(3)]
            await until_pending(catalog, 3)
            gc.collect()
            calls = [each for each in gc.get_objects() if isinstance(each, Call)]
            await asyncio.to_thread(lambda: [pending.settle() for pending in catalog.pending])
            await asyncio.gather(*tasks)
            return [call for call in calls if b"let-go-" in call.body]

    assert asyncio.run(scene()) == []


class Stopped(SystemClock):
    """No time passes while a request comes in: what it may take is left for its commit."""

    def monotonic(self) -> float:
        return 1_000.0


def test_a_commit_whose_time_is_over_is_withdrawn() -> None:
    catalog = FakeCatalog(Settings(rest_commit_wait_ms=50))
    catalog.create_table(("default", "t"), SCHEMA)
    catalog.settles = False
    app = create_app(catalog, token=None, settings=catalog.settings, clock=Stopped())
    response = Web(app)("POST", PATH, body("a"))
    assert response.status_code == 409
    assert [pending.withdrawn for pending in catalog.pending] == [True]
    assert "a" not in catalog.load(("default", "t")).metadata.properties


def test_what_became_of_one_that_was_withdrawn_is_told_on_a_thread_since_it_takes_a_look_at_the_table() -> None:
    threads: list[str] = []

    async def run(function: Callable[[], CommitReport]) -> CommitReport:
        threads.append("a thread")
        return await asyncio.to_thread(function)

    async def scene(commit: Pending, seconds: float) -> str:
        return str(await Later(commit, seconds, lambda report: report).response(run))  # type: ignore[arg-type, return-value]

    with pytest.raises(LockNotAcquired):
        asyncio.run(scene(Pending(lambda: "report"), 0.0))  # type: ignore[arg-type, return-value]
    assert threads == ["a thread"]
    settled = Pending(lambda: "report")  # type: ignore[arg-type, return-value]
    settled.settle()
    assert asyncio.run(scene(settled, 30.0)) == "report"
    assert threads == ["a thread"], "for one that is settled none is needed"


def test_a_commit_that_was_sent_is_waited_for_after_its_time() -> None:
    async def scene() -> str:
        made = asyncio.Event()
        commit = Pending(lambda: "report")  # type: ignore[arg-type, return-value]
        commit.sent = True
        asked: list[bool] = []
        loop, withdraw = asyncio.get_running_loop(), commit.withdraw

        def asked_to_withdraw() -> bool:
            asked.append(withdraw())
            loop.call_soon(made.set)
            return asked[-1]

        commit.withdraw = asked_to_withdraw  # type: ignore[method-assign]
        waiting = asyncio.create_task(Later(commit, 0.001, lambda report: report).response(unused))  # type: ignore[arg-type, return-value]
        async with asyncio.timeout(30):
            await made.wait()
        assert asked == [False]
        assert not waiting.done()
        await asyncio.to_thread(commit.settle)
        return str(await waiting)

    assert asyncio.run(scene()) == "report"


def test_what_a_commit_raises_is_raised_where_it_is_waited_for() -> None:
    def fails() -> CommitReport:
        raise CommitConflict("moved")

    async def scene() -> None:
        commit = Pending(fails)
        commit.settle()
        with pytest.raises(CommitConflict, match="moved"):
            await Later(commit, 30, lambda report: report).response(unused)  # type: ignore[arg-type, return-value]

    asyncio.run(scene())


def test_a_commit_that_ends_after_its_server_harms_nobody() -> None:
    commit = Pending(lambda: "report")  # type: ignore[arg-type, return-value]

    async def scene() -> None:
        waiting = asyncio.create_task(Later(commit, 30, lambda report: report).response(unused))  # type: ignore[arg-type, return-value]
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(scene())
    commit.settle()


@pytest.mark.parametrize("seconds", [0.05, 0.0], ids=["before its time is over", "after it"])
def test_an_outcome_that_the_loop_was_not_told_of_is_found_all_the_same(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """no memory to wake the loop when the commit is settled: its client must not wait for ever"""
    monkeypatch.setattr("iceberg_hms.rest.pending.LOOK_AGAIN_SECONDS", 0.01)

    async def scene() -> str:
        commit = Pending(lambda: "report")  # type: ignore[arg-type, return-value]
        commit.sent = True
        loop, asked, withdraw = asyncio.get_running_loop(), asyncio.Event(), commit.withdraw

        def asked_to_withdraw() -> bool:
            loop.call_soon(asked.set)
            return withdraw()

        def cannot(*_: object) -> None:
            raise MemoryError

        commit.withdraw = asked_to_withdraw  # type: ignore[method-assign]
        waiting = asyncio.create_task(Later(commit, seconds, lambda report: report).response(unused))  # type: ignore[arg-type, return-value]
        await (asked.wait() if not seconds else asyncio.sleep(0))
        with monkeypatch.context() as patched:
            patched.setattr(loop, "call_soon_threadsafe", cannot)
            with pytest.raises(MemoryError):
                commit.settle()
        async with asyncio.timeout(10):
            return str(await waiting)

    assert asyncio.run(scene()) == "report"
