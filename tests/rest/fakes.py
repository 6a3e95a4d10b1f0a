"""The catalog in memory, whose calls a test can watch, fail or hold; and a client without a network."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.views import Views
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.rest.settings import RestSettings, load
from iceberg_hms.setting import is_of_server
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_hive import MemoryHiveTables
from iceberg_hms.testing.memory_pointer import MemoryTablePointer

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "level", "required": False, "type": "string"},
        {"id": 2, "name": "message", "required": False, "type": "string"},
    ],
}


def creation_of(location: str, uuid: str, *more: dict[str, Any], schema: Mapping[str, Any] = SCHEMA) -> dict[str, Any]:
    """What Java's, Trino's and DuckDB's transactions send for a table of two columns that the server staged."""
    updates = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": schema, "last-column-id": 2},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
    ]
    return {"requirements": [{"type": "assert-create"}], "updates": [*updates, *more]}


def divided(settings: Mapping[str, Any]) -> tuple[dict[str, Any], RestSettings]:
    """Settings for `memory_catalog`, and those of a server."""
    _, server = load({name: value for name, value in settings.items() if is_of_server(name)}, environ={})
    return {name: value for name, value in settings.items() if not is_of_server(name)}, server


class ScriptedCatalog(Catalog):
    """The catalog in memory, under a test's control. Starts with the namespace `default` and no table.

    settings: as for `memory_catalog`, and those of a server for it (`rest_settings`).
    metastore, files, hive_tables: what its tables stand on.
    errors: method name -> what it raises instead of working. calls: (method, keyword arguments) of every call.
    gate: while set, every call releases `waiting` and then blocks until the gate opens.
    listeners: functions that `subscribe` was given.
    """

    def __init__(self, **settings: Any) -> None:
        self.files = MemoryFiles()
        self.metastore = MemoryTablePointer(namespaces=("default",))
        self.errors: dict[str, BaseException] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._gates: list[threading.Event] = []
        self.waiting = threading.Semaphore(0)
        self.listeners: list[Callable[[Mapping[str, Any]], None]] = []
        self.closed = 0
        self.hive_tables = MemoryHiveTables(self.metastore)
        library, self.rest_settings = divided(settings)
        inner = memory_catalog(files=self.files, pointer=self.metastore, hive_tables=self.hive_tables, **library)
        super().__init__(lambda: inner.services)

    @property
    def gate(self) -> threading.Event | None:
        return self._gates[0] if self._gates else None

    @gate.setter
    def gate(self, gate: threading.Event | None) -> None:
        # The catalog that clients get is a copy of this one, and shares the list.
        self._gates[:] = [] if gate is None else [gate]

    def enter(self, method: str, keywords: dict[str, Any]) -> None:
        """What every call does first."""
        self.calls.append((method, keywords))
        # The test may remove the gate as soon as `waiting` is released.
        gate = self.gate
        if gate is not None:
            self.waiting.release()
            gate.wait(30)
        if method in self.errors:
            raise self.errors[method]

    def subscribe(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        self.listeners.append(listener)
        super().subscribe(listener)

    def close(self) -> None:
        self.closed += 1
        super().close()

    @property
    def views(self) -> Views:
        self.enter("views", {})
        return super().views

    @contextmanager
    def locked(self, namespace: str, table: str) -> Iterator[None]:
        """Another writer holds the table's lock: commits are queued and wait."""
        lock = self.services.ports.lock.acquire(TableName(namespace, table), wait_seconds=10, request="another-writer")
        try:
            yield
        finally:
            lock.release()


def _scripted(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: ScriptedCatalog, *arguments: Any, **keywords: Any) -> Any:
        self.enter(method.__name__, keywords)
        return method(self, *arguments, **keywords)

    return call


for _method in (
    Catalog.list_namespaces,
    Catalog.namespace_exists,
    Catalog.create_namespace,
    Catalog.load_namespace_properties,
    Catalog.update_namespace_properties,
    Catalog.drop_namespace,
    Catalog.list_tables,
    Catalog.list_tables_after,
    Catalog.table_exists,
    Catalog.load,
    Catalog.stage_table,
    Catalog.create_table,
    Catalog.commit,
    Catalog.submit,
    Catalog.drop_table,
    Catalog.drop_hive_table_in_use,
    Catalog.rename_table,
    Catalog.register_table,
):
    setattr(ScriptedCatalog, _method.__name__, _scripted(_method))


class Web:
    """Asks an ASGI application and waits for the answer. One event loop for each request."""

    def __init__(self, app: Any, headers: Mapping[str, str] | None = None, peer: str = "127.0.0.1") -> None:
        self._app = app
        self._headers = dict(headers or {})
        self._peer = peer

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with self.client() as client:
                return await client.request(method, path, json=body, content=content, headers=dict(headers or {}))

        return asyncio.run(ask())

    async def _over_the_wire(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_bytes(message: Any) -> None:
            # The names of headers may be bytes of a class of their own, and the body a view.
            plain = {key: bytes(value) for key, value in message.items() if key == "body"}
            headers = [(bytes(name), value) for name, value in message.get("headers", ())]
            await send({**message, **plain, "headers": headers})

        await self._app(scope, receive, send_bytes)

    def client(self) -> httpx.AsyncClient:
        headers = {"Content-Type": "application/json", **self._headers}
        transport = httpx.ASGITransport(self._over_the_wire, client=(self._peer, 50_000))
        return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


def error_of(response: httpx.Response) -> tuple[int, str, str]:
    """(status, type, message) of an ErrorModel, after a look at its shape."""
    body = response.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "code"}
    assert body["error"]["code"] == response.status_code
    return response.status_code, body["error"]["type"], body["error"]["message"]
