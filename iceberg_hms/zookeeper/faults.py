"""The only module that knows kazoo's exceptions: `mapped` turns each into one of three errors."""

from __future__ import annotations

from iceberg_hms.errors import LockUnavailable

_NEXT_STEP = "check that ZooKeeper runs and that `zookeeper.hosts` names it"


class ZooKeeperUnavailable(LockUnavailable):
    """ZooKeeper is unreachable, or refuses us. The request changed nothing."""

    default_next_step = _NEXT_STEP


class NoReply(ZooKeeperUnavailable):
    """The request may have been carried out or not: the connection or session ended, or no answer came in time."""


class NodeGone(LockUnavailable):
    """The requested node does not exist."""


def mapped(error: Exception, what: str) -> LockUnavailable:
    """The error that a kazoo exception amounts to. what: the request, for the message."""
    from kazoo import exceptions
    from kazoo.handlers.threading import KazooTimeoutError

    if isinstance(error, exceptions.NoNodeError):
        return NodeGone(f"ZooKeeper: {what}: the node is gone")
    unanswered = (
        KazooTimeoutError,
        exceptions.ConnectionLoss,
        exceptions.ConnectionDropped,
        exceptions.OperationTimeoutError,
        exceptions.SessionExpiredError,
        exceptions.SessionMovedError,
        exceptions.CancelledError,
    )
    if isinstance(error, unanswered):
        return NoReply(f"ZooKeeper: {what}: {_words(error)}")
    return ZooKeeperUnavailable(f"ZooKeeper refused: {what}: {_words(error)}", next_step="look into ZooKeeper's log")


def _words(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__} ({text})" if text and text != "()" else type(error).__name__
