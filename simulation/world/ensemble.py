"""ZooKeeper in memory: sessions that end without a ping, sequential ephemeral nodes, watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from iceberg_hms.zookeeper.faults import NodeGone
from simulation.engine.runtime import EPOCH_MS


class Expired(Exception):
    """The session has ended."""


@dataclass(slots=True, eq=False)
class ServerSession:
    """heard: when its last ping or request came, in seconds. cut_off: since when its connection is known to be broken.
    seen: the newest change that the servers reported to it; no server shows it an older state."""

    id: int
    owner: str
    heard: float
    cut_off: float | None = None
    seen: int = 0


@dataclass(slots=True, eq=False)
class ZNode:
    """born, died: the changes that created and deleted it. lasts: it outlives its session."""

    name: str
    owner: ServerSession
    data: bytes
    born: int
    created_ms: int
    died: int | None = None
    lasts: bool = False


@dataclass(slots=True)
class Folder:
    """nodes: all that were ever created. number: of the next sequential one."""

    nodes: dict[str, ZNode] = field(default_factory=dict)
    number: int = 0


class Ensemble:
    """All servers as one. Every request takes effect at once; only reads may see an older state.

    now: its clock, in seconds. epoch_ms: its wall clock when `now` was 0. timeout_seconds: of sessions, as granted.
    ends_after: a session without a ping ends after this share of the timeout; more than one where the servers notice
    late. cut_off_after: the same for a session whose connection is known to be broken.
    on_first: called with the owner of the node that becomes the first of its folder. folders: by path.
    """

    def __init__(
        self,
        now: Callable[[], float],
        *,
        timeout_seconds: float,
        ends_after: float = 1.0,
        cut_off_after: float = 1.0,
        epoch_ms: int = EPOCH_MS,
    ) -> None:
        self.timeout_seconds = timeout_seconds
        self.on_first: Callable[[str], None] | None = None
        self._now = now
        self._epoch_ms = epoch_ms
        self._ends_after = ends_after * timeout_seconds
        self._cut_off_after = cut_off_after * timeout_seconds
        self._sessions: dict[int, ServerSession] = {}
        self.folders: dict[str, Folder] = {}
        self._watches: dict[str, dict[Callable[[], None], None]] = {}
        self._changes = 0
        self._last_session = 0

    def begin(self, owner: str) -> int:
        """A new session; returns its id."""
        self._last_session += 1
        self._sessions[self._last_session] = ServerSession(self._last_session, owner, self._now())
        return self._last_session

    def touch(self, session: int) -> ServerSession:
        """A ping or a request of a session keeps it alive. Raises Expired."""
        self._expire()
        if session not in self._sessions:
            raise Expired
        found = self._sessions[session]
        found.heard = self._now()
        found.cut_off = None
        return found

    def cut_off(self, session: int) -> None:
        """Called when the connection of a session breaks."""
        if session in self._sessions:
            self._sessions[session].cut_off = self._now()

    def seen(self, session: int) -> int:
        """The newest change that the servers reported to a session."""
        return self._sessions[session].seen if session in self._sessions else 0

    def forget_reply(self, session: int, seen: int) -> None:
        """Called when a reply is lost: the session knows no change after `seen`."""
        if session in self._sessions:
            self._sessions[session].seen = seen

    def end(self, session: int) -> None:
        """End a session, and delete its ephemeral nodes."""
        ended = self._sessions.pop(session, None)
        if ended is None:
            return
        for path, node in self.nodes.items():
            if node.owner is ended and not node.lasts:
                self._remove(path, node)

    def create(self, session: int, folder: str, prefix: str, data: bytes) -> str:
        """Create a sequential ephemeral node; returns its name. Raises Expired."""
        owner = self.touch(session)
        room = self.folders.setdefault(folder, Folder())
        name = f"{prefix}{room.number:010d}"
        room.number += 1
        self._changes += 1
        owner.seen = self._changes
        room.nodes[name] = ZNode(name, owner, data, self._changes, self._now_ms())
        self._report_first(folder, name)
        return name

    def create_persistent(self, session: int, path: str, data: bytes) -> None:
        """Create a persistent node. Raises Expired."""
        owner = self.touch(session)
        folder, _, name = path.rpartition("/")
        self._changes += 1
        owner.seen = self._changes
        node = ZNode(name, owner, data, self._changes, self._now_ms(), lasts=True)
        self.folders.setdefault(folder, Folder()).nodes[name] = node

    def children(self, session: int, folder: str, *, behind: bool = False) -> list[str]:
        """Names of the nodes and folders in a folder, in no useful order. behind: the answering server knows no more
        changes than this session has seen. Raises NodeGone, Expired."""
        asking = self.touch(session)
        below = {path[len(folder) + 1 :].partition("/")[0] for path in self.folders if path.startswith(f"{folder}/")}
        if folder not in self.folders and not below:
            raise NodeGone(folder)
        as_of = asking.seen if behind else self._changes
        asking.seen = as_of
        nodes = self.folders.get(folder, Folder()).nodes.values()
        names = {each.name for each in nodes if each.born <= as_of and (each.died is None or each.died > as_of)}
        return sorted(names | below, reverse=True)

    def sync(self, session: int) -> None:
        """The server of a session catches up with all changes. Raises Expired."""
        self.touch(session).seen = self._changes

    def watch(self, session: int, path: str, changed: Callable[[], None]) -> bool:
        """Whether a node exists; `changed` is called when it is deleted. Raises Expired."""
        asking = self.touch(session)
        if self._find(path) is None:
            return False
        asking.seen = self._changes
        self._watches.setdefault(path, {})[changed] = None
        return True

    def forget_watches(self, watches: dict[Callable[[], None], None]) -> None:
        """Remove the watches of a broken connection."""
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
        """The owners of all ephemeral nodes that exist."""
        self._expire()
        return [node.owner.owner for node in self.nodes.values() if not node.lasts]

    @property
    def nodes(self) -> dict[str, ZNode]:
        """All nodes that exist, by path."""
        # `list` copies at once: another thread may add a node meanwhile.
        return {
            f"{folder}/{node.name}": node
            for folder, room in list(self.folders.items())
            for node in list(room.nodes.values())
            if node.died is None
        }

    def _expire(self) -> None:
        now = self._now()
        for each in list(self._sessions.values()):
            cut_off = each.cut_off is not None and each.cut_off < now - self._cut_off_after
            if cut_off or each.heard < now - self._ends_after:
                self.end(each.id)

    def _now_ms(self) -> int:
        return self._epoch_ms + int(self._now() * 1000)

    def _find(self, path: str) -> ZNode | None:
        folder, _, name = path.rpartition("/")
        node = self.folders[folder].nodes.get(name) if folder in self.folders else None
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
            self._report_first(folder, left[0].name)

    def _report_first(self, folder: str, name: str) -> None:
        """Nodes are in the order of their sequence numbers, so the first living one holds the lock."""
        living = self._queue(folder)[0]
        if living.name == name and self.on_first is not None:
            self.on_first(living.owner.owner)

    def _queue(self, folder: str) -> list[ZNode]:
        """The living nodes of a folder, whose first holds the lock."""
        return [each for each in self.folders[folder].nodes.values() if each.died is None and not each.lasts]
