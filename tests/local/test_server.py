"""The order of start and stop, with a server that says what was asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.errors import EngineError
from iceberg_hms.local.server import LocalServer


class FakeGateway:
    pid = 7

    def __init__(self, asked: list[str], *, alive: bool = True) -> None:
        self.asked = asked
        self.alive = alive

    def is_alive(self) -> bool:
        return self.alive

    def stop(self) -> None:
        self.asked.append("stop JVM")


class Server(LocalServer):
    name = "Test server"
    log_name = "test"

    def __init__(self, directory: Path, *, fails: BaseException | None = None, alive: bool = True) -> None:
        super().__init__(directory, 0)
        self.asked: list[str] = []
        self.fails = fails
        self.alive = alive

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _launch(self) -> Any:
        self.asked.append("launch")
        return FakeGateway(self.asked, alive=self.alive)

    def _serve(self, gateway: Any) -> int:
        self.asked.append("serve")
        if self.fails is not None:
            raise self.fails
        return 4711

    def _stop_serving(self) -> None:
        self.asked.append("stop serving")
        raise OSError("the pipe is gone")


def test_it_is_started_once_and_ended_in_order(tmp_path: Path) -> None:
    server = Server(tmp_path)
    with server as started:
        assert started.start() is server
        assert (server.port, server.pid, server.log) == (4711, 7, tmp_path / "test.log")
    server.stop()
    assert server.asked == ["launch", "serve", "stop serving", "stop JVM"]
    assert server.pid is None


def test_what_cannot_be_served_is_ended_and_told(tmp_path: Path) -> None:
    server = Server(tmp_path, fails=ValueError("port taken"))
    with pytest.raises(EngineError, match=r"Test server did not start: .*port taken.*test\.log"):
        server.start()
    assert server.asked[-1] == "stop JVM"
    assert server.pid is None


def test_an_interrupt_ends_it_and_stays_an_interrupt(tmp_path: Path) -> None:
    server = Server(tmp_path, fails=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        server.start()
    assert server.asked[-1] == "stop JVM"


def test_a_jvm_that_died_is_not_talked_to(tmp_path: Path) -> None:
    server = Server(tmp_path, alive=False)
    server.start()
    server.stop()
    assert server.asked == ["launch", "serve", "stop JVM"]
