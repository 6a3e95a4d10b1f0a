"""What locks look like in ZooKeeper: one folder a table, in it one node for each that holds or awaits its lock.

    /iceberg-hms/locks/<db>.<table>/<attempt>-<epoch>-lock-<number>

ZooKeeper gives the number; the lowest has the lock. The text before it tells whose node it is, so that a node is found
whose creation was not answered: the trick is Curator's ("protection").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

import orjson

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.zookeeper.session import Node, Session

#: Below it is one folder a table.
ROOT = "/iceberg-hms/locks"

# Ten places of a signed counter, which goes on below zero after 2**31 nodes of one folder.
_NUMBERED = re.compile(r"-lock-(\d{10}|-\d{9,10})$")


@dataclass(frozen=True, slots=True)
class LockNode:
    """One lock of a table, or one that waits. lock_id: the node's path below ROOT."""

    lock_id: str
    table: TableName
    acquired: bool
    agent_info: str
    user: str
    host: str
    since_ms: int

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

    def __str__(self) -> str:
        return f"lock {self.path.removeprefix(f'{ROOT}/')}"


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


def read_folder(session: Session, folder: str) -> list[LockNode]:
    """The locks of one table, the holder first."""
    found = []
    for position, name in enumerate(in_order(session.children(folder))):
        node = session.read(f"{folder}/{name}")
        if node is not None:
            found.append(_lock_node(folder, node, acquired=position == 0))
    return found


def _lock_node(folder: str, node: Node, *, acquired: bool) -> LockNode:
    table = folder.removeprefix(f"{ROOT}/")
    namespace, _, name = table.partition(".")
    try:
        told = orjson.loads(node.data)
    except orjson.JSONDecodeError:
        told = None
    says = told if isinstance(told, dict) else {}
    return LockNode(
        lock_id=f"{table}/{node.name}",
        table=TableName(unquote(namespace), unquote(name)),
        acquired=acquired,
        agent_info=str(says.get("agentInfo", "")),
        user=str(says.get("user", "")),
        host=str(says.get("host", "")),
        since_ms=node.created_ms,
    )


def _escaped(part: str) -> str:
    return quote(part, safe="").replace(".", "%2E")
