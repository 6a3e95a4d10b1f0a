"""A JVM of our own, driven from Python through py4j, that ends when this process ends.

The class path is what the pyspark wheel brings (Hive 2.3.10's metastore, ZooKeeper, Derby and py4j itself), or what the
caller names, with the wheel's py4j. The JVM's standard input is a pipe that only this process holds: when the process
is gone, by `kill -9` too, the pipe breaks and the JVM exits. Its output goes to files in a folder, never to a console.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import subprocess
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tenacity import Retrying, retry_if_exception_type, wait_fixed

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.errors import EngineError, InvalidInput

logger = logging.getLogger(__name__)

#: How long a JVM may take to say that it listens, and to end once asked; seconds.
START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 10.0
#: How long the system may take to end a killed JVM, whose memory it frees first; seconds.
KILL_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.02
_LOG_TAIL_LINES = 8
_MAX_CAUSES = 20

#: For a JVM that starts often and runs for minutes: with C1 alone and the serial collector it starts in half the time.
#: Without C2 the JVM gives compiled code 48 MB instead of 240, which a Spark session of ten minutes fills; from then on
#: it compiles nothing, links no method handle, and so cannot deserialize a task.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC", "-Xshare:auto")

#: log4j's configuration: what is written goes to standard error.
LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex
"""

_running: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


def _forget_pipes_in_forked_child() -> None:
    # A forked child that outlives us would hold the pipe open, and with it the JVM.
    for process in list(_running):
        if process.stdin is not None:
            os.close(process.stdin.fileno())
            process.stdin = None


os.register_at_fork(after_in_child=_forget_pipes_in_forked_child)


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait until a process ends. False if it does not end in time."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def package_folder(package: str, name: str) -> Path | None:
    """A folder of an installed package, which is not imported; None if there is none."""
    spec = importlib.util.find_spec(package)
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    return next((folder for place in places if (folder := Path(place) / name).is_dir()), None)


def spark_jars() -> Path:
    """The folder of jars in the installed pyspark package. Raises EngineError if pyspark is not installed."""
    jars = package_folder("pyspark", "jars")
    if jars is None:
        raise EngineError(
            "The pyspark package, whose jars are needed, is not installed", next_step="pip install 'iceberg-hms[spark]'"
        )
    return jars


def class_path(entries: Sequence[str | os.PathLike[str]] = ()) -> str:
    """The JVM's class path: these folders, jars and `folder/*` in order, and the wheel's py4j; by default all jars of
    the wheel. Raises EngineError if pyspark is not installed."""
    jars = spark_jars()
    if not entries:
        return str(jars / "*")
    return os.pathsep.join([*map(str, entries), *map(str, sorted(jars.glob("py4j-*.jar")))])


def find_java() -> str:
    """The `java` program: of JAVA_HOME if that is set, else on PATH. Raises EngineError if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on PATH"
        raise EngineError(f"No java program {where}", next_step="install Java 17 and put it on PATH, or set JAVA_HOME")
    return java


def prepare_directory(directory: str | os.PathLike[str]) -> Path:
    """Make a server's folder and return its absolute path. Raises InvalidInput for a path that Derby or the class path
    cannot carry, EngineError if it cannot be made."""
    path = Path(directory).expanduser().absolute()
    if any(mark in str(path) for mark in ";\n\r" + os.pathsep):
        raise InvalidInput(f"A local server's folder may not have ';', '{os.pathsep}' or line ends in its path: {path}")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(
            f"Cannot make the folder {path}: {error.strerror}", next_step="choose another folder"
        ) from error
    return path


def describe_java_error(error: BaseException) -> str:
    """One line for an error that came through py4j: Java's innermost cause, or the Python error itself."""
    cause = getattr(error, "java_exception", None)
    if cause is None:
        return str(error)
    try:
        for _ in range(_MAX_CAUSES):
            deeper = cause.getCause()
            if deeper is None:
                break
            cause = deeper
        return str(cause.toString())
    except Exception:  # noqa: BLE001 - the JVM may end while it is asked
        return type(error).__name__


class _NotStarted(EngineError):
    """The JVM runs, and has not said yet where it listens."""


