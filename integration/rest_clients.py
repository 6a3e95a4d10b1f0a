"""Stock clients of our REST server: fixtures for the tests that use them, and the headers that such clients send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Barrier, Thread
from typing import Any, Self

import httpx
import pytest
import requests

import iceberg_hms
from iceberg_hms.changes.clients.blind_append import ISOLATION_LEVELS
from iceberg_hms.rest.server import RestServer
from integration import interop

TOKEN = "a-token-for-tests-alone"
#: A table whose appends are all rebased.
ALL = {"iceberg-hms.rebase-appends": "all"}
#: One to which nobody validates an append.
SNAPSHOT_ISOLATION = dict.fromkeys(ISOLATION_LEVELS, "snapshot")


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Any]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        yield catalog


@pytest.fixture
def server(catalog: Any) -> Iterator[RestServer]:
    with RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN) as server:
        yield server


class SentCommits:
    """The bodies that PyIceberg's REST clients POST, as sent, and the statuses of the answers."""

    def __init__(self) -> None:
        self.requests: list[requests.PreparedRequest] = []
        self.statuses: list[int] = []

    def again(self, number: int) -> httpx.Response:
        """Send one of the requests once more."""
        request = self.requests[number]
        headers: dict[str, Any] = {
            key: value for key, value in request.headers.items() if key.lower() != "content-length"
        }
        body: Any = request.body
        return httpx.post(str(request.url), content=body, headers=headers, timeout=60)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> SentCommits:
    sent, send = SentCommits(), requests.Session.send

    def noted(session: Any, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        response = send(session, request, **options)
        if request.method == "POST":
            sent.requests.append(request)
            sent.statuses.append(response.status_code)
        return response

    monkeypatch.setattr(requests.Session, "send", noted)
    return sent


@pytest.fixture
def java(spark: Any, server: RestServer) -> Iterator[Callable[[int], list[Any]]]:
    """Makes stock Java REST catalogs."""
    made: list[Any] = []

    def make(count: int) -> list[Any]:
        new = [
            interop.java_catalog(spark, interop.REST_CATALOG, f"rest-{len(made) + number}", uri=server.uri, token=TOKEN)
            for number in range(count)
        ]
        made.extend(new)
        return new

    yield make
    for each in made:
        each.close()


class Delayed:
    """A commit that waits for something to happen first. That happens on a thread of its own, since the server queues
    commits on its event loop."""

    def __init__(self, happens: Callable[[], object], submit: Callable[[], Any]) -> None:
        self._queued: Future[Any] = Future()
        Thread(target=self._queue, args=(happens, submit)).start()

    def _queue(self, happens: Callable[[], object], submit: Callable[[], Any]) -> None:
        try:
            happens()
            self._queued.set_result(submit())
        except Exception as error:  # noqa: BLE001 - raised where the outcome is asked for
            self._queued.set_exception(error)

    def when_settled(self, listener: Callable[[], None]) -> None:
        def queued(commit: Future[Any]) -> None:
            if commit.exception() is None:
                commit.result().when_settled(listener)
            else:
                listener()

        self._queued.add_done_callback(queued)

    @property
    def withdrawn(self) -> bool:
        return self._is_queued() and bool(self._queued.result().withdrawn)

    def withdraw(self) -> bool:
        return self._is_queued() and bool(self._queued.result().withdraw())

    def result(self) -> Any:
        return self._queued.result().result()

    def _is_queued(self) -> bool:
        return self._queued.done() and self._queued.exception() is None


class BeforeCommits:
    """A catalog for a server that does something before each commit that a client sends."""

    def __init__(self, catalog: Any, happens: Callable[[], object]) -> None:
        self._catalog = catalog
        self._happens = happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def for_clients(self, allowed_locations: str = "", *, strict: bool = False) -> Self:
        """As the catalog does. The server calls this object, and this object the guarded catalog."""
        self._catalog = self._catalog.for_clients(allowed_locations, strict=strict)
        return self

    def commit(self, *arguments: Any, **options: Any) -> Any:
        self._happens()
        return self._catalog.commit(*arguments, **options)

    def submit(self, *arguments: Any, **options: Any) -> Delayed:
        return Delayed(self._happens, lambda: self._catalog.submit(*arguments, **options))


class Together(BeforeCommits):
    """A catalog whose commits are held back until as many have come as `gate` has parties; once, and `gate` is None
    then. None from the start: none is held back."""

    def __init__(self, catalog: Any, gate: Barrier | None = None) -> None:
        super().__init__(catalog, self._meet)
        self.gate = gate

    def _meet(self) -> None:
        gate = self.gate
        if gate is not None:
            gate.wait(120)
            self.gate = None
