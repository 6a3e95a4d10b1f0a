"""What locks look like in ZooKeeper: one folder a table, in it one node for each that holds or awaits its lock.

    /iceberg-hms/locks/<db>.<table>/<attempt>-<epoch>-lock-<number>

    /iceberg-hms/locks/<db>.<table>/<attempt>-<epoch>-lock-<number>-swapping

ZooKeeper gives the number; the lowest has the lock. The text before it tells whose node it is, so that a node is found
whose creation was not answered: the trick is Curator's ("protection").

The second is made before a move that nothing but the lock fences, and removed with the lock. Unlike the first it
outlives its session: whoever finds it alone knows that its writer's session ended before the move was settled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import orjson

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.zookeeper.session import Node, Session

#: Below it is one folder a table.
ROOT = "/iceberg-hms/locks"

# Ten places of a signed counter, which goes on below zero after 2**31 nodes of one folder.
_NUMBERED = re.compile(r"-lock-(\d{10}|-\d{9,10})$")


_SWAPPING = "-swapping"


@dataclass(frozen=True, slots=True)
class LockNode:
    """One lock of a table, or one that waits. lock_id: the node's path below ROOT. seems_dead: why its holder does, in
    words."""

    lock_id: str
    table: TableName
    acquired: bool
    agent_info: str
    user: str
    host: str
    since_ms: int
    seems_dead: str = ""

    def __str__(self) -> str:
        return f"lock {self.lock_id} of {self.user or '?'} on {self.host or '?'} ({self.agent_info or 'no agentInfo'})"


@dataclass(frozen=True, slots=True)
class OwnNode:
    """The node by which we hold a lock.

    epoch: of the session that made it. strays: how the names of nodes begin that may be left of its creation, if any
    may be.
    """

    folder: str
    name: str
    data: bytes
    epoch: int
    strays: str | None = None

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self.folder}/{self.name}"

    @property
    def marker(self) -> str:
        """Where it says that a move is under way."""
        return self.path + _SWAPPING

    def __str__(self) -> str:
        return f"lock {self.path.removeprefix(f'{ROOT}/')}"


@dataclass(frozen=True, slots=True)
class Swapping:
    """What is said of a move that may be under way.

    seconds: for how long it may be, from when the session of its writer ended. blind: it carries no expected value, and
    so no server fences it. waited: seconds that those who came after its writer have waited for it.
    """

    seconds: float
    blind: bool
    waited: float = 0.0

    def told_in(self, data: bytes) -> bytes:
        """The same in what a node says of who made it."""
        told = {**_parsed(data), "seconds": self.seconds, "blind": self.blind, "waited": self.waited}
        return orjson.dumps(told)

    @classmethod
    def read(cls, data: bytes, default_seconds: float) -> Swapping:
        """What a node says; the worst of what it does not say."""
        told = _parsed(data)
        seconds, waited = told.get("seconds"), told.get("waited")
        return cls(
            float(seconds) if isinstance(seconds, int | float) else default_seconds,
            told.get("blind") is not False,
            float(waited) if isinstance(waited, int | float) else 0.0,
        )


def folder_of(name: TableName) -> str:
    """The folder of a table's locks; no two tables share one."""
    # Dots inside of the parts are escaped as well: `.` and `..` are no node names, and one dot must divide the two.
    return f"{ROOT}/{_escaped(name.namespace)}.{_escaped(name.name)}"


def prefix_of(attempt: str, epoch: int) -> str:
    """How the names of an attempt's nodes begin that one session makes."""
    return f"{attempt}-{epoch}-lock-"


def content(agent_info: str, user: str, host: str) -> bytes:
    """What a node says of who made it."""
    return orjson.dumps({"agentInfo": agent_info, "user": user, "host": host})


def in_order(names: Sequence[str]) -> list[str]:
    """Those that are locks, the holder first: by the number that ZooKeeper gave them."""
    numbered = [(int(found.group(1)) % 2**32, name) for name in names if (found := _NUMBERED.search(name))]
    return [name for _, name in sorted(numbered)]


def left_swapping(names: Sequence[str]) -> list[str]:
    """Those that say of a writer whose own node is gone that its move may be under way."""
    there = set(names)
    return sorted(name for name in names if name.endswith(_SWAPPING) and name.removesuffix(_SWAPPING) not in there)


def read_folder(session: Session, folder: str) -> list[LockNode]:
    """The locks of one table: what those left behind whose sessions ended, then the holder, then the others."""
    found = []
    names = session.children(folder)
    row = in_order(names)
    for name in [*left_swapping(names), *row]:
        node = session.read(f"{folder}/{name}")
        if node is not None:
            found.append(_lock_node(folder, node, acquired=name in row[:1], is_left=name not in row))
    return found


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        told = orjson.loads(data)
    except orjson.JSONDecodeError:
        told = None
    return told if isinstance(told, dict) else {}


def _lock_node(folder: str, node: Node, *, acquired: bool, is_left: bool) -> LockNode:
    table = folder.removeprefix(f"{ROOT}/")
    namespace, _, name = table.partition(".")
    says = _parsed(node.data)
    return LockNode(
        lock_id=f"{table}/{node.name}",
        table=TableName(unquote(namespace), unquote(name)),
        acquired=acquired or is_left,
        agent_info=str(says.get("agentInfo", "")),
        user=str(says.get("user", "")),
        host=str(says.get("host", "")),
        since_ms=node.created_ms,
        seems_dead="its session ended, and what it sent to the metastore may still be carried out" if is_left else "",
    )


def _escaped(part: str) -> str:
    return quote(part, safe="").replace(".", "%2E")
