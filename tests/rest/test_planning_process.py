"""What a planning process reads and answers; that it runs, and ends, is in test_planning_processes.py."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from iceberg_hms.errors import LocationNotAllowed
from iceberg_hms.rest.planning_process import receive, send


def test_values_arrive_whole_and_in_order() -> None:
    ours, theirs = socket.socketpair()
    values: list[Any] = [b"x" * 5_000_000, {"a": (1, None)}, LocationNotAllowed("location")]

    def send_all() -> None:
        for each in values:
            send(theirs, each)
        theirs.close()

    with ours:
        thread = threading.Thread(target=send_all)
        thread.start()
        assert receive(ours) == values[0]
        assert receive(ours) == values[1]
        error = receive(ours)
        assert (type(error), str(error)) == (LocationNotAllowed, str(values[2]))
        with pytest.raises(EOFError):
            receive(ours)
        thread.join(30)


def test_a_value_that_ends_early_is_an_end() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            theirs.sendall(b"\0\0\0\0\0\0\0\x09abc")
        with pytest.raises(EOFError):
            receive(ours)


def test_a_process_that_does_not_answer_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.05)
        with pytest.raises(TimeoutError):
            receive(ours)
