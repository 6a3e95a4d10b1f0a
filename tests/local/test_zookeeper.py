"""What can be seen without a JVM; integration/test_local_servers.py starts the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.errors import EngineError, InvalidInput
from iceberg_hms.local.zookeeper import LocalZooKeeper
from tests.local import fake_java


def test_its_address_is_loopback(tmp_path: Path) -> None:
    server = LocalZooKeeper(tmp_path / "zk", port=12181)
    assert server.hosts == "127.0.0.1:12181"
    assert server.log == tmp_path / "zk" / "zookeeper.log"
    assert server.pid is None


def test_stopping_what_was_never_started_is_harmless(tmp_path: Path) -> None:
    LocalZooKeeper(tmp_path / "zk").stop()


def test_an_unusable_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        LocalZooKeeper(tmp_path / "a;b")


def test_start_fails_and_ends_a_java_that_is_no_gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java.install(monkeypatch, tmp_path, fake_java.ANNOUNCE + fake_java.UNTIL_THE_PIPE_BREAKS)
    server = LocalZooKeeper(tmp_path / "zk")
    with pytest.raises(EngineError, match=r"ZooKeeper did not start.*zookeeper\.log"):
        server.start()
    assert server.pid is None
