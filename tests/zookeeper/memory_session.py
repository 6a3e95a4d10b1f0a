"""The locks' Session on an ensemble in memory: sessions that are suspended, lost or lose replies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.zookeeper.faults import NodeGone, NoReply, ZooKeeperUnavailable
from iceberg_hms.zookeeper.nodes import ROOT
from iceberg_hms.zookeeper.session import Node, SessionState
from simulation.world.ensemble import Ensemble

T = TypeVar("T")

NAME = TableName("db", "t")
FOLDER = f"{ROOT}/db.t"

#: Of all ensembles: requests of several threads reach one of them.
_mutex = threading.RLock()


def new_ensemble() -> Ensemble:
    """One whose clock stands still, so that sessions end only when a test ends them."""
    return Ensemble(lambda: 1.0, timeout_seconds=30.0, epoch_ms=0)


def remove(ensemble: Ensemble, path: str) -> None:
    """Delete a node as an operator does."""
    with _mutex:
        ensemble.delete(ensemble.begin("an operator"), path)


class MemorySession:
    """zookeeper.session.Session. `lose_reply` holds names of requests that are carried out once without an answer,
    `close_calls` what it will call when it closes."""

    def __init__(self, ensemble: Ensemble, lease_seconds: float = 30.0) -> None:
        self.lease_seconds = lease_seconds
        self.state = SessionState.CONNECTED
        self.epoch = 0
        self.lose_reply: list[str] = []
        self.calls: list[str] = []
        self.closed = False
        self.close_calls: list[Callable[[], None]] = []
        self._ensemble = ensemble
        self._session = ensemble.begin("a test")
        self._discarded: list[tuple[str, str]] = []

    def expire(self) -> None:
        """The servers end the session, and a new one begins at once."""
        with _mutex:
            ended, self._session = self._session, self._ensemble.begin("a test")
            self.epoch += 1
            self._ensemble.end(ended)

    def suspend(self) -> None:
        self.state = SessionState.SUSPENDED

    def resume(self) -> None:
        self.state = SessionState.CONNECTED
        discarded, self._discarded = self._discarded, []
        for folder, prefix in discarded:
            self.discard(folder, prefix)

    def connected(self) -> int:
        if self.state is not SessionState.CONNECTED:
            raise ZooKeeperUnavailable("out of reach")
        return self.epoch

    def create(self, folder: str, prefix: str, data: bytes) -> str:
        return self._request("create", lambda: self._ensemble.create(self._session, folder, prefix, data))

    def mark(self, path: str, data: bytes) -> None:
        self._request("mark", lambda: self._ensemble.create_persistent(self._session, path, data))

    def children(self, folder: str) -> list[str]:
        return self._request("children", lambda: self._children(folder))

    def watch(self, path: str, changed: Callable[[], None]) -> bool:
        return self._request("watch", lambda: self._ensemble.watch(self._session, path, changed))

    def read(self, path: str) -> Node | None:
        try:
            found = self._request("read", lambda: self._ensemble.read(self._session, path))
        except NodeGone:
            return None
        return Node(found.name, found.data, found.created_ms)

    def write(self, path: str, data: bytes) -> None:
        self._request("write", lambda: self._ensemble.write(self._session, path, data))

    def delete(self, path: str) -> None:
        self._request("delete", lambda: self._delete(path))

    def discard(self, folder: str, prefix: str) -> None:
        if self.state is not SessionState.CONNECTED:
            self._discarded.append((folder, prefix))
            return
        with _mutex:
            for path in [] if self.closed else self._ensemble.nodes:
                if path.startswith(f"{folder}/{prefix}"):
                    self._delete(path)

    def on_close(self, call: Callable[[], None]) -> None:
        if self.closed:
            call()
        else:
            self.close_calls.append(call)

    def forget_on_close(self, call: Callable[[], None]) -> None:
        if call in self.close_calls:
            self.close_calls.remove(call)

    def close(self) -> None:
        with _mutex:
            self.closed = True
        for call in self.close_calls:
            call()
        with _mutex:
            self._ensemble.end(self._session)

    def _delete(self, path: str) -> None:
        with suppress(NodeGone):
            self._ensemble.delete(self._session, path)

    def _children(self, folder: str) -> list[str]:
        try:
            return self._ensemble.children(self._session, folder)
        except NodeGone:
            return []

    def _request(self, request: str, effect: Callable[[], T]) -> T:
        self.calls.append(request)
        with _mutex:
            if self.closed:
                raise ZooKeeperUnavailable("closed")
            if self.state is not SessionState.CONNECTED:
                raise NoReply(f"{request}: no connection")
            answer = effect()
        if request in self.lose_reply:
            self.lose_reply.remove(request)
            raise NoReply(f"{request}: the reply was lost")
        return answer