class JavaGateway:
    """One JVM and the py4j connection to it.

    directory: existing folder; the JVM runs in it and writes `<name>.out` and `<name>.log` (log4j, errors) there.
    heap_mb: -Xmx in MiB. options: further JVM options. classes: see `class_path`.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        heap_mb: int = 512,
        options: Sequence[str] = (),
        classes: Sequence[str | os.PathLike[str]] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._output = directory / f"{name}.out"
        self.log = directory / f"{name}.log"
        classes_of_jvm = class_path(classes)
        log4j = directory / f"{name}-log4j2.properties"
        log4j.write_text(LOG4J, encoding="utf-8")
        command = [
            find_java(),
            f"-Xmx{heap_mb}m",
            *QUICK_START,
            f"-Dlog4j2.configurationFile={log4j.as_uri()}",
            f"-Djava.io.tmpdir={directory}",
            *options,
            "-classpath",
            classes_of_jvm,
            "py4j.GatewayServer",
            "--die-on-broken-pipe",
            "--enable-auth",
            "0",
        ]
        self._process = self._launch(command, directory)
        try:
            self._gateway = self._connect()
        except BaseException:
            self.stop()
            raise

    def _launch(self, command: list[str], directory: Path) -> subprocess.Popen[bytes]:
        # The access token passes through the output file: nobody else may read it.
        self._output.unlink(missing_ok=True)
        descriptor = os.open(self._output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as output, self.log.open("ab") as log:
                process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                    command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=log,
                    cwd=directory,
                    # Ctrl-C at a terminal goes to the group: the JVM must outlive it until we have stopped it in order.
                    process_group=0,
                )
        except OSError as error:
            raise EngineError(
                f"Java could not be started: {error}", next_step="install Java 17, or set JAVA_HOME"
            ) from error
        _running.add(process)
        return process

    def _connect(self) -> Any:
        from py4j.java_gateway import GatewayParameters
        from py4j.java_gateway import JavaGateway as Py4jGateway

        port, token = self._await_announcement()
        # The token was needed once; it does not stay on disk.
        os.truncate(self._output, 0)
        parameters = GatewayParameters(
            port=port,
            auth_token=token,
            auto_convert=True,
            # py4j's finalizers would call a JVM that has ended, and log errors. The few objects end with the JVM.
            enable_memory_management=False,
        )
        return Py4jGateway(gateway_parameters=parameters)

    def _await_announcement(self) -> tuple[int, str]:
        deadline = self._clock.monotonic() + START_TIMEOUT_SECONDS
        polling = Retrying(
            retry=retry_if_exception_type(_NotStarted),
            stop=lambda _: self._clock.monotonic() > deadline,
            wait=wait_fixed(_POLL_SECONDS),
            sleep=self._clock.sleep,
            reraise=True,
        )
        return polling(self._announcement)

    def _announcement(self) -> tuple[int, str]:
        lines = self._output.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        if len(lines) >= 2 and lines[1].endswith("\n") and lines[0].strip().isdigit():
            return int(lines[0]), lines[1].strip()
        if self._process.poll() is not None:
            raise EngineError(
                f"Java ended while starting: {self.log_tail()}", next_step=f"read {self.log}; Java 17 is needed"
            )
        raise _NotStarted(f"Java did not start in {START_TIMEOUT_SECONDS:.0f} s", next_step=f"read {self.log}")

    @property
    def jvm(self) -> Any:
        """py4j's view of the JVM: `jvm.java.lang.System`."""
        return self._gateway.jvm

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the JVM still runs."""
        return self._process.poll() is None

    def run_in_thread(self, target: Any, method: str) -> None:
        """Call a Java object's method without arguments on a new Java thread, so that no Python thread has to wait."""
        runnable = self.jvm.java.beans.EventHandler.create(
            self.jvm.java.lang.Class.forName("java.lang.Runnable"), target, method
        )
        thread = self.jvm.java.lang.Thread(runnable)
        thread.setDaemon(True)
        thread.start()

    def log_tail(self) -> str:
        """The last lines that the JVM wrote to its log, for error messages."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return "nothing was logged"
        return " | ".join(lines[-_LOG_TAIL_LINES:]) or "nothing was logged"

    def stop(self) -> None:
        """End the JVM: ask, wait a bounded time, then kill it by its id. Never raises. Calling it
        twice is harmless."""
        gateway = getattr(self, "_gateway", None)
        if gateway is not None and self.is_alive():
            try:
                gateway.shutdown()
            except Exception:
                # py4j raises many things here, and the JVM ends below in any case.
                logger.debug("py4j did not shut down in order", exc_info=True)
        process = self._process
        if process.stdin is not None:
            try:
                process.stdin.close()
            except OSError:
                logger.debug("the pipe to the JVM was broken already")
        if not _ends(process, STOP_TIMEOUT_SECONDS):
            logger.warning("The JVM %s did not end in %.0f s and is killed", process.pid, STOP_TIMEOUT_SECONDS)
            process.kill()
            if not _ends(process, KILL_TIMEOUT_SECONDS):
                logger.warning("The JVM %s was killed and is still there", process.pid)
        _running.discard(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
