"""From a request to its response: asks whether the caller may do what the endpoint declares, reads the body on the
event loop, within bounds, and calls a handler on a thread.

A handler is a plain function from `RestRequest` to a response, and may block. One that submits a commit returns a
`PendingResponse` instead of waiting for it.

Small commits are the exception. Parsing and queueing one takes a tenth of a millisecond and blocks nowhere; a switch to
a thread and back costs more. So their handler runs on the event loop, and returns what may block as a `BlockingStep`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from urllib.parse import unquote

import orjson
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.services import CredentialVending
from iceberg_hms.changes.clients.request import Client
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.errors import QueueFull, ReadOnly, ScopeMissing, release_frames
from iceberg_hms.format.metadata.parsed_size import TextSize, count_values, is_wide
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.rest.access.audit import CHANGES, AuditEntry
from iceberg_hms.rest.access.authorization import Access, AccessTarget, Action, require
from iceberg_hms.rest.access.scopes import Caller
from iceberg_hms.rest.access.tokens import not_authenticated
from iceberg_hms.rest.admission import Admission, HeldByRequest
from iceberg_hms.rest.client_planning import table_properties
from iceberg_hms.rest.connections import peer_of
from iceberg_hms.rest.counters import Counters
from iceberg_hms.rest.errors import CONFLICT, error_response
from iceberg_hms.rest.held_reads import HeldReads
from iceberg_hms.rest.payloads import Page, decode_segment, joined_parts
from iceberg_hms.rest.pending_response import PendingResponse
from iceberg_hms.rest.planning import Planning
from iceberg_hms.rest.purges import Purges
from iceberg_hms.rest.request_threads import RequestThreads
from iceberg_hms.rest.response_bodies import ResponseBodyCache
from iceberg_hms.rest.responses import TableConfig, compressed, worth_compressing
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.rest.warehouses import DEFAULT_WAREHOUSE

logger = logging.getLogger(__name__)

#: The largest body that an endpoint with `never_blocks` parses on the event loop. A larger one would delay all other
#: requests by more than a millisecond.
SMALL_BODY_BYTES: Final = 64 * 1024

#: How long a response may wait for its compression; after that it is sent uncompressed.
COMPRESS_SECONDS: Final = 1.0

_NO_QUERY: Final = QueryParams()


class ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


@dataclass(frozen=True, slots=True)
class UnreadRequest:
    """A request whose body is still unread.

    scope, receive: as in ASGI. headers: by name in lower case; of a name that comes twice the first.
    parameters: of the path, still encoded. received: `clock.monotonic()` of its arrival.
    entry: what is known of it for the audit trail, who calls above all.
    """

    scope: Scope
    headers: Mapping[str, str]
    parameters: Mapping[str, str]
    receive: Receive
    received: float
    entry: AuditEntry


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What all requests to a warehouse share. access: who calls, and what they may do. read_threads: for loads and
    lists. write_threads: for requests that take locks. admission: what callers may hold at once. purges: what deletes
    the files of dropped tables. bodies: of commits, which the event loop answers; loads: of loads, which it does not.
    warehouse: its name. warehouses: the settings of all that the server has, by name. vending: makes credentials for
    clients that ask for them; None: nothing does. held_reads: what reads of tables wait in while the metastore is away.
    planning: plans scans; None: nothing does.

    Warehouses have threads of their own, since one whose metastore hangs must not take those of the others. All else is
    the server's, except catalog, settings, vending and planning."""

    catalog: Catalog
    settings: RestSettings
    access: Access
    counters: Counters
    read_threads: RequestThreads
    write_threads: RequestThreads
    admission: Admission
    purges: Purges
    clock: Clock = SYSTEM_CLOCK
    bodies: ResponseBodyCache = field(default_factory=ResponseBodyCache)
    loads: ResponseBodyCache = field(default_factory=ResponseBodyCache)
    compress_seconds: float = COMPRESS_SECONDS
    warehouse: str = DEFAULT_WAREHOUSE
    warehouses: Mapping[str, RestSettings] = field(default_factory=dict)
    vending: CredentialVending | None = None
    planning: Planning | None = None
    held_reads: HeldReads = field(init=False)

    def __post_init__(self) -> None:
        held = HeldReads(self.clock, self.settings.rest_commit_wait_ms / 1000)
        object.__setattr__(self, "held_reads", held)

    @property
    def memory(self) -> MemoryBudget:
        """What all requests may hold."""
        return self.admission.memory

    def config_of(self, metadata: TableMetadata) -> TableConfig:
        """What clients get with a table, besides credentials."""
        config = orjson.dumps(table_properties(self.settings, metadata))
        return TableConfig(config, version=config)


def _may(access: Access, caller: Caller, warehouse: str, action: Action, namespace: str) -> bool:
    """Whether a caller has a right in a namespace of a warehouse; `placement.EVERYWHERE`: in all."""
    return access.allow(caller, action, AccessTarget(namespace, None, warehouse))


