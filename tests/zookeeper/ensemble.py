"""ZooKeeper in memory behind the locks' session: nodes, watches, sessions that are suspended, lost or lose replies."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.zookeeper.faults import NodeGone, NoReply, ZooKeeperUnavailable
from iceberg_hms.zookeeper.nodes import ROOT
from iceberg_hms.zookeeper.session import Node, SessionState

NAME = TableName("db", "t")
FOLDER = f"{ROOT}/db.t"


@dataclass
class Ensemble:
    """nodes: path -> (session that owns it, data)."""

    nodes: dict[str, tuple[Any, bytes]] = field(default_factory=dict)
    watches: defaultdict[str, list[Callable[[], None]]] = field(default_factory=lambda: defaultdict(list))
    numbers: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    mutex: threading.RLock = field(default_factory=threading.RLock)

    def children(self, folder: str) -> list[str]:
        """Names below a folder: of nodes, and of folders that were ever used."""
        with self.mutex:
            paths = [*self.nodes, *(f"{used}/" for used in self.numbers)]
            below = [path.removeprefix(f"{folder}/") for path in paths if path.startswith(f"{folder}/")]
            # As the servers do, in no useful order.
            return sorted({name.partition("/")[0] for name in below if name}, reverse=True)

    def remove(self, path: str) -> bool:
        with self.mutex:
            found = self.nodes.pop(path, None)
            changed = self.watches.pop(path, [])
        for watch in changed if found is not None else []:
            watch()
        return found is not None

    def expire(self, owner: Any) -> None:
        for path in [path for path, (session, _) in self.nodes.items() if session == owner]:
            self.remove(path)


class MemorySession:
    """zookeeper.session.ZooKeeperSession. `lose_reply` holds names of requests that are carried out once without an
    answer, `close_calls` what it will call when it closes."""

    def __init__(self, ensemble: Ensemble, lease_seconds: float = 30.0) -> None:
        self.ensemble = ensemble
        self.lease_seconds = lease_seconds
        self.state = SessionState.CONNECTED
        self.epoch = 0
        self.lose_reply: list[str] = []
        self.calls: list[str] = []
        self.closed = False
        self._discarded: list[tuple[str, str]] = []
        self.close_calls: list[Callable[[], None]] = []

    @property
    def _owner(self) -> tuple[int, int]:
        return id(self), self.epoch

    def expire(self) -> None:
        """The servers end the session, and a new one begins at once."""
        owner = self._owner
        self.epoch += 1
        self.ensemble.expire(owner)

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
        with self.ensemble.mutex:
            self._called("create")
            name = f"{prefix}{self.ensemble.numbers[folder]:010d}"
            self.ensemble.numbers[folder] += 1
            self.ensemble.nodes[f"{folder}/{name}"] = (self._owner, data)
        self._answered("create")
        return name

    def mark(self, path: str, data: bytes) -> None:
        self._called("mark")
        with self.ensemble.mutex:
            self.ensemble.nodes[path] = (None, data)
        self._answered("mark")

    def children(self, folder: str) -> list[str]:
        self._called("children")
        found = self.ensemble.children(folder)
        self._answered("children")
        return found

    def watch(self, path: str, changed: Callable[[], None]) -> bool:
        self._called("watch")
        with self.ensemble.mutex:
            if path not in self.ensemble.nodes:
                return False
            self.ensemble.watches[path].append(changed)
            return True

    def read(self, path: str) -> Node | None:
        self._called("read")
        found = self.ensemble.nodes.get(path)
        return None if found is None else Node(path.rpartition("/")[2], found[1], 1_000)

    def write(self, path: str, data: bytes) -> None:
        self._called("write")
        with self.ensemble.mutex:
            if path not in self.ensemble.nodes:
                raise NodeGone(path)
            self.ensemble.nodes[path] = (self.ensemble.nodes[path][0], data)
        self._answered("write")

    def delete(self, path: str) -> None:
        self._called("delete")
        self.ensemble.remove(path)
        self._answered("delete")

    def discard(self, folder: str, prefix: str) -> None:
        if self.state is not SessionState.CONNECTED:
            self._discarded.append((folder, prefix))
            return
        for name in self.ensemble.children(folder):
            if name.startswith(prefix):
                self.ensemble.remove(f"{folder}/{name}")

    def on_close(self, call: Callable[[], None]) -> None:
        if self.closed:
            call()
        else:
            self.close_calls.append(call)

    def forget_on_close(self, call: Callable[[], None]) -> None:
        if call in self.close_calls:
            self.close_calls.remove(call)

    def close(self) -> None:
        self.closed = True
        for call in self.close_calls:
            call()
        self.ensemble.expire(self._owner)

    def _called(self, request: str) -> None:
        self.calls.append(request)
        if self.closed:
            raise ZooKeeperUnavailable("closed")
        if self.state is not SessionState.CONNECTED:
            raise NoReply(f"{request}: no connection")

    def _answered(self, request: str) -> None:
        if request in self.lose_reply:
            self.lose_reply.remove(request)
            raise NoReply(f"{request}: the reply was lost")
