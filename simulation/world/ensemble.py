"""The simulated ZooKeeper: sessions that end when nobody hears of them, sequential ephemeral nodes, watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from iceberg_hms.zookeeper.faults import NodeGone
from simulation.engine.runtime import EPOCH_MS
from simulation.engine.scheduler import Scheduler


class Expired(Exception):
    """The session has ended."""


@dataclass(slots=True, eq=False)
class ServerSession:
    """heard: simulated seconds at which a server heard of it last. cut_off: since when its connection is known to be
    gone. seen: the newest change that it was told of; no server tells it an older state."""

    id: int
    owner: str
    heard: float
    cut_off: float | None = None
    seen: int = 0


@dataclass(slots=True, eq=False)
class ZNode:
    """born, died: the change that made it, and the one that removed it. lasts: longer than its session."""

    name: str
    owner: ServerSession
    data: bytes
    born: int
    created_ms: int
    died: int | None = None
    lasts: bool = False


@dataclass(slots=True)
class _Folder:
    """nodes: all that there ever were. number: of the next sequential one."""

    nodes: dict[str, ZNode] = field(default_factory=dict)
    number: int = 0


class Ensemble:
    """All servers as one; every request takes effect at once, and only reads may be of an older state.

    timeout_seconds: of sessions, as it is granted.
    ends_after: the share of it after which a session that is not heard of ends; more than one where the servers are
    slow to notice. cut_off_after: the same for one whose connection is known to be gone, for servers in a hurry.
    on_first: told whose node is the first of its folder now.
    """

    def __init__(
        self, scheduler: Scheduler, *, timeout_seconds: float, ends_after: float, cut_off_after: float
    ) -> None:
        self.timeout_seconds = timeout_seconds
        self.on_first: Callable[[str], None] | None = None
        self._scheduler = scheduler
        self._ends_after = ends_after * timeout_seconds
        self._cut_off_after = cut_off_after * timeout_seconds
        self._sessions: dict[int, ServerSession] = {}
        self._folders: dict[str, _Folder] = {}
        self._watches: dict[str, dict[Callable[[], None], None]] = {}
        self._changes = 0
        self._last_session = 0

    def begin(self, owner: str) -> int:
        """A new session; returns its id."""
        self._last_session += 1
        self._sessions[self._last_session] = ServerSession(self._last_session, owner, self._scheduler.now)
        return self._last_session

    def touch(self, session: int) -> ServerSession:
        """A session gives a sign of life, by a ping or a request. Raises Expired."""
        self._expire()
        if session not in self._sessions:
            raise Expired
        found = self._sessions[session]
        found.heard = self._scheduler.now
        found.cut_off = None
        return found

    def cut_off(self, session: int) -> None:
        """A session's connection is gone."""
        if session in self._sessions:
            self._sessions[session].cut_off = self._scheduler.now

    def seen(self, session: int) -> int:
        """The newest change that a session was told of."""
        return self._sessions[session].seen if session in self._sessions else 0

    def forget_reply(self, session: int, seen: int) -> None:
        """A reply did not arrive: all that the session was told of is this."""
        if session in self._sessions:
            self._sessions[session].seen = seen

    def end(self, session: int) -> None:
        """A session says goodbye, or is over."""
        ended = self._sessions.pop(session, None)
        if ended is None:
            return
        for path, node in self._living():
            if node.owner is ended and not node.lasts:
                self._remove(path, node)

    def create(self, session: int, folder: str, prefix: str, data: bytes) -> str:
        """A sequential ephemeral node; returns its name. Raises Expired."""
        owner = self.touch(session)
        room = self._folders.setdefault(folder, _Folder())
        name = f"{prefix}{room.number:010d}"
        room.number += 1
        self._changes += 1
        owner.seen = self._changes
        created_ms = EPOCH_MS + int(self._scheduler.now * 1000)
        room.nodes[name] = ZNode(name, owner, data, self._changes, created_ms)
        self._tell_first(folder, name)
        return name

    def mark(self, session: int, path: str, data: bytes) -> None:
        """A node that outlives its session. Raises Expired."""
        owner = self.touch(session)
        folder, _, name = path.rpartition("/")
        self._changes += 1
        owner.seen = self._changes
        created_ms = EPOCH_MS + int(self._scheduler.now * 1000)
        node = ZNode(name, owner, data, self._changes, created_ms, lasts=True)
        self._folders.setdefault(folder, _Folder()).nodes[name] = node

    def children(self, session: int, folder: str, *, behind: bool = False) -> list[str]:
        """Names in a folder, in no useful order. behind: a server answers that knows no more than what this session
        has been told already. Raises NodeGone, Expired."""
        asking = self.touch(session)
        if folder not in self._folders:
            raise NodeGone(folder)
        as_of = asking.seen if behind else self._changes
        asking.seen = as_of
        nodes = self._folders[folder].nodes.values()
        names = [each.name for each in nodes if each.born <= as_of and (each.died is None or each.died > as_of)]
        return sorted(names, reverse=True)

    def sync(self, session: int) -> None:
        """The server that a session is connected to catches up with all that was done. Raises Expired."""
        self.touch(session).seen = self._changes

    def watch(self, session: int, path: str, changed: Callable[[], None]) -> bool:
        """Whether a node is there; `changed` is called when it goes. Raises Expired."""
        asking = self.touch(session)
        if self._find(path) is None:
            return False
        asking.seen = self._changes
        self._watches.setdefault(path, {})[changed] = None
        return True

    def forget_watches(self, watches: dict[Callable[[], None], None]) -> None:
        """Watches whose connection is gone."""
        for watching in self._watches.values():
            for changed in watches:
                watching.pop(changed, None)

    def read(self, session: int, path: str) -> ZNode:
        """A node. Raises NodeGone, Expired."""
        self.touch(session)
        return self._get(path)

    def write(self, session: int, path: str, data: bytes) -> None:
        """Raises NodeGone, Expired."""
        owner = self.touch(session)
        self._get(path).data = data
        self._changes += 1
        owner.seen = self._changes

    def delete(self, session: int, path: str) -> None:
        """Raises NodeGone, Expired."""
        owner = self.touch(session)
        self._remove(path, self._get(path))
        owner.seen = self._changes

    def holders(self) -> list[str]:
        """The owners of all nodes that are left."""
        self._expire()
        return [node.owner.owner for _, node in self._living() if not node.lasts]

    def _expire(self) -> None:
        now = self._scheduler.now
        for each in list(self._sessions.values()):
            cut_off = each.cut_off is not None and each.cut_off < now - self._cut_off_after
            if cut_off or each.heard < now - self._ends_after:
                self.end(each.id)

    def _living(self) -> list[tuple[str, ZNode]]:
        return [
            (f"{folder}/{node.name}", node)
            for folder, room in self._folders.items()
            for node in room.nodes.values()
            if node.died is None
        ]

    def _find(self, path: str) -> ZNode | None:
        folder, _, name = path.rpartition("/")
        node = self._folders[folder].nodes.get(name) if folder in self._folders else None
        return None if node is None or node.died is not None else node

    def _get(self, path: str) -> ZNode:
        node = self._find(path)
        if node is None:
            raise NodeGone(path)
        return node

    def _remove(self, path: str, node: ZNode) -> None:
        self._changes += 1
        node.died = self._changes
        for changed in self._watches.pop(path, {}):
            changed()
        folder = path.rpartition("/")[0]
        left = self._queue(folder)
        if left and not node.lasts:
            self._tell_first(folder, left[0].name)

    def _tell_first(self, folder: str, name: str) -> None:
        """Nodes are kept in the order of their numbers, so the first that lives has the lock."""
        living = self._queue(folder)[0]
        if living.name == name and self.on_first is not None:
            self.on_first(living.owner.owner)

    def _queue(self, folder: str) -> list[ZNode]:
        """Those that hold or await a lock."""
        return [each for each in self._folders[folder].nodes.values() if each.died is None and not each.lasts]
