from __future__ import annotations

import asyncio
import threading

import pytest
from starlette.types import Receive, Scope, Send

from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.rest.access.audit import AuditEntry
from iceberg_hms.rest.access.tokens import Everyone
from iceberg_hms.rest.admission import Admission
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.counters import Counters
from iceberg_hms.rest.dispatch import ServerContext, UnreadRequest
from iceberg_hms.rest.health import WATCHED_SECONDS, Health
from iceberg_hms.rest.purges import Purges
from iceberg_hms.rest.request_threads import RequestThreads
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.runtime import ThreadRuntime
from tests.rest.fakes import ScriptedCatalog, Web
from tests.security.callers import ByHand


def test_the_server_is_live_while_the_metastore_is_away(web: Web, catalog: ScriptedCatalog) -> None:
    catalog.errors["namespace_exists"] = MetastoreUnavailable("nobody answers at thrift://secret:9083")
    assert web("GET", "/health/live").json() == {"status": "live"}
    response = web("GET", "/health/ready")
    assert response.status_code == 503
    assert "secret" not in response.text


def test_the_server_is_ready_whatever_the_metastore_answers(web: Web, catalog: ScriptedCatalog) -> None:
    assert web("GET", "/health/ready").status_code == 200
    catalog.drop_namespace("default")
    assert web("GET", "/health/ready").json() == {"status": "ready"}


def test_the_server_becomes_ready_again(web: Web, catalog: ScriptedCatalog) -> None:
    catalog.errors["namespace_exists"] = MetastoreUnavailable("x")
    assert web("GET", "/health/ready").status_code == 503
    catalog.errors.clear()
    assert web("GET", "/health/ready").status_code == 200


@pytest.mark.parametrize("down", [(), ("default",), ("sales",), ("default", "sales")])
def test_a_server_of_several_warehouses_is_ready_while_one_answers(down: tuple[str, ...]) -> None:
    default, sales = ScriptedCatalog(), ScriptedCatalog()
    for name, catalog in (("default", default), ("sales", sales)):
        if name in down:
            catalog.errors["namespace_exists"] = MetastoreUnavailable("x")
    app = create_app(default, settings=default.rest_settings, warehouses={"sales": (sales, sales.rest_settings)})
    assert Web(app)("GET", "/health/ready").status_code == (503 if len(down) == 2 else 200)


def test_a_metastore_that_hangs_does_not_delay_the_check_of_a_server_with_another_one() -> None:
    hangs, answers = ScriptedCatalog(), ScriptedCatalog()
    gate = hangs.gate = threading.Event()
    app = create_app(hangs, settings=hangs.rest_settings, warehouses={"sales": (answers, answers.rest_settings)})
    try:
        assert Web(app)("GET", "/health/ready").status_code == 200
    finally:
        gate.set()


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_health_paths_are_read_only(web: Web, method: str, path: str) -> None:
    assert web(method, path).status_code == 405


def test_a_server_that_is_about_to_stop_is_live_and_not_ready(catalog: ScriptedCatalog, table: str) -> None:
    app = create_app(catalog, settings=catalog.rest_settings)
    web = Web(app)
    app.health.draining = app.retiring = True
    response = web("GET", "/health/ready")
    assert (response.status_code, response.json()["reason"]) == (503, "the server is about to stop")
    for path in ("/health/live", table):
        response = web("GET", path)
        assert (response.status_code, response.headers["connection"]) == (200, "close")


def test_a_server_that_nobody_asks_whether_it_is_ready_is_not_watched(catalog: ScriptedCatalog) -> None:
    clock = ByHand()
    app = create_app(catalog, settings=catalog.rest_settings, clock=clock)
    Web(app)("GET", "/health/live")
    assert not app.health.is_watched
    Web(app)("GET", "/health/ready")
    assert app.health.is_watched
    clock.seconds += WATCHED_SECONDS
    assert not app.health.is_watched


def test_only_one_health_check_at_a_time_asks_a_metastore_that_hangs() -> None:
    catalog = ScriptedCatalog()
    catalog.gate = threading.Event()
    read_threads = RequestThreads("read", 4)
    context = ServerContext(
        catalog,
        RestSettings(),
        Everyone(),
        Counters(),
        read_threads,
        RequestThreads("move", 1),
        Admission(9, MemoryBudget()),
        Purges(ThreadRuntime()),
    )
    health = Health([context], ready_seconds=0.01)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await health.answer(UnreadRequest(scope, {}, {}, receive, 0.0, AuditEntry("an id", "a peer")))
        await response(scope, receive, send)

    web = Web(app)

    async def probe_three_times() -> list[int]:
        async with web.client() as client:
            answers = [(await client.get("/health/ready")).status_code for _ in range(3)]
            assert catalog.gate is not None
            catalog.gate.set()
            while read_threads.pending:
                await asyncio.sleep(0)
            return answers

    assert asyncio.run(probe_three_times()) == [503, 503, 503]
    assert [method for method, _ in catalog.calls] == ["namespace_exists"]
    read_threads.close()
