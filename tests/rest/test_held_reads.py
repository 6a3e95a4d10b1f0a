from __future__ import annotations

import asyncio

import pytest

from iceberg_hms.clock import LONGEST_AWAY_SECONDS, SystemClock
from iceberg_hms.errors import MetastoreUnavailable, NoSuchTable
from iceberg_hms.rest import held_reads
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.held_reads import TRIES_PER_SECOND, HeldReads
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of

GONE = MetastoreUnavailable("no server answers")


class Clock(SystemClock):
    """Its time is made of what reads wait, half of each wait left out."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.time

    def jitter(self) -> float:
        return 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock, sleep = Clock(), asyncio.sleep

    async def skip(seconds: float) -> None:
        clock.waits.append(seconds)
        clock.time += seconds
        await sleep(0)

    monkeypatch.setattr(held_reads.asyncio, "sleep", skip)
    return clock


class Away:
    """A read that finds the metastore away so many times."""

    def __init__(self, times: int) -> None:
        self.tries = 0
        self._times = times

    async def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self._times:
            raise GONE
        return "read"


def test_a_read_is_tried_again_until_the_metastore_is_back(clock: Clock) -> None:
    read = Away(12)
    assert asyncio.run(HeldReads(clock, 30.0).run(read, 0.0)) == "read"
    assert clock.waits[:4] == [0.05, 0.1, 0.2, 0.4]
    assert max(clock.waits) == LONGEST_AWAY_SECONDS


def test_a_read_whose_time_is_over_gets_the_error(clock: Clock) -> None:
    read = Away(10**6)
    with pytest.raises(MetastoreUnavailable):
        asyncio.run(HeldReads(clock, 30.0).run(read, -10.0))
    assert 19.0 <= clock.time <= 20.0
    assert 20 <= read.tries <= 30


def test_another_error_is_no_reason_to_wait(clock: Clock) -> None:
    async def read() -> None:
        raise NoSuchTable("db.t")

    with pytest.raises(NoSuchTable):
        asyncio.run(HeldReads(clock, 30.0).run(read, 0.0))
    assert clock.waits == []


def test_many_reads_together_try_so_often_and_no_oftener(clock: Clock) -> None:
    held = HeldReads(clock, 1e9)
    reads = [Away(3) for _ in range(3_000)]

    async def run() -> None:
        await asyncio.gather(*(held.run(read, 0.0) for read in reads))

    asyncio.run(run())
    assert max(clock.waits) >= 2_999 / TRIES_PER_SECOND


def test_a_table_is_loaded_and_looked_for_once_the_metastore_is_back() -> None:
    catalog = ScriptedCatalog()
    catalog.create_table("default.t", SCHEMA)
    web = Web(create_app(catalog, token=None, settings=catalog.rest_settings))
    for method, status in (("GET", 200), ("HEAD", 204)):
        catalog.metastore.load_errors += [GONE, GONE]
        assert web(method, "/v1/namespaces/default/tables/t").status_code == status
        assert not catalog.metastore.load_errors
    catalog.errors["list_tables"] = GONE
    assert error_of(web("GET", "/v1/namespaces/default/tables"))[0] == 503
