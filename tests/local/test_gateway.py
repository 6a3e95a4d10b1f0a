from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from iceberg_hms.clock import SystemClock
from iceberg_hms.errors import EngineError, InvalidInput
from iceberg_hms.local import gateway
from iceberg_hms.local.gateway import (
    JavaGateway,
    class_path,
    describe_java_error,
    find_java,
    prepare_directory,
    spark_jars,
)
from tests.local import fake_java

ROOT = Path(__file__).parent.parent.parent
END_TIMEOUT = 30.0


class Impatient(SystemClock):
    """Every look at the clock is a minute later."""

    def __init__(self) -> None:
        self.time = 0.0

    def monotonic(self) -> float:
        self.time += 60.0
        return self.time


def test_pysparks_jars_bring_all_that_the_servers_need() -> None:
    jars = {jar.name.rsplit("-", 1)[0] for jar in spark_jars().glob("*.jar")}
    assert {"hive-metastore", "zookeeper", "derby", "py4j", "HikariCP"} <= jars


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EngineError, match=r"iceberg-hms\[spark\]"):
        spark_jars()


def test_the_class_path_is_the_wheels_jars_or_what_is_named_and_py4j(tmp_path: Path) -> None:
    assert class_path() == f"{spark_jars()}/*"
    named = class_path([tmp_path / "a b", tmp_path / "jars" / "*"]).split(os.pathsep)
    assert named[:2] == [f"{tmp_path}/a b", f"{tmp_path}/jars/*"]
    (py4j,) = named[2:]
    assert Path(py4j).is_relative_to(spark_jars())
    assert Path(py4j).name.startswith("py4j-")


def test_a_jvm_gets_the_classes_that_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = "print(*sys.argv, sep='|', file=sys.stderr)\n" + fake_java.ANNOUNCE + fake_java.UNTIL_THE_PIPE_BREAKS
    fake_java.install(monkeypatch, tmp_path, code)
    with JavaGateway(tmp_path, "server", classes=[tmp_path / "conf"]) as server:
        told = server.log_tail()
    assert f"|-classpath|{class_path([tmp_path / 'conf'])}|" in told


def test_java_home_wins_over_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert Path(find_java()).name == "java"
    fake_java.install(monkeypatch, tmp_path, "")
    assert find_java() == str(tmp_path / "java home" / "bin" / "java")


def test_the_error_for_a_missing_java_names_where_it_searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match="JAVA_HOME"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="on PATH"):
        find_java()


def test_a_folder_is_made_with_its_parents_and_may_have_spaces(tmp_path: Path) -> None:
    made = prepare_directory(tmp_path / "a b" / "c")
    assert made.is_dir()
    assert prepare_directory(made) == made


@pytest.mark.parametrize("name", ["a;b", "a:b", "a\nb"])
def test_a_path_that_derby_or_the_class_path_cannot_carry_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        prepare_directory(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match="Cannot make the folder"):
        prepare_directory(tmp_path / "file" / "x")


def test_a_java_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java.install(monkeypatch, tmp_path, "sys.exit('UnsupportedClassVersionError: this is Java 8')")
    with pytest.raises(EngineError, match="UnsupportedClassVersionError: this is Java 8"):
        JavaGateway(tmp_path, "server")


def test_a_java_that_is_no_program_raises_engine_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java.install(monkeypatch, tmp_path, "")
    (tmp_path / "java home" / "bin" / "java").write_bytes(b"\x00\x01")
    with pytest.raises(EngineError, match="could not be started"):
        JavaGateway(tmp_path, "server")


def test_a_java_that_says_nothing_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java.install(monkeypatch, tmp_path, fake_java.UNTIL_THE_PIPE_BREAKS)
    with pytest.raises(EngineError, match="did not start in 60 s"):
        JavaGateway(tmp_path, "server", clock=Impatient())


