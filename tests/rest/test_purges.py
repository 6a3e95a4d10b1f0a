"""Purges that requests ask for: small ones before the answer, large ones behind it, bounded in every way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms import work
from iceberg_hms.catalog.purge import Purge
from iceberg_hms.coordinator.files.own_files import SEARCH_ALL_SECONDS
from iceberg_hms.rest import purges as purges_module
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.purges import ANSWER_SECONDS, THREADS, WAITING_MAX, Purges
from iceberg_hms.runtime import ThreadRuntime
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web

LIMIT = 30


class HeldPurge(Purge):
    """A purge that ends when the test permits it. asked: how often it was asked to run; again: set by the second time.
    waits: for the permit. threads, owners: where, and for whom. hangs: what its second run waits for, as for a store.
    searches: how long each run may search for other tables in the folder, and whether that is the last word."""

    def __init__(self, *, releases: int = 0) -> None:
        self.asked = 0
        self.permits = threading.Semaphore(releases)
        self.again = threading.Event()
        self.ended = threading.Event()
        self.given_up = threading.Event()
        self.threads: list[str] = []
        self.owners: list[str] = []
        self.fails = False
        self.waits = True
        self.hangs: threading.Event | None = None
        self.searches: list[tuple[float, bool]] = []

    name = "db.t"  # type: ignore[assignment]

    def run(
        self,
        stop: Callable[[], bool] = lambda: False,
        *,
        search_seconds: float = SEARCH_ALL_SECONDS,
        is_last: bool = True,
    ) -> bool:
        self.asked += 1
        self.searches.append((search_seconds, is_last))
        self.threads.append(threading.current_thread().name)
        self.owners.append(work.owner())
        if self.fails:
            raise ZeroDivisionError
        if self.asked > 1:
            self.again.set()
        if self.hangs is not None and self.asked > 1:
            self.hangs.wait(LIMIT)
        while not self.permits.acquire(timeout=0.001):
            if stop() or not self.waits:
                return False
        self.ended.set()
        return True

    def give_up(self) -> None:
        self.given_up.set()


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> ThreadRuntime:
    """Its requests answer at once."""
    monkeypatch.setattr(purges_module, "ANSWER_SECONDS", 0.0)
    monkeypatch.setattr(purges_module, "STOP_SECONDS", 0.2)
    return ThreadRuntime()


def many(purges: Purges, count: int) -> list[HeldPurge]:
    """So many that are under way behind their answers."""
    found = [HeldPurge() for _ in range(count)]
    assert not any(purges.run(each) for each in found)
    return found


def test_a_small_table_is_purged_before_the_answer() -> None:
    small = HeldPurge(releases=1)
    purges = Purges(ThreadRuntime())
    assert purges.run(small)
    assert (small.asked, small.threads) == (1, [threading.current_thread().name])
    purges.close()
    assert not small.given_up.is_set()


def test_a_large_one_goes_on_behind_the_answer_for_its_caller(runtime: ThreadRuntime) -> None:
    purges = Purges(runtime)
    with work.owned_by("caller ann"):
        [large] = many(purges, 1)
    assert not large.ended.is_set()
    large.permits.release()
    assert large.ended.wait(LIMIT)
    assert large.threads[-1] != large.threads[0]
    assert large.searches == [(purges_module.ANSWER_SECONDS, False), (purges_module.SEARCH_SECONDS, False)]
    assert large.owners == ["caller ann", "caller ann"]
    purges.close()
    assert not large.given_up.is_set()


def test_one_that_finds_no_metastore_or_no_memory_is_tried_again(
    runtime: ThreadRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purges_module, "TRY_AGAIN_SECONDS", 0.001)
    purges = Purges(runtime)
    hopeless = HeldPurge()
    hopeless.waits = False
    assert not purges.run(hopeless)
    assert hopeless.given_up.wait(LIMIT)
    assert [is_last for _, is_last in hopeless.searches] == [False] * purges_module.TRIES + [True]
    purges.close()


def test_a_request_goes_on_itself_if_too_many_wait(runtime: ThreadRuntime) -> None:
    purges = Purges(runtime)
    busy = many(purges, THREADS)
    assert all(each.again.wait(LIMIT) for each in busy)
    waiting = many(purges, WAITING_MAX)
    one_more = HeldPurge()
    answers: list[bool] = []
    request = threading.Thread(target=lambda: answers.append(purges.run(one_more)))
    request.start()
    assert one_more.again.wait(LIMIT)
    assert [each.asked for each in waiting] == [1] * WAITING_MAX
    one_more.permits.release()
    request.join(LIMIT)
    assert answers == [True]
    assert len(set(one_more.threads)) == 1
    assert one_more.searches == [(purges_module.ANSWER_SECONDS, False), (SEARCH_ALL_SECONDS, True)]
    for each in (*busy, *waiting):
        each.permits.release()
    assert all(each.ended.wait(LIMIT) for each in (*busy, *waiting))
    purges.close()


def test_what_has_not_ended_when_the_server_stops_says_what_is_left(runtime: ThreadRuntime) -> None:
    purges = Purges(runtime)
    left = many(purges, THREADS + WAITING_MAX)
    purges.close()
    assert all(each.given_up.is_set() for each in left)
    late = HeldPurge()
    assert purges.run(late), "a request that outlives the server ends its purge itself"
    assert late.given_up.is_set()


def test_a_purge_that_a_store_holds_up_delays_no_stop_and_is_reported_once(runtime: ThreadRuntime) -> None:
    purges = Purges(runtime)
    held = HeldPurge()
    held.hangs = threading.Event()
    assert not purges.run(held)
    purges.close()
    assert held.given_up.is_set()
    held.given_up.clear()
    held.hangs.set()
    purges.close()
    assert not held.given_up.is_set()


def test_purges_that_end_just_after_the_stop_are_let_go_on(runtime: ThreadRuntime, monkeypatch: Any) -> None:
    monkeypatch.setattr(purges_module, "STOP_SECONDS", LIMIT)
    purges = Purges(runtime)
    [nearly] = many(purges, 1)
    closing = threading.Thread(target=purges.close)
    closing.start()
    nearly.permits.release()
    closing.join(LIMIT)
    assert nearly.ended.is_set()
    assert not nearly.given_up.is_set()


def test_a_defect_ends_its_own_purge_alone(runtime: ThreadRuntime, caplog: pytest.LogCaptureFixture) -> None:
    purges = Purges(runtime)
    broken = HeldPurge()
    broken.fails = True
    assert not purges.run(broken)
    assert broken.given_up.wait(LIMIT)
    [fine] = many(purges, 1)
    fine.permits.release()
    assert fine.ended.wait(LIMIT)
    purges.close()
    assert "the purge of db.t failed" in caplog.text


def test_without_a_thread_the_request_purges(runtime: ThreadRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(runtime, "spawn", none)
    purges = Purges(runtime)
    first = HeldPurge()
    request = threading.Thread(target=purges.run, args=(first,))
    request.start()
    assert first.again.wait(LIMIT)
    first.permits.release()
    request.join(LIMIT)
    assert first.ended.is_set()
    purges.close()


class Stores(ScriptedCatalog):
    """A catalog whose files a test holds up."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.gone = threading.Event()
        self.subscribe(lambda event: self.gone.set() if event["event"] == "purged" else None)
        delete = self.files.delete

        def slow(location: str) -> bool:
            self.opened.wait(LIMIT)
            return delete(location)

        self.files.delete = slow  # type: ignore[method-assign]
        self.create_namespace("sales")
        self.create_table(("sales", "orders"), SCHEMA)


