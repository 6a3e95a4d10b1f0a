"""However a run ends, `kill -9` and Ctrl-C included, its servers end too.

A variable in the environment marks all processes of a run; children inherit it whatever their group or session.
The tests wait for their ends with pidfds: Linux alone.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
MARK = "TEST_OF_ICEBERG_HMS"
#: How long servers may take to notice that their process is gone; seconds.
END_TIMEOUT = 30.0

SERVERS = """
import sys
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.local.zookeeper import LocalZooKeeper
with LocalMetastore(sys.argv[1] + "/hms"), LocalZooKeeper(sys.argv[1] + "/zk"):
    print("ready", flush=True)
    sys.stdin.read()
"""
SPARK = """
import sys
import iceberg_hms.spark
from iceberg_hms.local.metastore import LocalMetastore
from pyspark.sql import SparkSession
with LocalMetastore(sys.argv[1] + "/hms") as metastore:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    builder = iceberg_hms.spark.configure(builder, metastore_uri=metastore.uri, warehouse=metastore.warehouse)
    spark = builder.getOrCreate()
    spark.sql("SHOW DATABASES").collect()
    print("ready", flush=True)
    sys.stdin.read()
"""


def processes_of(mark: str) -> dict[int, str]:
    """Process id -> command line, of every living process of a run."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if command:  # A zombie has none: it is gone but for its parent's look at it.
                    found[int(folder.name)] = command
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def left_after(mark: str, seconds: float) -> dict[int, str]:
    """The processes of a run that still exist after this many seconds."""
    deadline = monotonic() + seconds
    while (processes := processes_of(mark)) and monotonic() < deadline:
        with ExitStack() as stack:
            for pid in processes:
                try:
                    descriptor = os.pidfd_open(pid)
                except ProcessLookupError:
                    continue
                stack.callback(os.close, descriptor)
                # Readable when the process has ended.
                select.select([descriptor], [], [], max(0.0, deadline - monotonic()))
    return processes


def slow(value: object) -> object:
    """A parameter that `make test-all` runs alone: each starts two JVMs."""
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.fixture
def mark() -> Iterator[str]:
    mark = uuid.uuid4().hex
    yield mark
    for pid in processes_of(mark):
        os.kill(pid, signal.SIGKILL)


def start(mark: str, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for_output(process: subprocess.Popen[str], word: str) -> list[str]:
    """Read lines until one has the word in it; the test's own timeout bounds it."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError(f"the process ended without {word!r}:\n{''.join(lines)}")


def wait_for_java(process: subprocess.Popen[str], mark: str, count: int) -> None:
    """Read the run's output until it has so many JVMs."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if java_of(mark) >= count:
            return
    raise AssertionError(f"the process ended before it had {count} JVMs:\n{''.join(lines)}")


def java_of(mark: str) -> int:
    return sum("java" in command.split(" ")[0] for command in processes_of(mark).values())


def end(process: subprocess.Popen[str]) -> None:
    """Close the pipes and wait for the process, so that neither a zombie nor an open file reaches the next test."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait(END_TIMEOUT)


@pytest.mark.parametrize("how", [signal.SIGKILL, slow(signal.SIGTERM), slow(signal.SIGINT)])
def test_the_local_servers_end_with_their_process(mark: str, tmp_path: Path, how: signal.Signals) -> None:
    process = start(mark, sys.executable, "-c", SERVERS, str(tmp_path))
    wait_for_output(process, "ready")
    assert java_of(mark) == 2
    process.send_signal(how)
    assert left_after(mark, END_TIMEOUT) == {}
    end(process)


def test_spark_with_its_embedded_server_ends_with_its_process(mark: str, tmp_path: Path) -> None:
    process = start(mark, sys.executable, "-c", SPARK, str(tmp_path))
    wait_for_output(process, "ready")
    assert java_of(mark) == 2
    process.kill()
    assert left_after(mark, END_TIMEOUT) == {}
    end(process)


@pytest.mark.parametrize("how", [slow(signal.SIGKILL), slow(signal.SIGTERM), signal.SIGINT])
def test_iceberg_hms_local_ends_with_its_process(mark: str, tmp_path: Path, how: signal.Signals) -> None:
    process = start(mark, str(BIN / "iceberg-hms"), "local", "--dir", str(tmp_path / "a b"))
    wait_for_output(process, '"listening"')
    assert java_of(mark) == 2
    process.send_signal(how)
    assert left_after(mark, END_TIMEOUT) == {}
    end(process)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_demo_leaves_nothing_behind(mark: str, how: signal.Signals) -> None:
    process = start(mark, str(BIN / "iceberg-hms"), "demo")
    # The metastore, ZooKeeper and Spark: it is in the middle of its work.
    wait_for_java(process, mark, 3)
    process.send_signal(how)
    assert left_after(mark, END_TIMEOUT) == {}
    end(process)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_test_run_leaves_nothing_behind(mark: str, tmp_path: Path, how: signal.Signals) -> None:
    test = tmp_path / "test_endless.py"
    test.write_text(
        "import sys\n\n\ndef test_endless(metastore, capfd):\n"
        "    with capfd.disabled():\n        print('ready', flush=True)\n        sys.__stdin__.read()\n",
        encoding="utf-8",
    )
    arguments = ["--confcutdir", str(ROOT), "-p", "integration.servers", "--rootdir", str(ROOT), "-s"]
    process = start(mark, sys.executable, "-m", "pytest", *arguments, str(test))
    wait_for_output(process, "ready")
    assert java_of(mark) >= 1
    process.send_signal(how)
    assert left_after(mark, END_TIMEOUT) == {}
    end(process)


@pytest.mark.slow
def test_the_demo_ends_when_make_is_killed(mark: str) -> None:
    process = start(mark, "make", "demo")
    wait_for_java(process, mark, 3)
    process.kill()
    assert left_after(mark, END_TIMEOUT) == {}
    end(process)


def test_a_process_that_does_stay_is_found(mark: str) -> None:
    # In a session of its own, and without the pipe: what a server that forgot its parent looks like.
    code = "import subprocess; subprocess.Popen(['sleep', '300'], start_new_session=True, stdin=subprocess.DEVNULL)"
    process = start(mark, sys.executable, "-c", code)
    process.wait(END_TIMEOUT)
    assert ["sleep 300" in command for command in left_after(mark, 0.5).values()] == [True]
    end(process)
