"""From a request to its answer: reads the body on the event loop, within bounds, and hands the rest to a thread.

A handler is a plain function from `Call` to a response. It runs on a worker thread, so it may block, parse and render;
the event loop does neither JSON, nor thrift, nor files. One that would wait for a commit returns a `Later` instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

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
from iceberg_hms.rest.ports import CatalogPort
from iceberg_hms.rest.workers import Workers

logger = logging.getLogger(__name__)

#: How long a request's body may take to arrive.
BODY_SECONDS: Final = 60.0

#: The status of a commit that is proved to have failed and may be tried again.
CONFLICT: Final = 409

#: Where the route's template is kept in the ASGI scope, for the counters.
ROUTE_KEY: Final = "iceberg_hms.route"


@dataclass(frozen=True, slots=True)
class Context:
    """What all requests share. readers: threads for loads and lists; movers: for all that takes locks."""

    catalog: CatalogPort
    settings: Settings
    counters: Counters
    readers: Workers
    movers: Workers
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
    def catalog(self) -> CatalogPort:
        return self.context.catalog

    @property
    def client(self) -> Client:
        """What the headers say of the sender: some clients are known only by them."""
        return Client(self.headers.get("user-agent", ""), self.headers.get("x-client-version", ""))

    @property
    def seconds_left(self) -> float:
        """What the wait for a thread has left over of `rest.commit-wait-ms`, for a lock. Raises QueueFull."""
        left = self.received + self.context.settings.rest_commit_wait_ms / 1000 - self.context.clock.monotonic()
        if left <= 0:
            raise QueueFull("The request waited too long for a free thread; nothing of it was done")
        return left


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path.

    template: as the REST spec writes it, without the prefix.
    moves: it takes locks, so it runs on the movers' threads. commit: its errors follow the rules of a commit.
    """

    method: str
    template: str
    handler: Callable[[Call], Response | Later]
    moves: bool = False
    commit: bool = False


class Resource:
    """ASGI application of one path with all its methods."""

    def __init__(self, context: Context, endpoints: Mapping[str, Endpoint]) -> None:
        self._context = context
        self._endpoints = endpoints
        self._template = next(iter(endpoints.values())).template

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ROUTE_KEY] = self._template
        endpoint = self._endpoints.get(scope["method"])
        commit = endpoint is not None and endpoint.commit
        try:
            response = await self._answer(endpoint, scope, receive)
        except ClientDisconnect:
            logger.debug("the client left before its request was complete: %s", self._template)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an ErrorModel and never a stack
            response = error_response(error, commit=commit, clock=self._context.clock)
            if commit and response.status_code == CONFLICT:
                self._context.counters.conflict(error)
        if commit:
            self._context.counters.commit_answered(response.status_code)
        await response(scope, receive, send)

    async def _answer(self, endpoint: Endpoint | None, scope: Scope, receive: Receive) -> Response:
        if endpoint is None:
            allowed = ", ".join(sorted(self._endpoints))
            raise HTTPException(405, f"{scope['method']} is not supported here, only {allowed}", {"Allow": allowed})
        context = self._context
        request = Request(scope, receive)
        call = Call(
            context=context,
            received=context.clock.monotonic(),
            parameters={name: decode_segment(text) for name, text in request.path_params.items()},
            query=request.query_params,
            headers=request.headers,
            body=await read_body(request, context.settings.rest_max_body_bytes),
        )
        peer = None if request.client is None else request.client.host
        accepted = call.headers.get("accept-encoding", "")
        workers = context.movers if endpoint.moves else context.readers

        def handle() -> Response | Later:
            answer = endpoint.handler(call)
            return answer if isinstance(answer, Later) else compressed(answer, accepted, peer)

        answer = await workers.run(handle)
        if not isinstance(answer, Later):
            return answer
        response = await answer.response()
        if not worth_compressing(response, accepted, peer):
            return response
        return await context.readers.run(lambda: compressed(response, accepted, peer))


async def read_body(request: Request, limit: int) -> bytes:
    """The body, of at most `limit` bytes. A longer one is 413 as soon as it is known to be longer, and what is left of
    it is not read; one that does not arrive in time is 408."""
    headers = request.headers
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
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError as error:
        raise HTTPException(408, "The request body did not arrive in time", {"Connection": "close"}) from error
    return b"".join(chunks)
