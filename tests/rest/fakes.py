"""A catalog in memory that has what the REST layer needs, and a client that asks an application without a network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from iceberg_hms.catalog import schemas
from iceberg_hms.changes.change import Requirement, Update
from iceberg_hms.changes.request import Client, from_request
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.errors import (
    AlreadyExists,
    CorruptFile,
    InvalidInput,
    LockNotAcquired,
    MissingFile,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    NotAnIcebergTable,
)
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.format.updates.create import create_updates, new_table_metadata
from iceberg_hms.rest.ports import Identifier, JsonObject

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "level", "required": False, "type": "string"},
        {"id": 2, "name": "message", "required": False, "type": "string"},
    ],
}


@dataclass(frozen=True)
class Loaded:
    name: TableName
    metadata_location: str | None
    metadata: TableMetadata


@dataclass(frozen=True)
class Made:
    """A table that is there."""

    metadata_location: str
    metadata: TableMetadata


@dataclass(frozen=True)
class NamespaceUpdate:
    updated: Sequence[str]
    removed: Sequence[str]
    missing: Sequence[str]


class Pending:
    """A commit that is made, or fails, when `settle` is called. sent: it can no longer be withdrawn."""

    def __init__(self, commit: Callable[[], CommitReport]) -> None:
        self.sent = False
        self.withdrawn = False
        self._commit = commit
        self._listener: Callable[[], None] = lambda: None
        self._outcome: CommitReport | Exception | None = None

    def settle(self) -> None:
        try:
            self._outcome = self._commit()
        except Exception as error:  # noqa: BLE001 - the error is the outcome
            self._outcome = error
        self._listener()

    def when_settled(self, listener: Callable[[], None]) -> None:
        self._listener = listener
        if self._outcome is not None:
            listener()

    def withdraw(self) -> bool:
        self.withdrawn = not self.sent
        return self.withdrawn

    def result(self) -> CommitReport:
        if self.withdrawn:
            raise LockNotAcquired("no turn")
        assert self._outcome is not None
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


class FakeCatalog:
    """Tables in dictionaries, with the real rules of format and changes.

    faults: method name -> what it raises instead of working. calls: (method, arguments) of every call.
    gate: when set, every call waits until it opens, and says in `waiting` that it is there.
    hive_tables: names that belong to something else than Iceberg. files: metadata files that can be registered.
    settles: whether submitted commits are made at once; else those in `pending` wait for `settle`.
    """

    def __init__(self, settings: Settings | None = None, warehouse: str = "file:/warehouse") -> None:
        self.settings = settings or Settings(warehouse=warehouse)
        self.namespaces: dict[str, dict[str, str]] = {"default": {}}
        self.tables: dict[TableName, Made] = {}
        self.hive_tables: set[TableName] = set()
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, BaseException] = {}
        self.calls: list[tuple[str, Any]] = []
        self.gate: threading.Event | None = None
        self.waiting = threading.Semaphore(0)
        self.listeners: list[Callable[[Mapping[str, Any]], None]] = []
        self.settles = True
        self.pending: list[Pending] = []
        self._warehouse = warehouse
        self._lock = threading.RLock()
        self._files_made = 0

    def subscribe(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        self.listeners.append(listener)

    def _enter(self, method: str, arguments: Any = None) -> None:
        self.calls.append((method, arguments))
        # Once it is told that we wait, a test may take the gate away.
        gate = self.gate
        if gate is not None:
            self.waiting.release()
            gate.wait(30)
        if method in self.faults:
            raise self.faults[method]

    def list_namespaces(self) -> list[str]:
        self._enter("list_namespaces")
        return list(self.namespaces)

    def namespace_exists(self, namespace: str) -> bool:
        self._enter("namespace_exists", namespace)
        return namespace.lower() in self.namespaces

    def create_namespace(self, namespace: str, properties: Mapping[str, str] | None = None) -> None:
        self._enter("create_namespace", namespace)
        with self._lock:
            if namespace.lower() in self.namespaces:
                raise AlreadyExists(f"Namespace already exists: {namespace}")
            self.namespaces[namespace.lower()] = {**(properties or {}), "owner": "us"}

    def load_namespace(self, namespace: str) -> dict[str, str]:
        self._enter("load_namespace", namespace)
        return dict(self._namespace(namespace))

    def update_namespace(
        self, namespace: str, updates: Mapping[str, str], removals: Collection[str]
    ) -> NamespaceUpdate:
        self._enter("update_namespace", namespace)
        with self._lock:
            properties = self._namespace(namespace)
            removed = [key for key in removals if properties.pop(key, None) is not None]
            properties.update(updates)
        return NamespaceUpdate(list(updates), removed, [key for key in removals if key not in removed])

    def drop_namespace(self, namespace: str) -> None:
        self._enter("drop_namespace", namespace)
        with self._lock:
            self._namespace(namespace)
            if any(name.namespace == namespace for name in (*self.tables, *self.hive_tables)):
                raise NamespaceNotEmpty(namespace)
            del self.namespaces[namespace]

    def list_tables(self, namespace: str) -> list[TableName]:
        self._enter("list_tables", namespace)
        self._namespace(namespace)
        return sorted(name for name in self.tables if name.namespace == namespace)

    def table_exists(self, identifier: Identifier) -> bool:
        self._enter("table_exists", identifier)
        return _name(identifier) in self.tables

    def load(self, identifier: Identifier) -> Loaded:
        self._enter("load", identifier)
        name = _name(identifier)
        made = self._table(name)
        return Loaded(name, made.metadata_location, made.metadata)

    def stage_table(
        self,
        identifier: Identifier,
        schema: JsonObject,
        partition_spec: JsonObject | None = None,
        sort_order: JsonObject | None = None,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Loaded:
        self._enter("stage_table", identifier)
        return self._staged(identifier, schema, partition_spec, sort_order, location, properties)

    def create_table(
        self,
        identifier: Identifier,
        schema: JsonObject,
        partition_spec: JsonObject | None = None,
        sort_order: JsonObject | None = None,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Made:
        self._enter("create_table", identifier)
        staged = self._staged(identifier, schema, partition_spec, sort_order, location, properties)
        with self._lock:
            self._refuse_taken(staged.name)
            return self._put(staged.name, apply(None, create_updates(staged.metadata), now_ms=SYSTEM_CLOCK.now_ms()))

    def submit(
        self,
        identifier: Identifier,
        requirements: Sequence[Requirement],
        updates: Sequence[Update],
        *,
        idempotency_key: str | None = None,
        client: Client | None = None,
        wait_seconds: float | None = None,
        size: int = 0,
    ) -> Pending:
        def commit() -> CommitReport:
            return self.commit(
                identifier,
                requirements,
                updates,
                idempotency_key=idempotency_key,
                client=client,
                wait_seconds=wait_seconds,
                size=size,
            )

        pending = Pending(commit)
        if self.settles:
            pending.settle()
        self.pending.append(pending)
        return pending

    def commit(
        self,
        identifier: Identifier,
        requirements: Sequence[Requirement],
        updates: Sequence[Update],
        *,
        idempotency_key: str | None = None,
        client: Client | None = None,
        wait_seconds: float | None = None,
        size: int = 0,
    ) -> CommitReport:
        arguments = {"key": idempotency_key, "client": client, "wait_seconds": wait_seconds, "size": size}
        self._enter("commit", arguments)
        name = _name(identifier)
        change = from_request(requirements, updates, client, idempotency_key=idempotency_key)
        creates = any(requirement["type"] == "assert-create" for requirement in requirements)
        with self._lock:
            if creates:
                self._namespace(name.namespace)
            base = None if creates and name not in self.tables else self._table(name).metadata
            change.check(base)
            new = apply(base, change.stage(base, NoManifests()).updates, now_ms=SYSTEM_CLOCK.now_ms())
            made = self._put(name, new)
        return CommitReport(name, made.metadata_location, made.metadata, replays=2, group_size=3, lock_wait_ms=500.0)

    def drop_table(self, identifier: Identifier, *, purge: bool = False, wait_seconds: float | None = None) -> None:
        self._enter("drop_table", (identifier, purge))
        with self._lock:
            self._table(_name(identifier))
            del self.tables[_name(identifier)]

    def rename_table(self, old: Identifier, new: Identifier, *, wait_seconds: float | None = None) -> None:
        self._enter("rename_table", (old, new))
        with self._lock:
            made = self._table(_name(old))
            self._namespace(new[0])
            self._refuse_taken(_name(new))
            self.tables[_name(new)] = made
            del self.tables[_name(old)]

    def register_table(
        self,
        identifier: Identifier,
        metadata_location: str,
        *,
        overwrite: bool = False,
        wait_seconds: float | None = None,
    ) -> Made:
        self._enter("register_table", (identifier, metadata_location, overwrite))
        with self._lock:
            self._namespace(identifier[0])
            if metadata_location not in self.files:
                raise MissingFile(metadata_location)
            try:
                metadata = TableMetadata.parse(self.files[metadata_location])
            except InvalidInput as error:
                raise CorruptFile(metadata_location, error.message) from error
            if not overwrite:
                self._refuse_taken(_name(identifier))
            self.tables[_name(identifier)] = made = Made(metadata_location, metadata)
            return made

    def _staged(
        self,
        identifier: Identifier,
        schema: JsonObject,
        partition_spec: JsonObject | None,
        sort_order: JsonObject | None,
        location: str | None,
        properties: Mapping[str, str] | None,
    ) -> Loaded:
        name = _name(identifier)
        self._namespace(name.namespace)
        table_schema = schemas.to_schema(schema)
        metadata = new_table_metadata(
            table_schema,
            schemas.to_spec(partition_spec, table_schema),
            schemas.to_order(sort_order, table_schema),
            location or f"{self._warehouse}/{name.namespace}.db/{name.name}",
            dict(properties or {}),
            uuid=SYSTEM_CLOCK.uuid(),
            now_ms=SYSTEM_CLOCK.now_ms(),
        )
        return Loaded(name, None, metadata)

    def _namespace(self, namespace: str) -> dict[str, str]:
        if namespace.lower() not in self.namespaces:
            raise NoSuchNamespace(namespace)
        return self.namespaces[namespace.lower()]

    def _table(self, name: TableName) -> Made:
        if name in self.hive_tables:
            raise NotAnIcebergTable(name, "MANAGED_TABLE of parquet")
        if name not in self.tables:
            raise NoSuchTable(name)
        return self.tables[name]

    def _refuse_taken(self, name: TableName) -> None:
        if name in self.tables or name in self.hive_tables:
            raise AlreadyExists(f"Table already exists: {name}")

    def _put(self, name: TableName, metadata: TableMetadata) -> Made:
        self._files_made += 1
        location = f"{metadata.location}/metadata/{self._files_made:05d}-x.metadata.json"
        self.tables[name] = made = Made(location, metadata)
        self.files[location] = metadata.to_bytes()
        return made


class NoManifests:
    """Commits of these tests stage no manifest lists: the clients wrote their own."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the fake catalog has no manifests, but {name} was asked for")


def _name(identifier: Identifier) -> TableName:
    return TableName(identifier[0].lower(), identifier[1].lower())


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

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self._app, client=(self._peer, 50_000))
        return httpx.AsyncClient(transport=transport, base_url="http://server", headers=self._headers)


def error_of(response: httpx.Response) -> tuple[int, str, str]:
    """(status, type, message) of an ErrorModel, after a look at its shape."""
    body = response.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "code"}
    assert body["error"]["code"] == response.status_code
    return response.status_code, body["error"]["type"], body["error"]["message"]
