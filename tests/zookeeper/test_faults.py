"""Every exception of kazoo ends as one of three answers."""

from __future__ import annotations

import pytest
from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError

from iceberg_hms.errors import LockUnavailable
from iceberg_hms.zookeeper.faults import NodeGone, NoReply, ZooKeeperUnavailable, mapped


@pytest.mark.parametrize(
    "error",
    [
        KazooTimeoutError("exceeded timeout"),
        exceptions.ConnectionLoss(),
        exceptions.SessionExpiredError(),
        exceptions.ConnectionClosedError("closed"),
        exceptions.SessionMovedError(),
        exceptions.OperationTimeoutError(),
    ],
)
def test_what_may_have_been_carried_out_is_no_reply(error: Exception) -> None:
    assert type(mapped(error, "create /x")) is NoReply


def test_a_node_that_is_not_there_is_gone() -> None:
    assert type(mapped(exceptions.NoNodeError(), "write /x")) is NodeGone


@pytest.mark.parametrize("error", [exceptions.NoAuthError(), exceptions.AuthFailedError(), ValueError("bad path")])
def test_everything_else_is_a_refusal_in_its_own_words(error: Exception) -> None:
    found = mapped(error, "create /x")
    assert type(found) is ZooKeeperUnavailable
    assert type(error).__name__ in found.message
    assert "create /x" in found.message


def test_all_of_them_are_lock_errors_that_say_what_to_do() -> None:
    for kind in (NoReply, NodeGone, ZooKeeperUnavailable):
        assert issubclass(kind, LockUnavailable)
        assert kind("x").next_step
