"""What locks look like in ZooKeeper: one folder per table, in it one node for its holder and for each waiter.

    /iceberg-hms/locks/<db>.<table>/<attempt>-<epoch>-lock-<number>

    /iceberg-hms/locks/<db>.<table>/<attempt>-<epoch>-lock-<number>-swapping

ZooKeeper gives the number; the lowest has the lock. The text before it says whose node it is, so that its owner finds a
node whose creation was not answered, as in Curator ("protection").

The second is the swap marker. The holder makes it before a swap that may overwrite later commits, and removes it with
the lock. Unlike the first it outlives its session: a marker alone says that its writer's session ended before the swap
was settled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import orjson

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.lock_record import LockRecord
from iceberg_hms.zookeeper.session import Node, ZooKeeperSession

#: Below it is one folder a table.
ROOT = "/iceberg-hms/locks"

# Ten places of a signed counter, which goes on below zero after 2**31 nodes of one folder.
_NUMBERED = re.compile(r"-lock-(\d{10}|-\d{9,10})$")


_SWAPPING = "-swapping"


@dataclass(frozen=True, slots=True)
class OwnNode:
    """The node by which we hold a lock.

    epoch: of the session that made it. lost_prefix: the prefix of nodes that its creation may have left; None if none.
    """

    folder: str
    name: str
    data: bytes
    epoch: int
    lost_prefix: str | None = None

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def marker(self) -> str:
        return self.path + _SWAPPING

    def __str__(self) -> str:
        return f"lock {self.path.removeprefix(f'{ROOT}/')}"


@dataclass(frozen=True, slots=True)
class Swapping:
    """A swap marker: a swap may be under way.

    seconds: how long it may still be made after its writer's session ended. waited: seconds that later writers have
    waited for it.
    """

    seconds: float
    waited: float = 0.0

    def in_content(self, data: bytes) -> bytes:
        """The content of the marker: this, and who made the node, from the node's own content."""
        marker = {**_parsed(data), "seconds": self.seconds, "waited": self.waited}
        return orjson.dumps(marker)

    @classmethod
    def read(cls, data: bytes, default_seconds: float) -> Swapping:
        """What a marker says, and the worst case of what it leaves out."""
        found = _parsed(data)
        seconds, waited = found.get("seconds"), found.get("waited")
        return cls(
            float(seconds) if isinstance(seconds, int | float) else default_seconds,
            float(waited) if isinstance(waited, int | float) else 0.0,
        )


def folder_of(name: TableName) -> str:
    """The folder of a table's locks; no two tables share one."""
    # Dots inside of the parts are escaped as well: `.` and `..` are no node names, and one dot must divide the two.
    return f"{ROOT}/{_escaped(name.namespace)}.{_escaped(name.name)}"


def prefix_of(attempt: str, epoch: int) -> str:
    return f"{attempt}-{epoch}-lock-"


def content(agent_info: str, user: str, host: str) -> bytes:
    """The content of a lock's node: who made it."""
    return orjson.dumps({"agentInfo": agent_info, "user": user, "host": host})


def in_order(names: Sequence[str]) -> list[str]:
    """The locks among these names, the holder first: by the number that ZooKeeper gave them."""
    numbered = [(int(found.group(1)) % 2**32, name) for name in names if (found := _NUMBERED.search(name))]
    return [name for _, name in sorted(numbered)]


def left_swapping(names: Sequence[str]) -> list[str]:
    """The swap markers among these names whose writer's own node is gone."""
    there = set(names)
    return sorted(name for name in names if name.endswith(_SWAPPING) and name.removesuffix(_SWAPPING) not in there)


def read_holder(session: ZooKeeperSession, folder: str, names: Sequence[str]) -> LockRecord | None:
    """Who keeps others from a lock: its holder, or a swap marker that was left behind. names: the nodes in its folder.
    None: nobody any more."""
    left, row = left_swapping(names), in_order(names)
    for name in [*left, *row][:1]:
        node = session.read(f"{folder}/{name}")
        return None if node is None else _record(folder, node, acquired=True, is_left=bool(left))
    return None


def read_folder(session: ZooKeeperSession, folder: str) -> list[LockRecord]:
    """The locks of one table: swap markers that were left behind, then the holder, then the waiters."""
    found = []
    names = session.children(folder)
    row = in_order(names)
    for name in [*left_swapping(names), *row]:
        node = session.read(f"{folder}/{name}")
        if node is not None:
            found.append(_record(folder, node, acquired=name in row[:1], is_left=name not in row))
    return found


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {}


def _record(folder: str, node: Node, *, acquired: bool, is_left: bool) -> LockRecord:
    table = folder.removeprefix(f"{ROOT}/")
    namespace, _, name = table.partition(".")
    says = _parsed(node.data)
    return LockRecord(
        lock_id=f"{table}/{node.name}",
        keeper="zookeeper",
        table=str(TableName(unquote(namespace), unquote(name))),
        state="ACQUIRED" if acquired or is_left else "WAITING",
        kind="EXCLUSIVE",
        user=str(says.get("user", "")),
        host=str(says.get("host", "")),
        agent_info=str(says.get("agentInfo", "")),
        since_ms=node.created_ms,
        heartbeat_ms=None,
        seems_dead="its session ended, and the metastore may still make the swap that it sent" if is_left else "",
    )


def _escaped(part: str) -> str:
    return quote(part, safe="").replace(".", "%2E")
