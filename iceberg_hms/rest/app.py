"""The ASGI application that serves a catalog over the Iceberg REST protocol.

    app = create_app(catalog, token="...")

It runs under any ASGI server; `server.RestServer` runs it on uvicorn. Every request passes through here, and a commit
shares its server with many others, so no framework stands between the ASGI server and `dispatch`: its layers cost more
time than a commit spends in its group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.manifest_merging import ManifestMerging
from iceberg_hms.catalog.services import CredentialVending
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.coordinator.reading.metadata_cache import VERSIONS
from iceberg_hms.errors import ConfigError, IcebergHmsError, InvalidInput, NoSuchTable, NoSuchWarehouse
from iceberg_hms.format.file_bounds import FileBounds
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.rest.access.audit import AuditEntry, AuditTrail, RequestIds, ServerTrail
from iceberg_hms.rest.access.authorization import Access, AccessTarget, Action, require
from iceberg_hms.rest.access.scopes import Caller
from iceberg_hms.rest.access.tokens import Everyone, OneToken
from iceberg_hms.rest.access_log import AccessLog
from iceberg_hms.rest.admission import Admission
from iceberg_hms.rest.browsers import BrowserCheck
from iceberg_hms.rest.configuration import CONFIG, ENDPOINTS, TABLE_IN_NO_NAMESPACE, endpoints_of
from iceberg_hms.rest.counters import Counters
from iceberg_hms.rest.dispatch import Endpoint, Resource, ServerContext, UnreadRequest
from iceberg_hms.rest.errors import error_response
from iceberg_hms.rest.failure_log import FailureLog
from iceberg_hms.rest.health import LIVE_PATH, METRICS_PATH, READY_PATH, Health
from iceberg_hms.rest.payloads import decode_segment
from iceberg_hms.rest.plan_tokens import PlanTokens
from iceberg_hms.rest.planning import Planning, planning_of
from iceberg_hms.rest.purges import Purges
from iceberg_hms.rest.request_threads import RequestThreads
from iceberg_hms.rest.response_bodies import ResponseBodyCache
from iceberg_hms.rest.responses import send_in_parts
from iceberg_hms.rest.routing import Match, Routes
from iceberg_hms.rest.settings import RestSettings, ScanPlanning, VendedCredentials
from iceberg_hms.rest.warehouses import DEFAULT_WAREHOUSE, is_warehouse_name

#: What supervisors ask again and again.
_WATCHED: Final = frozenset((LIVE_PATH, READY_PATH, METRICS_PATH))

_NO_ROUTE: Final = "none"
#: What the paths of the protocol begin with. After it comes the prefix: the name of a warehouse.
_ROOT: Final = "/v1/"
#: Proxies' status for a request without an answer: the client left, or the server was stopped.
_NOT_ANSWERED: Final = 499


def create_app(
    catalog: Catalog,
    *,
    token: str | None = None,
    settings: RestSettings | None = None,
    access: Access | None = None,
    free_locations: bool = False,
    warehouses: Mapping[str, tuple[Catalog, RestSettings]] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> App:
    """The REST catalog of a catalog.

    settings: the server's; None: the defaults.
    access: who calls, and what they may do. Without it everyone who sends `token` may do everything, and without a
    token everyone.
    free_locations: clients may name every location, since they have the process's rights anyway.
    warehouses: further catalogs and the server's settings for each, by their names (`load_warehouses`).
    Raises ConfigError for a blank token, for settings that contradict each other, and as `Catalog.for_clients`. The
    caller keeps the catalogs and closes them.
    """
    settings = settings or RestSettings()
    served = {DEFAULT_WAREHOUSE: (catalog, settings), **(warehouses or {})}
    memory = _memory(settings.rest_memory_max_bytes, (each for each, _ in served.values()))
    key = settings.signing_key()
    for each, _ in served.values():
        each.use_memory(memory)
        if key is not None:
            each.use_signing_key(key)
    tokens = PlanTokens.of_process(clock) if key is None else PlanTokens(key)
    context = ServerContext(
        catalog=_for_clients(catalog, settings, free=free_locations),
        settings=settings,
        access=access or (Everyone() if token is None else OneToken(token)),
        counters=Counters(tables=settings.rest_metrics_tables),
        read_threads=_read_threads(settings),
        write_threads=_write_threads(settings),
        admission=Admission(settings.rest_max_requests_per_caller, memory),
        purges=Purges(catalog.services.ports.runtime),
        bodies=ResponseBodyCache(memory),
        loads=ResponseBodyCache(memory),
        clock=clock,
        warehouses={name: each for name, (_, each) in served.items()},
        vending=_vending(catalog, settings),
        planning=_planning(catalog, settings, tokens, clock, free=free_locations),
    )
    catalog.subscribe(context.counters.count_event)
    catalog.subscribe(ServerTrail(clock, DEFAULT_WAREHOUSE).write)
    _merge_manifests(context.catalog, settings)
    contexts = [context]
    for name, (each, its) in (warehouses or {}).items():
        own = replace(
            context,
            catalog=_for_clients(each, its, free=free_locations),
            settings=its,
            read_threads=_read_threads(its),
            write_threads=_write_threads(its),
            warehouse=name,
            vending=_vending(each, its),
            planning=_planning(each, its, tokens, clock, free=free_locations),
        )
        each.subscribe(context.counters.count_event)
        each.subscribe(ServerTrail(clock, name).write)
        _merge_manifests(own.catalog, settings)
        contexts.append(own)
    return App(contexts)


def _for_clients(catalog: Catalog, settings: RestSettings, *, free: bool) -> Catalog:
    """free: clients may name every location."""
    if free:
        return catalog
    return catalog.for_clients(settings.rest_allowed_locations, strict=settings.rest_locations == "strict")


def _vending(catalog: Catalog, settings: RestSettings) -> CredentialVending | None:
    if settings.rest_vended_credentials == VendedCredentials.NONE:
        return None
    make = catalog.services.make_vending
    if make is None:
        raise ConfigError("`rest.vended-credentials` is set, but this catalog is in memory", next_step="leave it out")
    return make(role_arn=settings.rest_vended_role_arn, duration_seconds=settings.rest_vended_duration_seconds)


def _planning(
    catalog: Catalog, settings: RestSettings, tokens: PlanTokens, clock: Clock, *, free: bool
) -> Planning | None:
    if settings.rest_scan_planning == ScanPlanning.OFF:
        return None
    return planning_of(catalog, settings, tokens, clock, free_locations=free)


def _memory(max_bytes: int, catalogs: Iterable[Catalog]) -> MemoryBudget:
    """The budget of a server. Raises ConfigError if the largest metadata file may take more."""
    largest = max(FileBounds.of(each.settings.as_dict()).held_bytes for each in catalogs)
    needed = VERSIONS * largest
    if needed > max_bytes:
        raise ConfigError(
            f"`rest.memory.max-bytes` is {max_bytes}, but a commit to a table may take {needed} bytes of memory",
            next_step="raise it, or lower `storage.max-metadata-bytes`",
        )
    return MemoryBudget(max_bytes, largest)


def _merge_manifests(catalog: Catalog, settings: RestSettings) -> None:
    if settings.rest_merge_manifests:
        wait_seconds = settings.rest_commit_wait_ms / 1000
        catalog.subscribe(ManifestMerging(lambda: catalog.services, wait_seconds, catalog.locations))


def _read_threads(settings: RestSettings) -> RequestThreads:
    return RequestThreads("iceberg-hms-rest-read", settings.rest_threads)


def _write_threads(settings: RestSettings) -> RequestThreads:
    return RequestThreads("iceberg-hms-rest-write", settings.rest_commit_threads)


class _Handler(Protocol):
    """Answers the requests of a path."""

    async def answer(self, incoming: UnreadRequest) -> Response | None:
        """The answer; None if the client left."""
        ...


class _InNoNamespace:
    """Answers for a table whose path names an empty namespace: nobody has one, so anybody may know.

    Java's client asks for one when it does not find `db.files`: then `db` may be a table whose metadata table is meant.
    Only after NoSuchTable does it go on to what the name may be otherwise, such as a Hive table."""

    async def answer(self, incoming: UnreadRequest) -> Response:
        try:
            error: IcebergHmsError = NoSuchTable(decode_segment(incoming.parameters["table"]))
        except InvalidInput as refusal:
            error = refusal
        return error_response(error, incoming.entry.request_id)


class App:
    """An ASGI application. Ends its threads at the end of its lifespan."""

    def __init__(self, contexts: Sequence[ServerContext]) -> None:
        """contexts: of all warehouses, the default one first."""
        self._contexts = contexts
        context = self._context = contexts[0]
        #: Answered without a token.
        self._open = _WATCHED - ({METRICS_PATH} if context.settings.rest_metrics_access == "callers" else set())
        self._trail = AuditTrail(context.clock)
        self._request_ids = RequestIds(context.clock)
        #: Says whether the server is ready.
        self.health = Health(contexts)
        #: Set by another thread when another server is about to take over: each answer closes its connection.
        self.retiring = False
        self._routes: Routes[tuple[str, _Handler]] = Routes(_targets(context, self.health))
        self._prefixed = {
            each.warehouse: (each, Routes(_resources(each, endpoints_of(each.settings)))) for each in contexts
        }
        self._failures = FailureLog(context.clock)
        self._access_log = AccessLog(context.clock, enabled=context.settings.rest_access_log)
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
        context, match = self._served(path)
        fields = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in scope["headers"]]
        headers = dict(reversed(fields))
        peer = scope.get("client")
        entry = AuditEntry(self._request_ids.id_of(headers.get("x-request-id")), "" if peer is None else str(peer[0]))
        entry.target = AccessTarget(warehouse=context.warehouse)
        counters.begin()
        response: Response | None = None
        try:
            try:
                if path not in self._open:
                    if self._browsers is not None:
                        self._browsers.check(fields)
                    entry.caller = await self._caller(headers, context)
                    self._require_entry(entry.caller, path, context, match)
            except (IcebergHmsError, HTTPException) as error:
                entry.error = error
                response = error_response(error, entry.request_id)
            else:
                if match is None:
                    response = self._no_route(scope["method"], path, entry.request_id)
                else:
                    route, target = match.target
                    incoming = UnreadRequest(scope, headers, match.parameters, receive, started, entry)
                    response = await target.answer(incoming)
            if response is not None:
                status = response.status_code
                response.raw_headers.append((b"x-request-id", entry.request_id.encode()))
                if self.retiring:
                    # The client's next request opens a connection, which reaches another server.
                    response.raw_headers.append((b"connection", b"close"))
                if entry.error is not None:
                    self._tell_failure(entry, scope["method"], path, status)
                await send_in_parts(response, send)
        finally:
            seconds = clock.monotonic() - started
            counters.end(scope["method"], route, status, seconds, context.warehouse)
            self._trail.close(entry, status, scope["method"], path)
            if entry.error is not None:
                self._tell_failure(entry, scope["method"], path, status)
            if path not in _WATCHED or status >= 400:
                self._access_log.write(entry, scope["method"], path, status, response, seconds)

    def _tell_failure(self, entry: AuditEntry, method: str, path: str, status: int) -> None:
        """Log why the request failed, and forget it: its trace names the frames that hold the request, and a
        client may take long to read the response."""
        self._failures.write(entry, method, path, status)
        entry.error = None

    def _served(self, path: str) -> tuple[ServerContext, Match[tuple[str, _Handler]] | None]:
        """The context of the path's warehouse, and the route of the path if there is one."""
        if path.startswith(_ROOT):
            prefix, _, rest = path.removeprefix(_ROOT).partition("/")
            if (found := self._prefixed.get(prefix)) is not None:
                context, routes = found
                return context, routes.find(_ROOT + rest)
        return self._context, self._routes.find(path)

    def _require_entry(
        self, caller: Caller, path: str, context: ServerContext, match: Match[tuple[str, _Handler]] | None
    ) -> None:
        """Raises ScopeMissing for a warehouse that the caller may not enter, whether it exists or not: else its name
        could be guessed."""
        warehouse = context.warehouse
        if match is None:
            prefix = path.removeprefix(_ROOT).partition("/")[0]
            could_be_one = is_warehouse_name(prefix) and self._without_prefix(path) is not None
            warehouse = prefix if could_be_one else DEFAULT_WAREHOUSE
        if warehouse != DEFAULT_WAREHOUSE:
            require(context.access, caller, Action.GET_CONFIG, AccessTarget(warehouse=warehouse))

    def _without_prefix(self, path: str) -> Match[tuple[str, _Handler]] | None:
        """The route that a path would have in a warehouse of the name that it begins with."""
        _, _, rest = path.removeprefix(_ROOT).partition("/")
        _, routes = self._prefixed[DEFAULT_WAREHOUSE]
        return routes.find(_ROOT + rest) if path.startswith(_ROOT) else None

    def _no_route(self, method: str, path: str, request: str) -> Response:
        """The refusal of a request whose path leads nowhere."""
        prefix = path.removeprefix(_ROOT).partition("/")[0]
        found = self._without_prefix(path)
        if found is None:
            return error_response(HTTPException(404, f"No such route: {method} {path}"), request)
        template, _ = found.target
        if any(each.commit and (each.method, each.template) == (method, template) for each in ENDPOINTS):
            return error_response(NoSuchWarehouse(prefix), request, commit=True)
        # Under this name: after one that Java takes for a missing table, Spark asks Hive.
        return error_response(HTTPException(404, f"Warehouse does not exist: {prefix[:128]}"), request)

    async def _caller(self, headers: Mapping[str, str], context: ServerContext) -> Caller:
        """Raises as `Access.identify`."""
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        bearer = sent.strip() if scheme.lower() == "bearer" else None
        return await context.access.identify(bearer, context.read_threads.run)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for context in self._contexts:
            context.read_threads.close()
            context.write_threads.close()
            if context.planning is not None:
                context.planning.close()
        # The server has closed all connections: nothing waits for the event loop.
        self._context.purges.close()
        self._failures.flush()
        self._trail.flush()
        await send({"type": "lifespan.shutdown.complete"})


def _targets(context: ServerContext, health: Health) -> Iterator[tuple[str, tuple[str, _Handler]]]:
    for path in _WATCHED:
        yield path, (path, health)
    yield from _resources(context, (CONFIG, *endpoints_of(context.settings)))


def _resources(context: ServerContext, endpoints: Sequence[Endpoint]) -> Iterator[tuple[str, tuple[str, _Handler]]]:
    by_template: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        by_template.setdefault(endpoint.template, {})[endpoint.method] = endpoint
    for template, methods in by_template.items():
        yield template, (template, Resource(context, methods))
    yield TABLE_IN_NO_NAMESPACE, (TABLE_IN_NO_NAMESPACE, _InNoNamespace())
