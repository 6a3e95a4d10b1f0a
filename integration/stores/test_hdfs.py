"""The driver for HDFS keeps the contract of the Files port on a real cluster, and through a failover."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hdfs_native import Client

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Files
from iceberg_hms.errors import (
    CorruptFile,
    FileAlreadyExists,
    InvalidInput,
    MissingFile,
    StorageError,
    StorageRefused,
)
from iceberg_hms.storage.drivers import remote_drivers
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.hdfs.driver import HdfsDriver
from iceberg_hms.storage.retries import Retries
from iceberg_hms.testing.contracts.files import CHECKS
from integration.engines.site_files import write_site
from integration.stores.hdfs import NAME_SERVICE, LocalHdfs
from tests.forking import said_by

pytestmark = pytest.mark.slow

Check = Callable[[Files, str], None]
_folders = (f"folder-{number}" for number in itertools.count())


def settings(server: LocalHdfs, **more: object) -> Settings:
    return Settings.load({"hdfs_config_dir": str(server.config_dir), **more}, environ={})


def files_of(server: LocalHdfs) -> RoutedFiles:
    return RoutedFiles(remote_drivers(settings(server)))


@pytest.fixture(scope="module")
def files(hdfs: LocalHdfs) -> RoutedFiles:
    return files_of(hdfs)


@pytest.fixture
def root(hdfs: LocalHdfs) -> str:
    """An empty folder."""
    return f"{hdfs.address}/{next(_folders)}"


def names_in(server: LocalHdfs, folder: str) -> list[str]:
    client = Client(server.address, None, str(server.config_dir))
    return sorted(each.path.rpartition("/")[2] for each in client.list_status(folder.removeprefix(server.address)))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_one_name_node_keeps_the_contract(check: Check, files: RoutedFiles, root: str) -> None:
    check(files, root)


def test_a_pair_keeps_the_contract_before_and_after_a_failover(hdfs_pair: LocalHdfs) -> None:
    files = files_of(hdfs_pair)
    for _ in range(2):
        for check in CHECKS:
            check(files, f"{hdfs_pair.address}/{next(_folders)}")
        hdfs_pair.fail_over()


def test_a_location_without_a_cluster_is_on_that_of_the_settings(hdfs: LocalHdfs, root: str) -> None:
    files_of(hdfs).write(f"{root}/x", b"one")
    path = root.removeprefix(hdfs.address)
    assert files_of(hdfs).read(f"hdfs://{path}/x") == b"one"
    host, port = hdfs.address.removeprefix("hdfs://").split(":")
    by_host = Settings.load({"hdfs_host": host, "hdfs_port": int(port)}, environ={})
    assert RoutedFiles(remote_drivers(by_host)).read(f"hdfs://{path}/x") == b"one"


def test_a_folder_is_never_deleted_nor_read(hdfs: LocalHdfs, files: RoutedFiles, root: str) -> None:
    files.write(f"{root}/folder/x", b"")
    files.delete(f"{root}/folder/x")
    for call in (files.delete, files.read, files.length, files.open):
        with pytest.raises(CorruptFile, match="it is a folder"):
            call(f"{root}/folder")
    with pytest.raises(FileAlreadyExists):
        files.write(f"{root}/folder", b"")
    assert names_in(hdfs, root) == ["folder"]


def test_a_file_below_a_file_is_missing_and_cannot_be_written(files: RoutedFiles, root: str) -> None:
    files.write(f"{root}/x", b"")
    with pytest.raises(MissingFile):
        files.read(f"{root}/x/y")
    with pytest.raises(MissingFile):
        files.length(f"{root}/x/y")
    assert files.delete(f"{root}/x/y") is False
    with pytest.raises(StorageRefused, match="is a file"):
        files.write(f"{root}/x/y", b"")
    assert list(files.list_files(f"{root}/x")) == []


def test_a_name_that_is_taken_leaves_nothing_beside_it(hdfs: LocalHdfs, files: RoutedFiles, root: str) -> None:
    files.write(f"{root}/x", b"first")
    with pytest.raises(FileAlreadyExists):
        files.write(f"{root}/x", b"second")
    assert names_in(hdfs, root) == ["x"]


@pytest.mark.parametrize("name", ["a:b", "long" * 64])
def test_a_name_that_hdfs_does_not_have_is_refused(name: str, files: RoutedFiles, root: str) -> None:
    with pytest.raises(InvalidInput, match="choose another name"):
        files.write(f"{root}/{name}", b"")


def test_a_user_without_permission_is_refused(hdfs: LocalHdfs, root: str) -> None:
    files_of(hdfs).write(f"{root}/x", b"")
    Client(hdfs.address).set_permission(root.removeprefix(hdfs.address), 0o700)
    said = said_by(
        "import sys\n"
        "from iceberg_hms.config import Settings\n"
        "from iceberg_hms.errors import StorageRefused\n"
        "from iceberg_hms.storage.drivers import remote_drivers\n"
        "from iceberg_hms.storage.files import RoutedFiles\n"
        "files = RoutedFiles(remote_drivers(Settings.load({'hdfs_user': 'alice'}, environ={})))\n"
        "location = sys.argv[1]\n"
        "calls = [files.read, files.delete, lambda at: files.write(at + 'y', b''),"
        " lambda at: list(files.list_files(at.rpartition('/')[0]))]\n"
        "for call in calls:\n"
        "    try:\n"
        "        call(location)\n"
        "    except StorageRefused as error:\n"
        "        print('user=alice' in str(error), 'hdfs.user' in error.next_step, 'at org.apache' in str(error))\n",
        f"{root}/x",
    )
    assert said.splitlines() == ["True True False"] * 4


def test_a_forked_child_gets_an_error_and_does_not_hang(hdfs: LocalHdfs, root: str) -> None:
    said = said_by(
        "import os, sys\n"
        "from iceberg_hms.config import Settings\n"
        "from iceberg_hms.storage.drivers import remote_drivers\n"
        "from iceberg_hms.storage.files import RoutedFiles\n"
        "files = RoutedFiles(remote_drivers(Settings.load({}, environ={})))\n"
        "files.write(sys.argv[1], b'one')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        files.read(sys.argv[1])\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, 'spawn' in str(error), flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(files.read(sys.argv[1]))\n",
        f"{root}/x",
    )
    assert said.splitlines() == ["StorageRefused True", "b'one'"]


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_another_name_node_is_asked_when_one_hangs(hdfs: LocalHdfs, root: str, silent: int, tmp_path: Path) -> None:
    files_of(hdfs).write(f"{root}/x", b"one")
    prefix = f"dfs.namenode.rpc-address.{NAME_SERVICE}"
    site = {
        f"dfs.ha.namenodes.{NAME_SERVICE}": "nn1,nn2",
        f"{prefix}.nn1": f"127.0.0.1:{silent}",
        f"{prefix}.nn2": hdfs.address.removeprefix("hdfs://"),
    }
    write_site(tmp_path / "hdfs-site.xml", site)
    driver = HdfsDriver(Settings.load({"hdfs_config_dir": str(tmp_path)}, environ={}), SYSTEM_CLOCK, call_seconds=0.5)
    files = RoutedFiles({"hdfs": lambda: (driver, Retries(2))})
    assert files.read(f"hdfs://{NAME_SERVICE}{root.removeprefix(hdfs.address)}/x") == b"one"


def test_files_on_mounts_are_those_of_the_cluster(hdfs: LocalHdfs, root: str, tmp_path: Path) -> None:
    site = {
        "fs.viewfs.mounttable.mounts.link./data": root,
        "fs.viewfs.mounttable.mounts.linkFallback": f"{hdfs.address}/",
    }
    write_site(tmp_path / "core-site.xml", site)
    files = RoutedFiles(remote_drivers(Settings.load({"hdfs_config_dir": str(tmp_path)}, environ={})))
    files.write("viewfs://mounts/data/in/x", b"one")
    assert files_of(hdfs).read(f"{root}/in/x") == b"one"
    assert [each.location for each in files.list_files("viewfs://mounts/data")] == ["viewfs://mounts/data/in/x"]


def test_a_file_is_whole_or_not_there_when_no_data_node_runs(tmp_path: Path) -> None:
    with LocalHdfs(tmp_path) as server:
        files = RoutedFiles({"hdfs": lambda: (HdfsDriver(settings(server), SYSTEM_CLOCK, call_seconds=2.0), Retries())})
        files.write(f"{server.address}/in/old", b"old")
        server.stop_data_nodes()
        with pytest.raises(StorageError, match="try again"):
            files.read(f"{server.address}/in/old")
        with pytest.raises(StorageError, match="try again"):
            files.write(f"{server.address}/in/new", b"new")
        assert names_in(server, f"{server.address}/in") == ["old"]
        server.start_data_nodes()
        files.write(f"{server.address}/in/new", b"new")
        assert files.read(f"{server.address}/in/old") == b"old"
