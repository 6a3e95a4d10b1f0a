from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import QueueFull
from iceberg_hms.format.metadata.parsed_size import TextSize
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.rest import dispatch
from iceberg_hms.rest.access.audit import AuditEntry
from iceberg_hms.rest.access.authorization import Action
from iceberg_hms.rest.access.scopes import EVERYTHING, Caller
from iceberg_hms.rest.access.tokens import Everyone
from iceberg_hms.rest.admission import Admission
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.counters import Counters
from iceberg_hms.rest.dispatch import BlockingStep, Endpoint, Resource, RestRequest, ServerContext, UnreadRequest
from iceberg_hms.rest.purges import Purges
from iceberg_hms.rest.request_threads import RequestThreads
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.work import owner
from tests.rest.fakes import ScriptedCatalog, Web, error_of

LIMIT = 2_048
ENTRY = AuditEntry("an id", "a peer", Caller("", EVERYTHING))


@pytest.fixture
def small() -> Web:
    catalog = ScriptedCatalog(rest_max_body_bytes=LIMIT)
    return Web(create_app(catalog, token=None, settings=catalog.rest_settings))


def namespace_of(size: int) -> bytes:
    body = b'{"namespace": ["n"], "properties": {"a": "%s"}}'
    return body % (b"x" * (size - len(body) + 2))


def test_a_body_of_the_limit_is_read_and_one_byte_more_is_413(small: Web) -> None:
    assert small("POST", "/v1/namespaces", content=namespace_of(LIMIT)).status_code == 200
    response = small("POST", "/v1/namespaces", content=namespace_of(LIMIT + 1))
    assert error_of(response)[:2] == (413, "RequestTooLargeException")
    assert response.headers["connection"] == "close"


def read(receive: Any, memory: MemoryBudget | None = None, **settings: int) -> tuple[bytes, int]:
    bounds = RestSettings(rest_max_body_bytes=LIMIT, **settings)
    memory = memory or MemoryBudget(2 * 10**6)
    with Admission(1, memory).enter("a") as held:
        found = asyncio.run(dispatch.read_body(receive, {}, bounds, held))
        assert memory.held() == len(found[0]) + found[1]
    return found


def test_a_body_without_a_length_is_read_up_to_the_limit() -> None:
    sent = 0

    async def receive() -> dict[str, Any]:
        nonlocal sent
        sent += 1
        return {"type": "http.request", "body": b"x" * 1_000, "more_body": True}

    with pytest.raises(dispatch.HTTPException) as caught:
        read(receive)
    assert caught.value.status_code == 413
    assert sent == 3


def test_values_are_counted_as_they_arrive() -> None:
    pieces = [b'{"a":[[],', b"[],", b"[]]}"]

    async def receive() -> dict[str, Any]:
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    body = b'{"a":[[],[],[]]}'
    assert read(receive) == (body, TextSize(len(body), 8, False).parsed_bytes)


@pytest.mark.parametrize("arrived", [1, 2], ids=["before the whole body is here", "with what it takes once parsed"])
def test_a_body_that_the_memory_has_no_room_for_is_refused(arrived: int) -> None:
    pieces = [b"x" * 1_000, b"y" * 1_000]
    memory = MemoryBudget((arrived - 1) * 2_000 + 1_998)
    left = list(pieces)

    async def receive() -> dict[str, Any]:
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    with pytest.raises(QueueFull):
        read(receive, memory)
    assert len(left) == 2 - arrived


def test_a_body_of_too_many_values_is_refused_as_soon_as_that_is_known() -> None:
    sent = 0

    async def receive() -> dict[str, Any]:
        nonlocal sent
        sent += 1
        return {"type": "http.request", "body": b"[" * 400, "more_body": True}

    with pytest.raises(dispatch.HTTPException, match="more than 1000 values") as caught:
        read(receive, rest_max_body_values=1_000)
    assert caught.value.status_code == 413
    assert sent == 3


