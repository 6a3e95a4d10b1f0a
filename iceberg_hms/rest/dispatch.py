"""From a request to its answer: reads the body on the event loop, within bounds, and hands the rest to a thread.

A handler is a plain function from `Call` to a response. It runs on a worker thread, so it may block, parse and render.
One that would wait for a commit returns a `Later` instead.

A small commit is the exception. To parse it and to put it in its table's queue takes a tenth of a millisecond and waits
for nobody, which is less than the way to a thread and back costs the interpreter. So its handler is called on the event
loop; what of it may block it returns as `Blocking`, for a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.changes.request import Client
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.errors import QueueFull
from iceberg_hms.rest.answers import compressed, worth_compressing
from iceberg_hms.rest.bodies import Bodies
from iceberg_hms.rest.counters import Counters
from iceberg_hms.rest.errors import error_response
from iceberg_hms.rest.payloads import decode_segment
from iceberg_hms.rest.pending import Later
from iceberg_hms.rest.workers import RequestThreads

logger = logging.getLogger(__name__)

#: How long a request's body may take to arrive.
BODY_SECONDS: Final = 60.0

#: Up to this size a body is parsed on the event loop, where its endpoint says that it may be. A larger one would keep
#: the other requests waiting for more than a millisecond.
LIGHT_BYTES: Final = 64 * 1024

#: How long an answer waits to be compressed; else it is sent as it is.
COMPRESS_SECONDS: Final = 1.0

#: The status of a commit that is proved to have failed and may be tried again.
CONFLICT: Final = 409

_NO_QUERY: Final = QueryParams()


class ClientLeft(Exception):
    """The connection was closed before the request was complete."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request whose body is not read yet.

    scope, receive: as ASGI has them. parameters: the path's, as they were sent. received: `clock.monotonic()` when it
    came in.
    """

    scope: Scope
    headers: Headers
    parameters: Mapping[str, str]
    receive: Receive
    received: float


@dataclass(frozen=True, slots=True)
class Context:
    """What all requests share. readers: threads for loads and lists; movers: for all that takes locks."""

    catalog: Catalog
    settings: Settings
    counters: Counters
    readers: RequestThreads
    movers: RequestThreads
    clock: Clock = SYSTEM_CLOCK
    bodies: Bodies = field(default_factory=Bodies)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, complete. parameters: the path's, decoded. received: `clock.monotonic()` when it came in."""

    context: Context
    received: float
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: QueryParams = field(default_factory=QueryParams)
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""

    @property
    def catalog(self) -> Catalog:
        return self.context.catalog

    @property
    def client(self) -> Client:
        """What the headers say of the sender."""
        return Client(self.headers.get("user-agent", ""), self.headers.get("x-client-version", ""))

    @property
    def seconds_left(self) -> float:
        """What the wait for a thread has left over of `rest.commit-wait-ms`, for a lock. Raises QueueFull."""
        left = self.received + self.context.settings.rest_commit_wait_ms / 1000 - self.context.clock.monotonic()
        if left <= 0:
            raise QueueFull("The request waited too long for a free thread; nothing of it was done")
        return left


@dataclass(frozen=True, slots=True)
class Blocking:
    """What a light handler returns for a part that blocks: a thread calls it."""

    work: Callable[[], Response]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path.

    template: as the REST spec writes it, without the prefix.
    moves: it takes locks, so it runs on the movers' threads. commit: its errors follow the rules of a commit.
    light: the handler itself never blocks, and small bodies need no thread.
    """

    method: str
    template: str
    handler: Callable[[Call], Response | Later | Blocking]
    moves: bool = False
    commit: bool = False
    light: bool = False


class Resource:
    """One path with all its methods."""

    def __init__(self, context: Context, endpoints: Mapping[str, Endpoint]) -> None:
        self._context = context
        self._endpoints = endpoints

    async def answer(self, incoming: Incoming) -> Response | None:
        """The answer to a request; None if its client left before the request was complete."""
        endpoint = self._endpoints.get(incoming.scope["method"])
        if endpoint is None:
            return error_response(self._not_allowed(incoming))
        counters = self._context.counters
        try:
            response = await self._handle(endpoint, incoming)
        except ClientLeft:
            logger.debug("the client left before its request was complete: %s", endpoint.template)
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an ErrorModel and never a stack
            response = error_response(error, commit=endpoint.commit, clock=self._context.clock)
            if endpoint.commit and response.status_code == CONFLICT:
                counters.conflict(error)
        if endpoint.commit:
            counters.commit_answered(response.status_code)
        return response

    def _not_allowed(self, incoming: Incoming) -> HTTPException:
        allowed = ", ".join(sorted(self._endpoints))
        message = f"{incoming.scope['method']} is not supported here, only {allowed}"
        return HTTPException(405, message, {"Allow": allowed})

    async def _handle(self, endpoint: Endpoint, incoming: Incoming) -> Response:
        context, headers = self._context, incoming.headers
        answer = await self._begin(endpoint, incoming)
        if isinstance(answer, Later):
            answer = await answer.response(context.readers.run)
        client = incoming.scope.get("client")
        peer = None if client is None else str(client[0])
        accepted = headers.get("accept-encoding", "")
        if not worth_compressing(answer, accepted, peer, on_loopback=context.settings.rest_compress_loopback):
            return answer
        with contextlib.suppress(QueueFull, TimeoutError):
            # What it answers for may be done: it must not wait, nor be told to come again, because a thread is missing.
            async with asyncio.timeout(COMPRESS_SECONDS):
                return await compressed(answer, context.readers.run)
        return answer

    async def _begin(self, endpoint: Endpoint, incoming: Incoming) -> Response | Later:
        """Read the request and call its handler. On return the request's body is let go: a commit may wait for long."""
        context, headers, query = self._context, incoming.headers, incoming.scope["query_string"]
        call = Call(
            context=context,
            received=incoming.received,
            parameters={name: decode_segment(text) for name, text in incoming.parameters.items()},
            query=QueryParams(query) if query else _NO_QUERY,
            headers=headers,
            body=await read_body(incoming.receive, headers, context.settings.rest_max_body_bytes),
        )
        workers = context.movers if endpoint.moves else context.readers
        light = endpoint.light and len(call.body) <= LIGHT_BYTES
        answer = endpoint.handler(call) if light else await workers.run(lambda: endpoint.handler(call))
        return await workers.run(answer.work) if isinstance(answer, Blocking) else answer


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """The body, of at most `limit` bytes. A longer one is 413 as soon as it is known to be longer, and what is left of
    it is not read; one that does not arrive in time is 408. Raises ClientLeft."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(400, "Compressed request bodies are not supported")
    too_large = HTTPException(413, f"The request body is larger than {limit} bytes", {"Connection": "close"})
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientLeft
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > limit:
                    raise too_large
                more = message.get("more_body", False)
    except TimeoutError as error:
        raise HTTPException(408, "The request body did not arrive in time", {"Connection": "close"}) from error
    return b"".join(chunks)