@dataclass(frozen=True, slots=True)
class RestRequest:
    """A complete request. parameters: of the path, decoded. received: `clock.monotonic()` of its arrival.
    memory: about the bytes that its body takes once it is parsed."""

    context: ServerContext
    caller: Caller
    entry: AuditEntry
    received: float
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: QueryParams = field(default_factory=QueryParams)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    memory: int = 0

    @property
    def catalog(self) -> Catalog:
        return self.context.catalog

    @property
    def client(self) -> Client:
        """The client, by its headers."""
        headers = self.headers
        return Client(
            headers.get("user-agent", ""),
            headers.get("x-client-version", ""),
            self.caller.name,
            # What waits in a queue keeps it, and must not keep the request's body.
            partial(_may, self.context.access, self.caller, self.context.warehouse, Action.CREATE_TABLE),
        )

    def require(self, action: Action, namespace: str, table: str | None = None) -> None:
        """Ask for a right on a name that only the body has. Raises ScopeMissing."""
        self.entry.action, self.entry.target = action, AccessTarget(namespace, table, self.context.warehouse)
        require(self.context.access, self.caller, action, self.entry.target)

    def require_warehouse(self, warehouse: str) -> None:
        """Ask for any right in a warehouse. Raises ScopeMissing."""
        self.entry.target = AccessTarget(warehouse=warehouse)
        require(self.context.access, self.caller, Action.GET_CONFIG, self.entry.target)

    def require_protected(self, keys: Sequence[str], namespace: str, table: str | None = None) -> None:
        """Ask for the right to change these properties, if there are any. Raises ScopeMissing that names the first."""
        if keys and not self.may(Action.SET_PROTECTED_PROPERTY, namespace):
            self.entry.details["property"] = keys[0]
            try:
                self.require(Action.SET_PROTECTED_PROPERTY, namespace, table)
            except ScopeMissing as error:
                raise ScopeMissing(self.caller.name, error.scope, f"a change of {keys[0]}") from None

    def may(self, action: Action, namespace: str) -> bool:
        """Whether the caller has a right, for answers that depend on it."""
        return _may(self.context.access, self.caller, self.context.warehouse, action, namespace)

    def page(self, *listing: str) -> Page:
        """The page of a list that it asks for. listing: what is listed, and where. Raises InvalidInput."""
        return Page.parse(self.query, " ".join(listing).lower(), self.context.settings.rest_max_page_size)

    @property
    def seconds_left(self) -> float:
        """What is left of `rest.commit-wait-ms` after the wait for a thread. Raises QueueFull if nothing is."""
        left = self.received + self.context.settings.rest_commit_wait_ms / 1000 - self.context.clock.monotonic()
        if left <= 0:
            raise QueueFull("The request waited too long for a free thread; the server did nothing of it")
        return left