def test_the_token_is_for_us_alone_and_does_not_stay_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java.install(monkeypatch, tmp_path, fake_java.GATEWAY + fake_java.UNTIL_THE_PIPE_BREAKS)
    with JavaGateway(tmp_path, "server") as server:
        assert server.is_alive()
        output = tmp_path / "server.out"
        assert stat.S_IMODE(output.stat().st_mode) == 0o600
        assert output.read_text() == ""
        assert server.jvm.java, "the gateway took the token"
        pid = server.pid
    assert not server.is_alive()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    server.stop()


def test_a_jvm_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gateway, "STOP_TIMEOUT_SECONDS", 0.2)
    fake_java.install(monkeypatch, tmp_path, fake_java.ANNOUNCE + fake_java.FOR_EVER)
    server = JavaGateway(tmp_path, "server")
    server.stop()
    assert not server.is_alive()


def test_stop_logs_a_jvm_that_survives_its_kill_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake_java.install(monkeypatch, tmp_path, fake_java.ANNOUNCE + fake_java.FOR_EVER)
    server = JavaGateway(tmp_path, "server")
    with monkeypatch.context() as patch:
        patch.setattr(gateway, "STOP_TIMEOUT_SECONDS", 0.01)
        patch.setattr(gateway, "KILL_TIMEOUT_SECONDS", 0.01)
        patch.setattr(subprocess.Popen, "kill", lambda process: None)
        server.stop()
        assert "is still there" in caplog.text
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    assert not server.is_alive()


def test_options_and_heap_are_passed_and_output_goes_to_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "print(*sys.argv, sep='|', file=sys.stderr)\n" + fake_java.ANNOUNCE + fake_java.UNTIL_THE_PIPE_BREAKS
    fake_java.install(monkeypatch, tmp_path, code)
    with JavaGateway(tmp_path, "server", heap_mb=77, options=["-Dx=a b"]) as server:
        told = server.log_tail()
    assert "|-Xmx77m|" in told
    assert "|-Dx=a b|" in told
    assert f"|{spark_jars()}/*|" in told
    assert capfd.readouterr() == ("", "")


KILLED = """
import os, sys
from pathlib import Path
from iceberg_hms.local.gateway import JavaGateway
server = JavaGateway(Path(sys.argv[1]), "server")
child = os.fork()
if child == 0:
    os.close(1)
    os.read(0, 1)
    os._exit(0)
print(server.pid, child, flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_jvm_ends_with_a_killed_process_though_a_forked_child_lives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java.install(monkeypatch, tmp_path, fake_java.ANNOUNCE + fake_java.UNTIL_THE_PIPE_BREAKS)
    go_on, end = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdin=go_on, stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    os.close(go_on)
    assert process.stdout is not None
    jvm, child = (int(number) for number in process.stdout.readline().split())
    process.stdout.close()
    process.wait(END_TIMEOUT)
    with os.fdopen(os.pidfd_open(child)) as forked:
        try:
            with os.fdopen(os.pidfd_open(jvm)) as server:
                assert select.select([server], [], [], END_TIMEOUT)[0], "the JVM is still there"
        except ProcessLookupError:
            pass
        assert not select.select([forked], [], [], 0)[0], "the child should have outlived its parent here"
        os.close(end)
        assert select.select([forked], [], [], END_TIMEOUT)[0]


class _Throwable:
    def __init__(self, text: str, cause: object = None) -> None:
        self._text, self._cause = text, cause

    def getCause(self) -> object:  # noqa: N802 - Java's name
        return self._cause

    def toString(self) -> str:  # noqa: N802 - Java's name
        return self._text


class _JavaError(Exception):
    def __init__(self, java_exception: object) -> None:
        self.java_exception = java_exception


class _Gone:
    def getCause(self) -> object:  # noqa: N802 - Java's name
        raise ConnectionRefusedError


def test_a_java_error_is_described_by_its_innermost_cause() -> None:
    deep = _Throwable("outer", _Throwable("middle", _Throwable("Address already in use")))
    assert describe_java_error(_JavaError(deep)) == "Address already in use"
    assert describe_java_error(ValueError("plain")) == "plain"
    assert describe_java_error(_JavaError(_Gone())) == "_JavaError"
