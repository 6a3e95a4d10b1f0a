from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from iceberg_hms.errors import LockUnavailable, MetastoreUnavailable
from iceberg_hms.lock_record import LockRecord
from iceberg_hms.locking.lock_admin import Listing
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.settings import RestSettings
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web
from tests.rest.test_counters import values
from tests.security.callers import ByHand

#: Of rest.lock-metrics-interval-ms.
INTERVAL = 60
LOCKS = "iceberg_hms_rest_locks"


class Locks:
    """What lists the locks, as `Catalog.locks`. listings: how often; gate: what a listing waits for."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.found: tuple[LockRecord, ...] = ()
        self.problems: tuple[str, ...] = ()
        self.listings = 0
        self.gate = threading.Event()
        self.gate.set()

    def list(self) -> Listing:
        self.listings += 1
        assert self.gate.wait(30)
        if self.error is not None:
            raise self.error
        return Listing(self.found, self.problems)


class WithLocks(ScriptedCatalog):
    """The catalog in memory, with locks that a test decides."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.admin = Locks()

    @property
    def locks(self) -> Any:
        return self.admin


class Budgeted(ScriptedCatalog):
    """budget: the server's."""

    def use_memory(self, budget: MemoryBudget) -> None:
        self.budget = budget
        super().use_memory(budget)


def lock(state: str, seems_dead: str = "") -> LockRecord:
    return LockRecord("1", "hms", "db.t", state, "EXCLUSIVE", "u", "h", "", None, None, seems_dead)


def scrapes(catalog: ScriptedCatalog, clock: ByHand, script: Callable[[Callable[[], Any], ByHand], Any]) -> None:
    """Run a script of scrapes in one event loop."""
    app = create_app(catalog, settings=catalog.rest_settings, clock=clock)

    async def scene() -> None:
        async with Web(app).client() as client:

            async def scrape() -> dict[str, float]:
                response = await client.get("/metrics")
                assert response.status_code == 200
                return values(response.text)

            await script(scrape, clock)

    asyncio.run(scene())


