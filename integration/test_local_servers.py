"""The local servers: where they listen, what they leave where, how they end."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from iceberg_hms.errors import EngineError, InvalidInput
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.local.zookeeper import LocalZooKeeper
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.namespaces import LOCATION, HmsNamespaces

ROOT = Path(__file__).parent.parent
END_TIMEOUT = 30.0

SERVERS = """
import os, sys
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.local.zookeeper import LocalZooKeeper
with LocalMetastore(sys.argv[1] + "/hms") as metastore, LocalZooKeeper(sys.argv[1] + "/zk") as zookeeper:
    child = os.fork()
    if child == 0:
        os.close(1)
        os.read(0, 1)
        os._exit(0)
    print(metastore.pid, zookeeper.pid, child, flush=True)
    sys.stdin.read()
"""


def listening(pid: int) -> set[str]:
    """Addresses that a process listens on, from /proc."""
    inodes = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    found = set()
    for table, loopback in (("tcp", "0100007F"), ("tcp6", "0000000000000000FFFF00000100007F")):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                address = fields[1].split(":")[0]
                found.add("loopback" if address == loopback else address)
    return found


def test_servers_listen_on_loopback_alone(metastore: LocalMetastore, zookeeper: LocalZooKeeper) -> None:
    assert listening(metastore.pid or 0) == {"loopback"}
    assert listening(zookeeper.pid or 0) == {"loopback"}
    assert metastore.uri == f"thrift://127.0.0.1:{metastore.port}"
    assert zookeeper.hosts == f"127.0.0.1:{zookeeper.port}"


def test_zookeeper_keeps_what_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "zoo keeper"
    for attempt in range(2):
        with LocalZooKeeper(folder) as server:
            client = KazooClient(server.hosts)
            client.start(timeout=30)
            if attempt == 0:
                client.create("/kept", b"value")
            assert client.get("/kept")[0] == b"value"
            client.stop()
            client.close()


@pytest.mark.slow
def test_a_metastore_finds_its_tables_again_and_writes_nothing_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    server = LocalMetastore(tmp_path / "a b" / "hms", warehouse=f"file:{tmp_path}/the warehouse")
    with server:
        pool = ClientPool([server.uri])
        HmsNamespaces(pool).create("kept", {})
        pool.close()
    with server:
        pool = ClientPool([server.uri])
        assert HmsNamespaces(pool).load("kept")[LOCATION] == f"file:{tmp_path}/the warehouse/kept.db"
        pool.close()
    assert list(elsewhere.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    assert server.log.exists()


def test_a_started_server_is_started_once_and_stopped_often(tmp_path: Path) -> None:
    server = LocalZooKeeper(tmp_path / "zk")
    pid = server.start().pid
    assert server.start().pid == pid
    server.stop()
    server.stop()
    assert server.pid is None


def test_the_error_says_that_the_port_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for make in (LocalMetastore, LocalZooKeeper):
            server: Any = make(tmp_path / make.__name__, port=port)
            with pytest.raises(EngineError, match=f"using port {port}"):
                server.start()
            assert server.pid is None


def test_the_error_says_that_the_folder_is_in_use(metastore: LocalMetastore) -> None:
    with pytest.raises(EngineError, match="did not start"):
        LocalMetastore(metastore.log.parent).start()


def test_a_folder_that_derby_cannot_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=";"):
        LocalMetastore(tmp_path / "a;b")
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match="Cannot make the folder"):
        LocalZooKeeper(tmp_path / "file" / "zk")


def test_servers_end_with_a_killed_process_though_its_forked_child_lives(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVERS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    metastore, zookeeper, child = (int(number) for number in line.split())
    descriptors = {pid: os.pidfd_open(pid) for pid in (metastore, zookeeper, child)}
    process.kill()
    process.wait(END_TIMEOUT)
    for pid in (metastore, zookeeper):
        ended, _, _ = select.select([descriptors[pid]], [], [], END_TIMEOUT)
        assert ended, f"{pid} is still there"
    still_there, _, _ = select.select([descriptors[child]], [], [], 0)
    assert not still_there, "the forked child should have outlived its parent here"
    assert process.stdin is not None
    process.stdin.close()
    ended, _, _ = select.select([descriptors[child]], [], [], END_TIMEOUT)
    assert ended
    process.stdout.close()
    for descriptor in descriptors.values():
        os.close(descriptor)
