"""A refused file takes memory while the server reads it, and none once the client has the refusal."""

from __future__ import annotations

import asyncio
import gc
import gzip
import tracemalloc
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import orjson
import pytest

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.rest.app import create_app
from tests.rest.fakes import ScriptedCatalog
from tests.security.avro_blocks import LIST, MIB, container, deflate
from tests.security.raw import TABLE, Raw, serving

REFUSALS = 6
REGISTER = "/v1/namespaces/logging/register"


@contextmanager
def no_collector(most: int) -> Iterator[None]:
    """The garbage collector runs before and not within, where no more than `most` bytes are left in the end."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[0] < most
    finally:
        tracemalloc.stop()
        gc.enable()


def append(snapshot_id: int, manifest_list: str, parent: int | None, number: int) -> bytes:
    """An append whose client saw `parent` as the current snapshot."""
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": number,
        "timestamp-ms": SYSTEM_CLOCK.now_ms(),
        "manifest-list": manifest_list,
        "summary": {"operation": "append"},
        "schema-id": 0,
        **({} if parent is None else {"parent-snapshot-id": parent}),
    }
    moved = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    seen = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}
    updates = [{"action": "add-snapshot", "snapshot": snapshot}, moved]
    return orjson.dumps({"requirements": [seen], "updates": updates})


@pytest.mark.parametrize(
    "bomb",
    [
        container(LIST, [(1, deflate(b"\0" * 64 * MIB))], "deflate"),
        container(LIST, [(1, deflate(b"\xff" * 16 * MIB))], "deflate"),
    ],
    ids=["too large", "damaged"],
)
def test_a_refused_manifest_list_leaves_no_memory(bomb: bytes) -> None:
    with serving(rebase_appends="all") as (server, catalog), Raw(server) as client:
        folder = f"{catalog.load('logging.events').metadata.location}/metadata"
        for number, parent in ((1, None), (2, 1)):
            catalog.files.write(f"{folder}/{number}.avro", container(LIST, [], "null"))
            assert client.ask("POST", TABLE, append(number, f"{folder}/{number}.avro", parent, number)).status == 200
        catalog.files.write(f"{folder}/bomb.avro", bomb)
        stale = append(7, f"{folder}/bomb.avro", 1, 2)
        assert client.ask("POST", TABLE, stale).status == 400
        with no_collector(most=16 * MIB):
            for _ in range(REFUSALS):
                assert client.ask("POST", TABLE, stale).status == 400


def test_a_refused_metadata_file_leaves_no_memory() -> None:
    with serving() as (server, catalog), Raw(server) as client:
        location = f"{catalog.load('logging.events').metadata.location}/metadata/x.metadata.json"
        catalog.files.write(location, gzip.compress(b'{"a":"' + b"x" * 16 * MIB + b'"}'))
        body = orjson.dumps({"name": "registered", "metadata-location": location})
        assert client.ask("POST", REGISTER, body).status == 400
        with no_collector(most=16 * MIB):
            for _ in range(REFUSALS):
                assert client.ask("POST", REGISTER, body).status == 400


def test_a_refusal_that_its_client_does_not_read_holds_no_request() -> None:
    """Neither by what it quotes, nor by the error, whose frames hold the request."""
    long = "k" * 4 * MIB + "\U0001f600"
    body = orjson.dumps({"updates": {long: 1}})
    catalog = ScriptedCatalog()
    catalog.create_namespace("sales")
    app = create_app(catalog, settings=catalog.rest_settings)
    path = "/v1/namespaces/sales/properties"
    length = str(len(body)).encode()
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", length)]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers, "client": None}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def scene() -> None:
        begun, reads = asyncio.Semaphore(0), asyncio.Event()

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                assert message["status"] == 400
            else:
                begun.release()
                await reads.wait()

        # A thread may keep its last one.
        with no_collector(most=32 * MIB):
            clients = [asyncio.create_task(app(scope, receive, send)) for _ in range(REFUSALS)]
            for _ in clients:
                await begun.acquire()
        reads.set()
        await asyncio.gather(*clients)

    asyncio.run(scene())
