"""Commits that wait on the event loop, of a catalog in memory: another writer's lock or a slow swap holds them up."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.responses import Response

from iceberg_hms.clock import SystemClock
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import LockNotAcquired, RequirementFailed
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.dispatch import RestRequest
from iceberg_hms.rest.pending_response import PendingResponse
from tests.polling import eventually
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web

PATH = "/v1/namespaces/default/tables/t"
TABLE = ("default", "t")


def body(name: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {name: "x"}}]}


def catalog_with_table(**settings: Any) -> ScriptedCatalog:
    catalog = ScriptedCatalog(**settings)
    catalog.create_table(TABLE, SCHEMA)
    return catalog


def submit(catalog: ScriptedCatalog, name: str = "a", requirements: tuple[dict[str, Any], ...] = ()) -> PendingCommit:
    return catalog.submit(TABLE, requirements, body(name)["updates"], wait_seconds=60)


def settled(commit: PendingCommit) -> PendingCommit:
    done = threading.Event()
    commit.when_settled(done.set)
    assert done.wait(30)
    return commit


@contextmanager
def swap_held(catalog: ScriptedCatalog) -> Iterator[threading.Event]:
    """The next swap is sent and blocks until the block ends. Yields the event that says that it was sent."""
    sent, gate = threading.Event(), threading.Event()
    catalog.metastore.before_moves.append(lambda: (sent.set(), gate.wait(30)))
    try:
        yield sent
    finally:
        gate.set()


async def no_thread(function: Callable[[], CommitReport]) -> CommitReport:
    raise AssertionError("no thread is needed")


def properties_of(report: CommitReport) -> Response:
    return Response(",".join(sorted(report.metadata.properties)))


async def until_submitted(catalog: ScriptedCatalog, count: int) -> None:
    async with asyncio.timeout(30):
        while sum(method == "submit" for method, _ in catalog.calls) < count:
            await asyncio.sleep(0.001)


def test_waiting_commits_take_no_thread() -> None:
    catalog = catalog_with_table(rest_commit_threads=1, rest_threads=1)
    app = create_app(catalog, token=None, settings=catalog.rest_settings)

    async def scene() -> list[int]:
        async with Web(app).client() as client:
            with catalog.locked(*TABLE):
                tasks = [asyncio.create_task(client.post(PATH, json=body(f"p{number}"))) for number in range(20)]
                await until_submitted(catalog, 20)
                assert (await client.get(PATH)).status_code == 200
                assert not any(task.done() for task in tasks)
            return [answer.status_code for answer in await asyncio.gather(*tasks)]

    assert asyncio.run(scene()) == [200] * 20


def test_waiting_commits_keep_no_request_and_so_no_body() -> None:
    catalog = catalog_with_table()
    app = create_app(catalog, token=None, settings=catalog.rest_settings)

    async def scene() -> list[RestRequest]:
        async with Web(app).client() as client:
            with catalog.locked(*TABLE):
                tasks = [asyncio.create_task(client.post(PATH, json=body(f"let-go-{number}"))) for number in range(3)]
                await until_submitted(catalog, 3)
                gc.collect()
                calls = [each for each in gc.get_objects() if isinstance(each, RestRequest)]
            await asyncio.gather(*tasks)
            return [call for call in calls if b"let-go-" in call.body]

    assert asyncio.run(scene()) == []


def test_an_answered_commit_is_freed_without_the_garbage_collector() -> None:
    catalog = catalog_with_table()
    commit = submit(catalog)
    freed = weakref.ref(commit)
    gc.disable()
    try:
        assert b"a" in asyncio.run(PendingResponse(commit, 60, properties_of).response(no_thread)).body
        del commit
        # Its worker may be the last to let go of it.
        assert eventually(lambda: freed() is None)
    finally:
        gc.enable()


class Stopped(SystemClock):
    """No time passes while a request comes in: its commit has all of the time that it may take."""

    def monotonic(self) -> float:
        return 1_000.0


def test_a_commit_is_withdrawn_when_its_time_is_over() -> None:
    catalog = catalog_with_table(rest_commit_wait_ms=50)
    app = create_app(catalog, token=None, settings=catalog.rest_settings, clock=Stopped())
    with catalog.locked(*TABLE):
        assert Web(app)("POST", PATH, body("a")).status_code == 409
    report = settled(submit(catalog, "b")).result()
    assert "b" in report.metadata.properties
    assert "a" not in report.metadata.properties


def test_a_thread_finds_out_what_became_of_a_withdrawn_commit_since_that_reads_the_table() -> None:
    catalog, threads = catalog_with_table(), list[str]()

    async def run(function: Callable[[], CommitReport]) -> CommitReport:
        threads.append("a thread")
        return await asyncio.to_thread(function)

    with catalog.locked(*TABLE), pytest.raises(LockNotAcquired):
        asyncio.run(PendingResponse(submit(catalog, "late"), 0.0, properties_of).response(run))
    assert threads == ["a thread"]
    answer = asyncio.run(PendingResponse(settled(submit(catalog)), 30.0, properties_of).response(run))
    assert b"a" in answer.body
    assert threads == ["a thread"], "a settled commit needs none"


def test_a_request_waits_for_a_sent_swap_beyond_its_time() -> None:
    catalog = catalog_with_table()

    async def scene() -> Response:
        with swap_held(catalog) as sent:
            commit = submit(catalog)
            assert sent.wait(30)
            waiting = asyncio.create_task(PendingResponse(commit, 0.001, properties_of).response(no_thread))
            await asyncio.sleep(0.1)
            assert not waiting.done()
        return await waiting

    assert b"a" in asyncio.run(scene()).body


def test_the_waiting_request_raises_what_its_commit_raises() -> None:
    commit = submit(catalog_with_table(), requirements=({"type": "assert-table-uuid", "uuid": "other"},))
    with pytest.raises(RequirementFailed):
        asyncio.run(PendingResponse(settled(commit), 30, properties_of).response(no_thread))


def test_a_commit_that_ends_after_its_server_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    catalog = catalog_with_table()

    async def scene(commit: PendingCommit) -> None:
        waiting = asyncio.create_task(PendingResponse(commit, 30, properties_of).response(no_thread))
        await asyncio.sleep(0)
        waiting.cancel()

    with catalog.locked(*TABLE):
        commit = submit(catalog)
        asyncio.run(scene(commit))
    # Its own listener has the commit's place, so this one sees the outcome by the table's next commit.
    settled(submit(catalog, "b"))
    assert "a" in commit.result().metadata.properties
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("seconds", [0.05, 0.0], ids=["before its time is over", "after it"])
def test_an_outcome_is_found_though_the_loop_could_not_be_woken(seconds: float) -> None:
    """The worker has no memory to wake the loop when it settles the commit: the client must not wait for ever."""
    catalog = catalog_with_table()

    async def scene(monkeypatch: pytest.MonkeyPatch) -> Response:
        loop, failed = asyncio.get_running_loop(), threading.Event()
        wake, own = loop.call_soon_threadsafe, threading.get_ident()

        def no_memory(*call: Any) -> None:
            if threading.get_ident() == own:
                wake(*call)
                return
            failed.set()
            raise MemoryError

        with monkeypatch.context() as patched:
            with swap_held(catalog) as sent:
                commit = submit(catalog)
                assert sent.wait(30)
                later = PendingResponse(commit, seconds, properties_of, recheck_seconds=0.01)
                waiting = asyncio.create_task(later.response(no_thread))
                await asyncio.sleep(0 if seconds else 0.005)
                patched.setattr(loop, "call_soon_threadsafe", no_memory)
            async with asyncio.timeout(30):
                while not failed.is_set():
                    await asyncio.sleep(0.001)
        async with asyncio.timeout(10):
            return await waiting

    with pytest.MonkeyPatch.context() as monkeypatch:
        assert b"a" in asyncio.run(scene(monkeypatch)).body