def test_a_body_that_stops_arriving_is_408() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(dispatch.HTTPException) as caught:
        read(receive, rest_body_timeout_ms=10)
    assert caught.value.status_code == 408


def test_a_compressed_body_is_refused(web: Web) -> None:
    response = web("POST", "/v1/namespaces", content=b"x", headers={"Content-Encoding": "gzip"})
    assert error_of(response)[:2] == (400, "BadRequestException")


def test_a_client_that_leaves_while_it_sends_changes_nothing(catalog: ScriptedCatalog) -> None:
    app = create_app(catalog, token=None, settings=catalog.rest_settings)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/namespaces", "headers": [], "query_string": b""}
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    assert sent == []
    assert catalog.calls == []


def test_an_unsupported_method_is_405_with_the_supported_ones(web: Web, table: str) -> None:
    response = web("PUT", table)
    assert error_of(response)[:2] == (405, "MethodNotAllowedException")
    assert response.headers["allow"] == "DELETE, GET, HEAD, POST"


def test_head_never_has_a_body(web: Web, table: str) -> None:
    for path, status in ((table, 204), (table + "x", 404), ("/v1/config", 405)):
        response = web("HEAD", path)
        assert (response.status_code, response.content) == (status, b"")


def test_large_responses_to_other_machines_are_compressed(catalog: ScriptedCatalog) -> None:
    for number in range(200):
        catalog.create_namespace(f"namespace_{number:04}")
    app = create_app(catalog, token=None, settings=catalog.rest_settings)
    local, remote = (Web(app, peer=peer)("GET", "/v1/namespaces") for peer in ("127.0.0.1", "10.0.0.7"))
    assert "content-encoding" not in local.headers
    assert remote.headers["content-encoding"] == "gzip"
    assert remote.json() == local.json()


def test_loads_are_served_while_every_write_thread_is_stuck() -> None:
    catalog = ScriptedCatalog(rest_threads=2, rest_commit_threads=2)
    app = create_app(catalog, token=None, settings=catalog.rest_settings)
    gate = threading.Event()

    async def scene() -> None:
        async with Web(app).client() as client:
            catalog.gate = gate
            stuck = [asyncio.create_task(client.delete("/v1/namespaces/none")) for _ in range(4)]
            for _ in range(2):
                await asyncio.to_thread(catalog.waiting.acquire)
            catalog.gate = None
            async with asyncio.timeout(10):
                assert (await client.get("/v1/namespaces")).status_code == 200
            gate.set()
            answers = await asyncio.gather(*stuck)
            assert [answer.status_code for answer in answers] == [404] * 4

    asyncio.run(scene())


def test_requests_beyond_the_waiting_limit_are_429_with_retry_after() -> None:
    catalog = ScriptedCatalog(rest_threads=1)
    app = create_app(catalog, token=None, settings=catalog.rest_settings)
    catalog.gate = threading.Event()

    async def scene() -> list[httpx.Response]:
        async with Web(app).client() as client:
            tasks = [asyncio.create_task(client.get("/v1/namespaces")) for _ in range(70)]
            early, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            assert all(task.result().status_code == 429 for task in early)
            assert catalog.gate is not None
            catalog.gate.set()
            return await asyncio.gather(*tasks)

    answers = asyncio.run(scene())
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 5
    assert all(error_of(answer)[1] == "TooManyRequestsException" for answer in refused)
    assert all(answer.headers["retry-after"] == "1" for answer in refused)
    assert all(answer.status_code == 200 for answer in answers if answer not in refused)


async def chunks(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 100):
        yield data[start : start + 100]


def test_a_chunked_body_is_read_completely(web: Web) -> None:
    async def ask() -> httpx.Response:
        async with web.client() as client:
            return await client.post("/v1/namespaces", content=chunks(namespace_of(1_000)))

    assert asyncio.run(ask()).status_code == 200


def where(request: RestRequest) -> Response:
    return Response(f"{threading.current_thread().name} for {owner()!r}")