@dataclass(frozen=True, slots=True)
class BlockingStep:
    """What a handler on the event loop returns for work that may block: a thread calls it."""

    work: Callable[[], Response]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path.

    template: as the REST spec writes it, without the prefix.
    action: what it does to the namespace, table or view of its path, for which the caller needs a scope.
    takes_locks: its handler runs on the write threads. commit: its errors follow the rules of a commit.
    never_blocks: its handler runs on the event loop if the body is small (`SMALL_BODY_BYTES`).
    refuses_itself: its handler looks at the table before it says that the server is read-only.
    is_held: it waits for a metastore that is away (`held_reads`): it changes nothing. Its body, if it has one,
    counts as held until then.
    plans: its handler runs on the threads of plans.
    """

    method: str
    template: str
    handler: Callable[[RestRequest], Response | PendingResponse | BlockingStep]
    action: Action
    takes_locks: bool = False
    commit: bool = False
    never_blocks: bool = False
    refuses_itself: bool = False
    is_held: bool = False
    plans: bool = False


class Resource:
    """One path with all its methods."""

    def __init__(self, context: ServerContext, endpoints: Mapping[str, Endpoint]) -> None:
        self._context = context
        self._endpoints = endpoints
        self._separator = unquote(context.settings.rest_namespace_separator)

    async def answer(self, incoming: UnreadRequest) -> Response | None:
        """The response; None if the client left before its request was complete."""
        endpoint = self._endpoints.get(incoming.scope["method"])
        if endpoint is None:
            return error_response(self._not_allowed(incoming), incoming.entry.request_id)
        counters = self._context.counters
        try:
            response = await self._handle(endpoint, incoming)
        except ClientLeft:
            logger.debug("the client left before its request was complete: %s", endpoint.template)
            return None
        except Exception as error:  # noqa: BLE001 - for any error the client gets an ErrorModel without a stack
            incoming.entry.error = error
            response = error_response(error, incoming.entry.request_id, commit=endpoint.commit)
            if endpoint.commit and response.status_code == CONFLICT:
                counters.conflict(error, self._context.warehouse)
            release_frames(error)
        if endpoint.commit:
            counters.commit_answered(response.status_code, self._context.warehouse, incoming.entry.target)
        elif endpoint.action in CHANGES:
            counters.operation_answered(endpoint.action, response.status_code, self._context.warehouse)
        return response

    def _not_allowed(self, incoming: UnreadRequest) -> HTTPException:
        allowed = ", ".join(sorted(self._endpoints))
        message = f"{incoming.scope['method']} is not supported here, only {allowed}"
        return HTTPException(405, message, {"Allow": allowed})

    async def _handle(self, endpoint: Endpoint, incoming: UnreadRequest) -> Response:
        context, headers = self._context, incoming.headers
        client = incoming.scope.get("client")
        peer = None if client is None else str(client[0])
        caller = incoming.entry.caller
        with context.admission.enter((caller and caller.name) or peer_of(peer)) as held:
            answer = await self._begin(endpoint, incoming, held)
            if isinstance(answer, PendingResponse):
                answer = await answer.response(partial(context.read_threads.run_for, held.caller))
        accepted = headers.get("accept-encoding", "")
        if not worth_compressing(answer, accepted, peer, on_loopback=context.settings.rest_compress_loopback):
            return answer
        with contextlib.suppress(QueueFull, TimeoutError):
            # The request may have committed: no missing thread may delay its response, or turn it into a 429.
            async with asyncio.timeout(context.compress_seconds):
                return await compressed(answer, context.read_threads.run)
        return answer

    async def _begin(
        self, endpoint: Endpoint, incoming: UnreadRequest, held: HeldByRequest
    ) -> Response | PendingResponse:
        """Read the request and call its handler. Keeps no reference to the body: a commit may wait for long."""
        context, headers, query = self._context, incoming.headers, incoming.scope["query_string"]
        parameters = {name: decode_segment(text) for name, text in incoming.parameters.items()}
        if "namespace" in parameters:
            parameters["namespace"] = joined_parts(parameters["namespace"], self._separator)
        caller = self._authorized(endpoint, incoming.entry, parameters)
        body, memory = await read_body(incoming.receive, headers, context.settings, held)
        request = RestRequest(
            context=context,
            caller=caller,
            entry=incoming.entry,
            received=incoming.received,
            parameters=parameters,
            query=QueryParams(query) if query else _NO_QUERY,
            headers=headers,
            body=body,
            memory=memory,
        )
        incoming.entry.begun = True
        threads = context.write_threads if endpoint.takes_locks else context.read_threads
        if endpoint.plans and context.planning is not None:
            threads = context.planning.threads
        if endpoint.is_held:
            return await context.held_reads.run(
                lambda: threads.run_for(held.caller, partial(_read, endpoint, request)), incoming.received
            )
        on_loop = endpoint.never_blocks and len(request.body) <= SMALL_BODY_BYTES
        answer = (
            endpoint.handler(request)
            if on_loop
            else await threads.run_for(held.caller, lambda: endpoint.handler(request))
        )
        return await threads.run_for(held.caller, answer.work) if isinstance(answer, BlockingStep) else answer

    def _authorized(self, endpoint: Endpoint, entry: AuditEntry, parameters: Mapping[str, str]) -> Caller:
        """The caller, who may do what the endpoint declares. Before the body is read: strangers cannot make the server
        read one."""
        if entry.caller is None:
            raise not_authenticated()
        entry.action = endpoint.action
        name = parameters.get("table") or parameters.get("view")
        entry.target = AccessTarget(parameters.get("namespace"), name, self._context.warehouse)
        require(self._context.access, entry.caller, endpoint.action, entry.target)
        if endpoint.action in CHANGES and self._context.settings.rest_read_only:
            entry.details["reason"] = "read-only"
            if not endpoint.refuses_itself:
                raise ReadOnly
        return entry.caller


def _read(endpoint: Endpoint, request: RestRequest) -> Response:
    answer = endpoint.handler(request)
    if not isinstance(answer, Response):
        raise TypeError(f"{endpoint.template} answers with {type(answer).__name__}")
    return answer


async def read_body(
    receive: Receive, headers: Mapping[str, str], settings: RestSettings, held: HeldByRequest
) -> tuple[bytes, int]:
    """The body, and about the bytes that it takes once it is parsed; the request holds both. Raises HTTPException: 413
    as soon as the body is known to have more bytes or values than it may (the rest is not kept), 408 if it does not
    arrive in time. Raises ClientLeft, and QueueFull as `HeldByRequest.hold`."""
    limit, most, seconds = (
        settings.rest_max_body_bytes,
        settings.rest_max_body_values,
        settings.rest_body_timeout_ms / 1000,
    )
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(400, "Compressed request bodies are not supported")
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = values = 0
    try:
        async with asyncio.timeout(seconds):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientLeft
                chunk = message.get("body", b"")
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                values += count_values(chunk)
                if values > most:
                    raise HTTPException(413, f"The request body has more than {most} values")
                chunks.append(chunk)
                more = message.get("more_body", False)
                if more:
                    held.hold(len(chunk))
    except TimeoutError as error:
        raise HTTPException(408, "The request body did not arrive in time", {"Connection": "close"}) from error
    body = b"".join(chunks)
    memory = TextSize(size, values, is_wide(body)).parsed_bytes if body else 0
    held.hold(len(chunk) + memory)
    return body, memory


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"The request body is larger than {limit} bytes", {"Connection": "close"})
