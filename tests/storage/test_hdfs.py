"""What the driver of HDFS does without a cluster: settings, errors, its user, forks, a name node that hangs."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.errors import (
    CorruptFile,
    FileAlreadyExists,
    IcebergHmsError,
    InvalidInput,
    MissingFile,
    ResourceExhausted,
    StorageError,
    StorageRefused,
)
from iceberg_hms.format.locations import parse
from iceberg_hms.storage.drivers import remote_drivers
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.hdfs import event_loop
from iceberg_hms.storage.hdfs.driver import HdfsDriver
from iceberg_hms.storage.hdfs.failures import as_error
from iceberg_hms.storage.hdfs.site import HdfsSite
from iceberg_hms.storage.hdfs.user import ProcessUser
from tests.forking import said_by

CORE = """<?xml version="1.0"?>
<configuration>
  <property><name> fs.defaultFS </name><value> hdfs://pair/ </value></property>
</configuration>"""
HDFS = """<configuration>
  <property><name>dfs.ha.namenodes.pair</name><value>nn1,nn2,nn3</value></property>
  <property><name>dfs.blocksize</name><value>1m</value></property>
</configuration>"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A folder with the settings of a cluster with a name service."""
    (tmp_path / "core-site.xml").write_text(CORE, encoding="utf-8")
    (tmp_path / "hdfs-site.xml").write_text(HDFS, encoding="utf-8")
    return tmp_path


def site(environ: dict[str, str] | None = None, **settings: object) -> HdfsSite:
    return HdfsSite(Settings.load(settings, environ={}), environ or {})


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("hdfs://nn/x", "hdfs://nn:8020"),
        ("hdfs://nn:9000/x", "hdfs://nn:9000"),
        ("hdfs://[::1]/x", "hdfs://[::1]:8020"),
        ("hdfs://[::1]:9000/x", "hdfs://[::1]:9000"),
        ("hdfs://pair/x", "hdfs://pair"),
        ("hdfs:///x", "hdfs://pair"),
        ("viewfs://mounts/x", "viewfs://mounts"),
    ],
)
def test_a_location_s_cluster_is_found_by_the_settings_of_hadoop(location: str, url: str, conf: Path) -> None:
    assert site(hdfs_config_dir=str(conf)).url(parse(location)) == url


def test_the_host_of_the_settings_wins_over_hadoop_s_default(conf: Path) -> None:
    assert site(hdfs_host="nn", hdfs_port=9_000).url(parse("hdfs:///x")) == "hdfs://nn:9000"
    both = site(hdfs_host="nn", hdfs_config_dir=str(conf))
    assert both.url(parse("hdfs:///x")) == "hdfs://nn:8020"
    assert site(hdfs_host="pair", hdfs_config_dir=str(conf)).url(parse("hdfs:///x")) == "hdfs://pair"


@pytest.mark.parametrize("location", ["hdfs:///x", "viewfs:///x"])
def test_a_location_without_a_cluster_is_refused_where_no_setting_names_one(location: str, conf: Path) -> None:
    (conf / "core-site.xml").unlink()
    with pytest.raises(InvalidInput, match=r"names no (hdfs|viewfs) filesystem"):
        site(hdfs_config_dir=str(conf)).url(parse(location))


def test_the_folder_of_settings_is_found_as_hadoop_finds_it(conf: Path, tmp_path: Path) -> None:
    assert site().folder is None
    assert site({"HADOOP_CONF_DIR": str(conf), "HADOOP_HOME": "/none"}).url(parse("hdfs:///x")) == "hdfs://pair"
    assert site({"HADOOP_HOME": "/opt/hadoop"}).folder == "/opt/hadoop/etc/hadoop"
    assert site({"HADOOP_CONF_DIR": "/none"}, hdfs_config_dir=str(conf)).folder == str(conf)
    with pytest.raises(StorageRefused, match="There is no folder") as caught:
        site(hdfs_config_dir=str(tmp_path / "absent"))
    assert "hdfs.config-dir" in caught.value.next_step


def test_a_file_of_settings_that_is_broken_is_reported(conf: Path) -> None:
    (conf / "hdfs-site.xml").write_text("<configuration>", encoding="utf-8")
    with pytest.raises(StorageRefused, match=r"Cannot read .*hdfs-site\.xml"):
        site(hdfs_config_dir=str(conf))


def test_a_client_can_begin_with_each_name_node(conf: Path) -> None:
    found = site(hdfs_config_dir=str(conf))
    assert [found.for_client("hdfs://pair", turn)["dfs.ha.namenodes.pair"] for turn in range(4)] == [
        "nn1,nn2,nn3",
        "nn2,nn3,nn1",
        "nn3,nn1,nn2",
        "nn1,nn2,nn3",
    ]


@pytest.mark.parametrize(
    ("url", "failovers"), [("hdfs://pair", "2"), ("viewfs://mounts", "2"), ("hdfs://nn:8020", "0")]
)
def test_a_client_asks_each_name_node_once(url: str, failovers: str, conf: Path) -> None:
    assert site(hdfs_config_dir=str(conf)).for_client(url, 0)["dfs.client.failover.max.attempts"] == failovers


class PanicException(BaseException):
    """As PyO3 names it."""


def test_a_panic_of_the_library_is_a_failure_like_others() -> None:
    async def panic() -> None:
        raise PanicException("no reactor")

    with pytest.raises(RuntimeError, match="no reactor"):
        event_loop.run(panic(), 1.0)


LOCATION = "hdfs://nn/in/x"
STACK = r"\n\tat org.apache.hadoop.ipc.Server$Handler.run(Server.java:3198)\n"