def in_two_steps(request: RestRequest) -> BlockingStep:
    begun = threading.current_thread().name
    return BlockingStep(lambda: Response(f"{begun}, {threading.current_thread().name} for {owner()!r}"))


@pytest.mark.parametrize(
    ("endpoint", "size", "expected"),
    [
        (Endpoint("POST", "/", where, Action.GET_CONFIG), 1, "read_0 for 'caller local'"),
        (Endpoint("POST", "/", where, Action.GET_CONFIG, takes_locks=True), 1, "write_0 for 'caller local'"),
        (
            Endpoint("POST", "/", where, Action.GET_CONFIG, takes_locks=True, never_blocks=True),
            dispatch.SMALL_BODY_BYTES,
            "MainThread for ''",
        ),
        (
            Endpoint("POST", "/", where, Action.GET_CONFIG, takes_locks=True, never_blocks=True),
            dispatch.SMALL_BODY_BYTES + 1,
            "write_0 for 'caller local'",
        ),
        (
            Endpoint("POST", "/", in_two_steps, Action.GET_CONFIG, takes_locks=True, never_blocks=True),
            1,
            "MainThread, write_0 for 'caller local'",
        ),
    ],
    ids=["read", "write", "small body", "large body", "blocking step"],
)
def test_only_nonblocking_handlers_of_small_bodies_run_on_the_event_loop(
    endpoint: Endpoint, size: int, expected: str
) -> None:
    read_threads, write_threads = RequestThreads("read", 1), RequestThreads("write", 1)
    resource = Resource(
        ServerContext(
            ScriptedCatalog(),
            RestSettings(),
            Everyone(),
            Counters(),
            read_threads,
            write_threads,
            Admission(9, MemoryBudget(2 * 10**6)),
            Purges(ThreadRuntime()),
        ),
        {"POST": endpoint},
    )

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * size}

    async def ask() -> Response | None:
        scope = {"type": "http", "method": "POST", "query_string": b""}
        return await resource.answer(UnreadRequest(scope, {}, {}, receive, SYSTEM_CLOCK.monotonic(), ENTRY))  # type: ignore[arg-type]

    response = asyncio.run(ask())
    read_threads.close()
    write_threads.close()
    assert response is not None
    assert bytes(response.body).decode() == expected


@pytest.mark.parametrize("why", ["too many wait", "none gets free in time"])
def test_a_response_is_sent_uncompressed_if_no_thread_can_compress_it(why: str) -> None:
    read_threads = RequestThreads("read", 1, waiting_per_thread=0 if why == "too many wait" else 8)
    busy = threading.Event()
    endpoint = Endpoint("GET", "/", lambda request: Response(b"x" * 10_000), Action.GET_CONFIG, takes_locks=True)
    resource = Resource(
        ServerContext(
            ScriptedCatalog(),
            RestSettings(),
            Everyone(),
            Counters(),
            read_threads,
            RequestThreads("write", 1),
            Admission(9, MemoryBudget(2 * 10**6)),
            Purges(ThreadRuntime()),
            compress_seconds=0.01,
        ),
        {"GET": endpoint},
    )

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def ask() -> Response | None:
        loading = asyncio.create_task(read_threads.run(lambda: busy.wait(30)))
        await asyncio.sleep(0)
        scope = {"type": "http", "method": "GET", "query_string": b"", "client": ("10.0.0.7", 1)}
        headers = {"accept-encoding": "gzip"}
        try:
            return await answer(scope, headers)
        finally:
            busy.set()
            await loading

    async def answer(scope: dict[str, Any], headers: dict[str, str]) -> Response | None:
        return await resource.answer(UnreadRequest(scope, headers, {}, receive, SYSTEM_CLOCK.monotonic(), ENTRY))  # type: ignore[arg-type]

    response = asyncio.run(ask())
    assert response is not None
    assert response.status_code == 200
    assert response.body == b"x" * 10_000