def test_the_answer_does_not_wait_for_the_files_of_a_large_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purges_module, "ANSWER_SECONDS", -1.0)
    catalog = Stores()
    location = catalog.load_table(("sales", "orders")).metadata_location
    app = create_app(catalog, settings=catalog.rest_settings)
    assert Web(app)("DELETE", "/v1/namespaces/sales/tables/orders?purgeRequested=true").status_code == 204
    assert Web(app)("HEAD", "/v1/namespaces/sales/tables/orders").status_code == 404
    assert location in catalog.files.locations()
    assert not catalog.gone.is_set()
    catalog.opened.set()
    assert catalog.gone.wait(LIMIT)
    assert catalog.files.locations() == ()


def test_a_small_tables_files_are_gone_with_the_answer() -> None:
    assert ANSWER_SECONDS > 1
    catalog = Stores()
    catalog.opened.set()
    web = Web(create_app(catalog, settings=catalog.rest_settings))
    assert web("DELETE", "/v1/namespaces/sales/tables/orders?purgeRequested=true").status_code == 204
    assert catalog.files.locations() == ()


def test_a_server_that_stops_says_which_metadata_file_leads_to_what_is_left(
    runtime: ThreadRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runtime
    monkeypatch.setattr(purges_module, "ANSWER_SECONDS", -1.0)
    catalog = Stores()
    events: list[Any] = []
    catalog.subscribe(events.append)
    location = catalog.load_table(("sales", "orders")).metadata_location
    app = create_app(catalog, settings=catalog.rest_settings)
    assert Web(app)("DELETE", "/v1/namespaces/sales/tables/orders?purgeRequested=true").status_code == 204
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.shutdown" if sent else "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app({"type": "lifespan"}, receive, send))
    catalog.opened.set()
    [purged] = [event for event in events if event["event"] == "purged"]
    assert (purged["ended"], purged["metadata_location"]) == (False, location)
