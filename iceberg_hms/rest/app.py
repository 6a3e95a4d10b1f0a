"""The ASGI application: routes, token, counters, health.

    app = create_app(catalog, token="...", settings=catalog.settings)

It runs under any ASGI server; `server.Server` runs it on uvicorn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.rest.auth import BearerToken, check_token
from iceberg_hms.rest.configuration import CONFIG, ENDPOINTS
from iceberg_hms.rest.counters import Counters
from iceberg_hms.rest.dispatch import ROUTE_KEY, Context, Endpoint, Resource
from iceberg_hms.rest.errors import error_response
from iceberg_hms.rest.health import LIVE_PATH, METRICS_PATH, READY_PATH, Health
from iceberg_hms.rest.ports import CatalogPort
from iceberg_hms.rest.workers import Workers

#: Answered without a token: they tell nothing about tables.
OPEN_PATHS: Final = (LIVE_PATH, READY_PATH, METRICS_PATH)

_NO_ROUTE: Final = "none"


def create_app(
    catalog: CatalogPort, *, token: str | None, settings: Settings, clock: Clock = SYSTEM_CLOCK
) -> Starlette:
    """The REST catalog of a catalog.

    token: what clients must send as a bearer token; None lets everybody in.
    Raises ConfigError for a blank token. The caller keeps the catalog and closes it.
    """
    context = Context(
        catalog=catalog,
        settings=settings,
        counters=Counters(),
        readers=Workers("iceberg-hms-rest-read", settings.rest_threads),
        movers=Workers("iceberg-hms-rest-move", settings.rest_commit_threads),
        clock=clock,
    )
    check_token(token)
    catalog.subscribe(context.counters.heard)
    app = Starlette(
        routes=_routes(context),
        middleware=[
            Middleware(EncodedPath),
            Middleware(Counted, context=context),
            Middleware(BearerToken, token=token, open_paths=OPEN_PATHS),
        ],
        exception_handlers={HTTPException: _http_error},
        lifespan=_lifespan(context),
    )
    # A redirect would make clients send a commit's body twice, or as a GET.
    app.router.redirect_slashes = False
    return app


def _routes(context: Context) -> list[BaseRoute]:
    health = Health(context)
    routes: list[BaseRoute] = [Route(path, health) for path in OPEN_PATHS]
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in (CONFIG, *ENDPOINTS):
        by_path.setdefault(endpoint.template, {})[endpoint.method] = endpoint
    routes.extend(Route(path, Resource(context, endpoints)) for path, endpoints in by_path.items())
    return routes


class EncodedPath:
    """ASGI middleware: matches routes on the path as it was sent, so that an encoded slash in a name stays in the name.
    `Resource` decodes the parts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path")
            scope = {**scope, "path": quote(scope["path"]) if raw is None else raw.decode("latin-1")}
        await self._app(scope, receive, send)


class Counted:
    """ASGI middleware: counts every request by method, route and status, refused ones and unknown routes too."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        clock, counters = self._context.clock, self._context.counters
        begun = clock.monotonic()
        # 499, as proxies have it: the client left, or the server was stopped, before there was an answer.
        status = 499

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        counters.begin()
        try:
            await self._app(scope, receive, watched)
        finally:
            counters.end(scope["method"], scope.get(ROUTE_KEY, _NO_ROUTE), status, clock.monotonic() - begun)


async def _http_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code == 404:
        error = HTTPException(404, f"No such route: {request.method} {request.url.path}")
    return error_response(error)


def _lifespan(context: Context) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        context.readers.close()
        context.movers.close()

    return lifespan