async def until(scrape: Callable[[], Any], condition: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    async with asyncio.timeout(30):
        while not condition(found := await scrape()):
            await asyncio.sleep(0)
    return found  # type: ignore[no-any-return]


def test_the_memory_that_requests_hold_is_shown_with_its_bound() -> None:
    catalog = Budgeted()

    async def script(scrape: Callable[[], Any], _clock: ByHand) -> None:
        before = (await scrape())["iceberg_hms_rest_memory_bytes"]
        held = catalog.budget.share()
        held.set_to(1_000)
        found = await scrape()
        assert found["iceberg_hms_rest_memory_bytes"] == before + 1_000
        assert found["iceberg_hms_rest_memory_max_bytes"] == catalog.rest_settings.rest_memory_max_bytes

    scrapes(catalog, ByHand(), script)


def test_locks_are_counted_by_state_with_the_age_of_the_listing() -> None:
    catalog = WithLocks()
    catalog.admin.found = (lock("ACQUIRED"), lock("ACQUIRED", "it ended"), lock("WAITING"), lock("WAITING", "silent"))

    async def script(scrape: Callable[[], Any], clock: ByHand) -> None:
        assert f"{LOCKS}_age_seconds" not in await scrape()
        found = await until(scrape, lambda found: f"{LOCKS}_age_seconds" in found)
        clock.seconds += 7
        found = await scrape()
        states = {state: found[f'{LOCKS}{{state="{state}"}}'] for state in ("held", "waiting", "dead")}
        assert states == {"held": 1, "waiting": 1, "dead": 2}
        assert found[f"{LOCKS}_age_seconds"] == 7

    scrapes(catalog, ByHand(), script)


def test_the_locks_are_listed_once_in_an_interval_however_many_scrapes_there_are() -> None:
    catalog = WithLocks()

    async def script(scrape: Callable[[], Any], clock: ByHand) -> None:
        await until(scrape, lambda found: f"{LOCKS}_age_seconds" in found)
        for _ in range(20):
            await scrape()
        assert catalog.admin.listings == 1
        clock.seconds += INTERVAL
        await until(scrape, lambda found: found[f"{LOCKS}_age_seconds"] == 0)
        assert catalog.admin.listings == 2

    scrapes(catalog, ByHand(), script)


def test_a_scrape_never_waits_for_a_listing_and_two_never_run_at_once() -> None:
    catalog = WithLocks()
    catalog.admin.gate.clear()

    async def script(scrape: Callable[[], Any], clock: ByHand) -> None:
        for _ in range(5):
            assert f"{LOCKS}_age_seconds" not in await scrape()
            clock.seconds += INTERVAL
        assert catalog.admin.listings <= 1
        catalog.admin.gate.set()

    scrapes(catalog, ByHand(), script)


@pytest.mark.parametrize("error", [LockUnavailable("no"), MetastoreUnavailable("no"), ZeroDivisionError("no")])
def test_locks_that_cannot_be_listed_have_no_figures(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    catalog = WithLocks()

    async def script(scrape: Callable[[], Any], clock: ByHand) -> None:
        await until(scrape, lambda found: f"{LOCKS}_age_seconds" in found)
        catalog.admin.error = error
        for _ in range(3):
            clock.seconds += INTERVAL
            await until(scrape, lambda found: f"{LOCKS}_age_seconds" not in found)

    with caplog.at_level("INFO", "iceberg_hms.rest.gauges"):
        scrapes(catalog, ByHand(), script)
    assert [record.getMessage().partition(":")[0] for record in caplog.records if "not counted" in record.message] == [
        "the locks of warehouse default are not counted"
    ]


def test_who_may_not_list_locks_gets_no_figures() -> None:
    catalog = WithLocks()
    catalog.admin.problems = ("hms: permission denied",)

    async def script(scrape: Callable[[], Any], _clock: ByHand) -> None:
        await until(scrape, lambda _: catalog.admin.listings > 0)
        assert f"{LOCKS}_age_seconds" not in await scrape()

    scrapes(catalog, ByHand(), script)


def test_a_setting_turns_the_listing_off() -> None:
    catalog = WithLocks(rest_lock_metrics_interval_ms=0)

    async def script(scrape: Callable[[], Any], _clock: ByHand) -> None:
        await scrape()
        await scrape()

    scrapes(catalog, ByHand(), script)
    assert catalog.admin.listings == 0


def test_waiting_commits_are_counted_with_the_age_of_the_oldest(catalog: ScriptedCatalog, table: str) -> None:
    app = create_app(catalog, settings=catalog.rest_settings)
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}

    async def scene() -> None:
        async with Web(app).client() as client:

            async def waiting() -> float:
                found = values((await client.get("/metrics")).text)
                assert (found["iceberg_hms_rest_commits_waiting_seconds"] > 0) == (
                    found["iceberg_hms_rest_commits_waiting"] > 0
                )
                return found["iceberg_hms_rest_commits_waiting"]

            assert await waiting() == 0
            with catalog.locked("logging", "events"):
                # The first is in a group, which waits for the lock; the others wait for the next group.
                sent: list[asyncio.Task[httpx.Response]] = []
                async with asyncio.timeout(30):
                    while await waiting() < 2:
                        sent.append(asyncio.create_task(client.post(table, json=body)))
                        await asyncio.sleep(0.01)
            assert {response.status_code for response in await asyncio.gather(*sent)} == {200}
            assert await waiting() == 0

    asyncio.run(scene())


METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def test_the_text_has_the_form_that_prometheus_asks_for() -> None:
    """As `promtool check metrics` judges it: HELP and TYPE once and before the samples, which stand together; counters
    end in _total; no sample twice; a histogram has all its parts."""
    catalog = WithLocks(rest_metrics_tables=5)
    catalog.admin.found = (lock("ACQUIRED"),)
    catalog.create_namespace("logging")
    catalog.create_table(("logging", "events"), SCHEMA)
    app = create_app(catalog, settings=catalog.rest_settings, warehouses={"sales": (WithLocks(), RestSettings())})
    texts: list[str] = []

    async def scene() -> None:
        async with Web(app).client() as client:
            path = "/v1/namespaces/logging/tables/events"
            body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
            for status, answered in ((200, path), (404, path + 'x"\\')):
                assert (await client.post(answered, json=body)).status_code == status
            await client.post("/v1/sales/namespaces", json={"namespace": ["made"]})
            async with asyncio.timeout(30):
                while f"{LOCKS}_age_seconds" not in (text := (await client.get("/metrics")).text):
                    await asyncio.sleep(0)
            texts.append(text)

    asyncio.run(scene())
    types: dict[str, str] = {}
    helped: set[str] = set()
    seen: list[str] = []
    current = ""
    for line in texts[0].splitlines():
        if line.startswith("#"):
            _, word, name, rest = line.split(" ", 3)
            assert METRIC.fullmatch(name)
            if word == "HELP":
                assert name not in helped, "HELP twice"
                helped.add(name)
                assert rest.endswith(".")
            else:
                assert (word, current) == ("TYPE", current)
                assert name in helped
                assert name not in types, "TYPE twice"
                types[name] = rest
                assert (rest == "counter") == name.endswith("_total")
                current = name
            continue
        name = re.split(r"[{ ]", line, maxsplit=1)[0]
        base = re.sub(r"_(bucket|sum|count)$", "", name) if types[current] == "histogram" else name
        assert base == current, "samples of a metric stand together, below its TYPE"
        seen.append(line.rpartition(" ")[0])
    assert len(seen) == len(set(seen)), "a sample twice"
    assert set(types.values()) == {"counter", "gauge", "histogram"}
    for name in (name for name, kind in types.items() if kind == "histogram"):
        parts = {part for sample in seen for part in ("bucket", "sum", "count") if sample.startswith(f"{name}_{part}")}
        assert parts == {"bucket", "sum", "count"}
        assert any(sample.startswith(f"{name}_bucket") and 'le="+Inf"' in sample for sample in seen)
    assert values(texts[0])
