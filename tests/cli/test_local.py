"""`iceberg-hms local`, over servers that only tell what was asked of them. The real ones are in integration/."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iceberg_hms.config import Settings
from iceberg_hms.errors import EngineError
from tests.cli.fakes import run


@dataclass
class Server:
    """A running server of either kind, with the addresses that it was given."""

    uri: str = "thrift://127.0.0.1:1234"
    warehouse: str = 'file:/a "quoted" b'
    hosts: str = "127.0.0.1:2181"


@dataclass
class Servers:
    """What was started, with what, and what has ended. broken: the name of the one that does not start."""

    broken: str = ""
    log: list[tuple[Any, ...]] = field(default_factory=list)

    def metastore(self, *arguments: object) -> Any:
        return self._run("metastore", arguments)

    def zookeeper(self, *arguments: object) -> Any:
        return self._run("zookeeper", arguments)

    @contextmanager
    def _run(self, name: str, arguments: tuple[object, ...]) -> Iterator[Server]:
        if name == self.broken:
            raise EngineError(f"{name} did not start", next_step="look at its log")
        self.log.append(("start", name, *arguments))
        try:
            yield Server()
        finally:
            self.log.append(("end", name))

    def run(self, *options: str, **more: Any) -> Any:
        return run("local", *options, run_metastore=self.metastore, run_zookeeper=self.zookeeper, **more)


def test_both_servers_run_until_it_ends_and_one_line_says_where(tmp_path: Path) -> None:
    servers = Servers()
    folder = tmp_path / "a b"
    result = servers.run(
        "--dir", str(folder), "--metastore-port", "5", "--zookeeper-port", "6", "--warehouse", "file:/w"
    )
    assert result.exit_code == 0, result.stderr
    event = json.loads(result.stdout)
    assert event.pop("pid") > 0
    config = folder / "iceberg-hms.toml"
    assert event == {
        "event": "listening",
        "config": str(config),
        "metastore_uri": "thrift://127.0.0.1:1234",
        "warehouse": 'file:/a "quoted" b',
        "zookeeper": "127.0.0.1:2181",
        "directory": str(folder),
    }
    assert f"in another shell: export ICEBERG_HMS_CONFIG='{config}'\n" in result.stderr
    assert servers.log == [
        ("start", "metastore", folder / "metastore", 5, "file:/w"),
        ("start", "zookeeper", folder / "zookeeper", 6),
        ("end", "zookeeper"),
        ("end", "metastore"),
    ]


def test_clients_find_the_servers_by_the_file_that_it_writes(tmp_path: Path) -> None:
    Servers().run("--dir", str(tmp_path / "a"))
    found = Settings.load({}, file=tmp_path / "a" / "iceberg-hms.toml")
    assert (found.metastore_uri, found.warehouse) == ("thrift://127.0.0.1:1234", 'file:/a "quoted" b')
    assert found.zookeeper == "127.0.0.1:2181"
    Servers().run("--dir", str(tmp_path / "a"), "--no-zookeeper")
    assert Settings.load({}, file=tmp_path / "a" / "iceberg-hms.toml").zookeeper == ""


def test_the_servers_run_while_it_waits(tmp_path: Path) -> None:
    servers = Servers()
    seen: list[tuple[Any, ...]] = []
    servers.run("--dir", str(tmp_path), during=lambda: seen.extend(servers.log))
    assert [step[:2] for step in seen] == [("start", "metastore"), ("start", "zookeeper")]


def test_zookeeper_can_be_left_out(tmp_path: Path) -> None:
    servers = Servers()
    result = servers.run("--dir", str(tmp_path), "--no-zookeeper")
    assert json.loads(result.stdout)["zookeeper"] is None
    assert [step[1] for step in servers.log] == ["metastore", "metastore"]


def test_the_metastore_is_ended_when_zookeeper_does_not_start() -> None:
    servers = Servers(broken="zookeeper")
    result = servers.run()
    assert (result.exit_code, result.stdout) == (1, "")
    assert [step[:2] for step in servers.log] == [("start", "metastore"), ("end", "metastore")]


def test_a_server_that_does_not_start_is_two_lines_and_nothing_is_announced() -> None:
    servers = Servers(broken="metastore")
    result = servers.run()
    assert (result.exit_code, result.stdout, servers.log) == (1, "", [])
    assert result.stderr.endswith("error: metastore did not start\nnext: look at its log\n")
