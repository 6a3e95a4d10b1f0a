"""The ASGI application that serves a catalog over the Iceberg REST protocol.

    app = create_app(catalog, token="...", settings=catalog.settings)

It runs under any ASGI server; `server.RestServer` runs it on uvicorn. Every request passes through here, and a commit
shares its server with many others, so no framework stands between the ASGI server and `dispatch`: its layers cost more
time than a commit spends in its group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.rest.access.audit import AuditEntry, AuditTrail, request_id
from iceberg_hms.rest.access.authorization import Access
from iceberg_hms.rest.access.scopes import Caller
from iceberg_hms.rest.access.tokens import Everyone, OneToken
from iceberg_hms.rest.admission import Admission
from iceberg_hms.rest.browsers import BrowserCheck
from iceberg_hms.rest.configuration import CONFIG, ENDPOINTS
from iceberg_hms.rest.counters import Counters
from iceberg_hms.rest.dispatch import Endpoint, Resource, ServerContext, UnreadRequest
from iceberg_hms.rest.errors import error_response
from iceberg_hms.rest.health import LIVE_PATH, METRICS_PATH, READY_PATH, Health
from iceberg_hms.rest.request_threads import RequestThreads
from iceberg_hms.rest.routing import Routes

#: Answered without a token: they show nothing of the tables.
OPEN_PATHS: Final = frozenset((LIVE_PATH, READY_PATH, METRICS_PATH))

_NO_ROUTE: Final = "none"
#: Proxies' status for a request without an answer: the client left, or the server was stopped.
_NOT_ANSWERED: Final = 499


def create_app(
    catalog: Catalog,
    *,
    token: str | None = None,
    settings: Settings,
    access: Access | None = None,
    free_locations: bool = False,
    clock: Clock = SYSTEM_CLOCK,
) -> App:
    """The REST catalog of a catalog.

    access: who calls, and what they may do. Without it everyone who sends `token` may do everything, and without a
    token everyone.
    free_locations: clients may name every location, since they have the process's rights anyway.
    Raises ConfigError for a blank token, and as `Catalog.for_clients`. The caller keeps the catalog and closes it.
    """
    context = ServerContext(
        catalog=catalog if free_locations else catalog.for_clients(),
        settings=settings,
        access=access or (Everyone() if token is None else OneToken(token)),
        counters=Counters(),
        read_threads=RequestThreads("iceberg-hms-rest-read", settings.rest_threads),
        write_threads=RequestThreads("iceberg-hms-rest-write", settings.rest_commit_threads),
        admission=Admission(settings.rest_max_requests_per_caller, settings.rest_body_memory_max_bytes),
        clock=clock,
    )
    catalog.subscribe(context.counters.count_event)
    return App(context)


class _Handler(Protocol):
    """Answers the requests of a path."""

    async def answer(self, incoming: UnreadRequest) -> Response | None:
        """The answer; None if the client left."""
        ...


class App:
    """An ASGI application. Ends its threads at the end of its lifespan."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._trail = AuditTrail(context.clock)
        self._routes = Routes(_targets(context))
        hosts = f"{context.settings.rest_host},{context.settings.rest_allowed_hosts}"
        self._browsers = BrowserCheck(hosts) if isinstance(context.access, Everyone) else None

    @property
    def counters(self) -> Counters:
        """The metrics, for the server that the application runs on."""
        return self._context.counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            raise NotImplementedError(f"not supported: {scope['type']}")

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        clock, counters = self._context.clock, self._context.counters
        started = clock.monotonic()
        status, route = _NOT_ANSWERED, _NO_ROUTE
        raw = scope.get("raw_path")
        path = quote(scope["path"]) if raw is None else raw.decode("latin-1")
        headers = Headers(scope=scope)
        peer = scope.get("client")
        entry = AuditEntry(request_id(headers.get("x-request-id"), clock), "" if peer is None else str(peer[0]))
        counters.begin()
        try:
            response: Response | None
            try:
                if path not in OPEN_PATHS:
                    if self._browsers is not None:
                        self._browsers.check(headers)
                    entry.caller = await self._caller(headers)
            except (IcebergHmsError, HTTPException) as error:
                response = error_response(error, entry.request_id)
            else:
                if (match := self._routes.find(path)) is None:
                    no_route = HTTPException(404, f"No such route: {scope['method']} {path}")
                    response = error_response(no_route, entry.request_id)
                else:
                    route, target = match.target
                    incoming = UnreadRequest(scope, headers, match.parameters, receive, started, entry)
                    response = await target.answer(incoming)
            if response is not None:
                status = response.status_code
                response.raw_headers.append((b"x-request-id", entry.request_id.encode()))
                await response(scope, receive, send)
        finally:
            counters.end(scope["method"], route, status, clock.monotonic() - started)
            self._trail.close(entry, status, scope["method"], path)

    async def _caller(self, headers: Headers) -> Caller:
        """Raises as `Access.identify`."""
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        bearer = sent.strip() if scheme.lower() == "bearer" else None
        return await self._context.access.identify(bearer, self._context.read_threads.run)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._context.read_threads.close()
        self._context.write_threads.close()
        await send({"type": "lifespan.shutdown.complete"})


def _targets(context: ServerContext) -> Iterator[tuple[str, tuple[str, _Handler]]]:
    health = Health(context)
    for path in OPEN_PATHS:
        yield path, (path, health)
    by_template: dict[str, dict[str, Endpoint]] = {}
    for endpoint in (CONFIG, *ENDPOINTS):
        by_template.setdefault(endpoint.template, {})[endpoint.method] = endpoint
    for template, endpoints in by_template.items():
        yield template, (template, Resource(context, endpoints))