def answer(exception: str, message: str) -> RuntimeError:
    """As hdfs-native raises what a name node answers."""
    return RuntimeError(f'RPCError("{exception}", "{message}{STACK}")')


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError("File does not exist: /in/x\n\tat org.apache"), MissingFile),
        (FileNotFoundError("/in/x"), MissingFile),
        (FileNotFoundError("Path is not a file: /in/x\n\tat org.apache"), CorruptFile),
        (FileNotFoundError("File does not exist: /Path is not a file: /x"), MissingFile),
        (FileExistsError("/in/x for client 127.0.0.1 already exists"), FileAlreadyExists),
        (answer("java.io.IOException", "Source /in/y and destination /in/x must both be directories"),
         FileAlreadyExists),
        (answer("java.io.IOException", "No lease on /must both be directories"), StorageError),
        (answer("org.apache.hadoop.security.AccessControlException", "/in (is not a directory)"), MissingFile),
        (answer("org.apache.hadoop.fs.ParentNotDirectoryException", "/in (is not a directory)"), MissingFile),
        (answer("org.apache.hadoop.security.AccessControlException",
                r"Permission denied: user=a, access=READ, inode=\"/in (is not a directory)\":root:root:drwx------"),
         StorageRefused),
        (answer("org.apache.hadoop.fs.InvalidPathException", "Invalid path name /in/a:b"), InvalidInput),
        (answer("org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException", "too long"),
         InvalidInput),
        (answer("org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", "The NameSpace quota"), StorageRefused),
        (answer("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot create file"), StorageError),
        (answer("java.io.IOException", "/in/(os error 24)"), StorageError),
        (RuntimeError('InvalidArgument("No NameNode hosts found")'), StorageRefused),
        (RuntimeError('SASLError("no ticket")'), StorageRefused),
        (OSError("Connection refused (os error 111)"), StorageError),
        (OSError("Too many open files (os error 24)"), ResourceExhausted),
        (RuntimeError('DataTransferError("All DataNodes failed")'), StorageError),
        (TimeoutError(), StorageError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value)[:60],
)  # fmt: skip
def test_the_kind_of_an_error_counts_and_no_name_in_it(error: Exception, expected: type[IcebergHmsError]) -> None:
    mapped = as_error(LOCATION, error)
    assert type(mapped) is expected
    assert LOCATION in str(mapped)
    assert "org.apache" not in str(mapped)


def test_a_process_works_for_one_user() -> None:
    environ: dict[str, str] = {}
    user = ProcessUser(environ)
    user.become("alice")
    user.become("alice")
    assert environ == {"HADOOP_USER_NAME": "alice"}
    with pytest.raises(StorageRefused, match="is bob for this warehouse, and alice by another"):
        user.become("bob")
    assert environ == {"HADOOP_USER_NAME": "alice"}


def test_a_warehouse_without_a_user_takes_no_other_one_s() -> None:
    user = ProcessUser({})
    user.become("alice")
    with pytest.raises(StorageRefused, match="that of the operating system for this warehouse, and alice"):
        user.become("")
    environ: dict[str, str] = {}
    user = ProcessUser(environ)
    user.become("")
    with pytest.raises(StorageRefused, match="is alice for this warehouse, and that of the operating system"):
        user.become("alice")
    assert environ == {}


def test_the_user_of_the_environment_is_that_of_a_warehouse_without_one() -> None:
    user = ProcessUser({"HADOOP_USER_NAME": "carol"})
    with pytest.raises(StorageRefused, match="carol by HADOOP_USER_NAME"):
        user.become("alice")
    user.become("")
    user.become("carol")
    with pytest.raises(StorageRefused):
        user.become("alice")


@pytest.mark.parametrize("scheme", ["hdfs", "viewfs"])
def test_a_package_that_is_not_installed_is_named(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    monkeypatch.delitem(sys.modules, "iceberg_hms.storage.hdfs.driver")
    files = RoutedFiles(remote_drivers(Settings.load({}, environ={})))
    with pytest.raises(StorageRefused, match="needs the package hdfs_native") as caught:
        files.read(f"{scheme}://nn/x")
    assert caught.value.next_step == "pip install 'iceberg-hms[hdfs]'"


def test_a_whole_filesystem_is_no_file() -> None:
    files = RoutedFiles(remote_drivers(Settings.load({}, environ={})))
    for call in (files.read, files.delete, lambda at: files.write(at, b""), lambda at: list(files.list_files(at))):
        with pytest.raises(InvalidInput):
            call("hdfs://nn/")


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_a_name_node_that_hangs_is_given_up(silent: int) -> None:
    driver = HdfsDriver(Settings.load({}, environ={}), SYSTEM_CLOCK, call_seconds=0.2)
    for call in (driver.length, driver.delete, lambda at: driver.create(at, b"x")):
        with pytest.raises(StorageError, match="did not answer in time"):
            call(f"hdfs://127.0.0.1:{silent}/x")


CHILD = """
import os, sys
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.errors import StorageError
from iceberg_hms.storage.hdfs.driver import HdfsDriver

driver = HdfsDriver(Settings.load({}, environ={}), SYSTEM_CLOCK, call_seconds=0.2)

def ask(where):
    try:
        driver.length(f"hdfs://{where}:{sys.argv[1]}/x")
    except StorageError as error:
        print(type(error).__name__, "spawn" in error.next_step, flush=True)

def fork(*places):
    child = os.fork()
    if child == 0:
        for where in places:
            ask(where)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

fork("127.0.0.1")
ask("127.0.0.1")
fork("127.0.0.1", "localhost")
"""


def test_a_child_that_was_forked_after_its_parent_used_hdfs_is_refused(silent: int) -> None:
    lines = said_by(CHILD, str(silent)).splitlines()
    assert lines == ["StorageError False", "StorageError False", "StorageRefused True", "StorageRefused True"]
