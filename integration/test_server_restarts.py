"""`iceberg-hms serve` restarts while a Spark session of stock Iceberg works on it: how many statements fail.

    RESTARTS=10 python -m pytest integration/test_server_restarts.py --log-cli-level=INFO

The log has the figures.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest

from iceberg_hms.spark.configuration import session_configuration
from iceberg_hms.testing.faults.stream import StreamProxy
from integration.command_line import END, clean_environment, line_of, running
from integration.faults import until
from integration.restless_spark import LOOPS
from integration.spark_fixtures import SETTINGS, start_program
from integration.test_metastore_restarts import free_port

logger = logging.getLogger(__name__)

RESTARTS = int(os.environ.get("RESTARTS") or "3")
#: Between two restarts the session works for so long; more than the client's pool keeps a connection unchecked (2 s).
CALM_SECONDS = 5.0
#: How often the balancer asks its servers whether they are ready.
HEALTH_SECONDS = 0.5
#: Becomes the program that its second argument names, with the socket whose descriptor is its first.
LAUNCHER = """
import os, socket, sys
from iceberg_hms.cli.lifetime import handed_over

listener = socket.socket(fileno=int(sys.argv[1]))
os.execve(sys.argv[2], sys.argv[2:], handed_over(listener, os.environ))
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Session:
    """The Spark session of `restless_spark`, and what it has told."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self.lines: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, name="session", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(json.loads(line))

    def count(self, kind: str) -> int:
        return sum(1 for line in self.lines if line["kind"] == kind)

    def calm(self) -> None:
        """Wait until every loop and the stream have worked for a while."""
        since = time.monotonic() + CALM_SECONDS
        until(
            lambda: {line["kind"] for line in self.lines if line.get("begun", 0) > since} >= set(LOOPS),
            "the session works",
        )

    def job(self) -> Callable[[], None]:
        """Wait until a long INSERT runs. Returns what ends its task, so that it commits next."""

        def opened() -> int | None:
            try:
                return os.open(self._folder / "job", os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                return None

        descriptor = until(opened, "the job runs")
        return lambda: os.close(descriptor)

    def end(self) -> dict[str, int]:
        """End the session. Returns how many rows its tables have."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._reader.join(120)
        rows = dict(self.lines.pop())
        assert rows.pop("kind") == "rows"
        return rows


@contextmanager
def session(uri: str, metastore: Any, namespace: str, folder: Path) -> Iterator[Session]:
    folder.mkdir()
    os.mkfifo(folder / "job")
    own = session_configuration(server_uri=uri, metastore_uri=metastore.uri, warehouse=metastore.warehouse)
    work = {
        "settings": {**SETTINGS, "spark.master": "local[4]", "spark.local.dir": str(folder), **own},
        "database": namespace,
        "folder": str(folder),
    }
    with start_program("integration.restless_spark", work, folder / "spark.log", clean_environment()) as process:
        try:
            found = Session(process, folder)
            until(lambda: found.count("stream started"), "the session works")
            yield found
        finally:
            process.kill()


def options(metastore: Any, port: int) -> list[str]:
    where = ["--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse]
    return [*where, "--port", str(port), "--no-auth"]


class Serving:
    """`iceberg-hms serve`, which restarts. log: the file for its log. listener: the socket that it inherits."""

    def __init__(
        self, stack: ExitStack, arguments: list[str], log: Path, listener: socket.socket | None = None
    ) -> None:
        self._stack = stack
        self._arguments = arguments
        self._log = log
        self._listener = listener
        self._start()
        self.uri = str(self._event["uri"])

    def _start(self) -> None:
        stream = self._stack.enter_context(self._log.open("a"))
        passed = {}
        if self._listener is not None:
            descriptor = self._listener.fileno()
            passed = {"launcher": [sys.executable, "-c", LAUNCHER, str(descriptor)], "descriptors": [descriptor]}
        started = running("serve", *self._arguments, stderr=stream, **passed)
        self._process, self._event = self._stack.enter_context(started)

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(END) == 0

    def restart(self, between: Callable[[], None]) -> float:
        """End it, and start it again. between: called once it has ended. Returns how long nobody listens."""
        self.end()
        begun = time.monotonic()
        between()
        self._start()
        return time.monotonic() - begun

    def restart_in_place(self, between: Callable[[], None]) -> float:
        """The same with the signal for it. Returns how long connections wait."""
        times = self._restarts() + 1
        self._process.send_signal(signal.SIGUSR2)
        until(lambda: self._restarts() == times, "it restarts")
        begun = time.monotonic()
        between()
        assert self._process.stdout is not None
        assert json.loads(line_of(self._process.stdout)) == self._event
        return time.monotonic() - begun

    def _restarts(self) -> int:
        return self._log.read_text().splitlines().count("restarting")


class Balancer(StreamProxy):
    """Carries each connection to a server that is ready, always to the same one while it is. servers: addresses."""

    def __init__(self, servers: Sequence[str]) -> None:
        self._servers = servers
        super().__init__(servers[0])
        self.start("health", self._watch)

    def _watch(self) -> None:
        chosen = self._servers[0]
        while not self._closed.wait(HEALTH_SECONDS):
            ready = [each for each in self._servers if is_ready(each)]
            if chosen not in ready:
                chosen = next(iter(ready), chosen)
                host, _, port = chosen.rpartition(":")
                self._target = (host, int(port))


def is_ready(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/health/ready", timeout=END).status_code == 200
    except httpx.TransportError:
        return False


def failures(what: str, found: Session, restart: Callable[[Callable[[], None]], float]) -> Counter[str]:
    """Restart, each time with a long INSERT that commits meanwhile. Returns how many statements failed, by kind."""
    found.calm()
    begun = time.monotonic()
    seconds = []
    for _ in range(RESTARTS):
        seconds.append(restart(found.job()))
        found.calm()
    rows = found.end()
    lines = [line for line in found.lines if line["begun"] > begun]
    failed = [line for line in found.lines if line["error"]]
    longest = {kind: max(line["ended"] - line["begun"] for line in lines if line["kind"] == kind) for kind in LOOPS}
    logger.info("%s: %d restarts, nobody listened for %s s", what, RESTARTS, [round(each, 1) for each in seconds])
    logger.info("statements %s, rows %s", dict(Counter(line["kind"] for line in found.lines)), rows)
    logger.info("the longest took %s s", {kind: round(each, 1) for kind, each in longest.items()})
    for (kind, error), times in Counter((line["kind"], line["error"]) for line in failed).items():
        logger.info("%d failed: %s: %s", times, kind, error)
    return Counter(line["kind"] for line in failed)


def test_a_plain_restart_fails_what_comes_meanwhile(metastore: Any, namespace: str, tmp_path: Path) -> None:
    """What the other ways are measured by: each statement fails, the long INSERT is lost, and the stream ends."""
    with ExitStack() as stack:
        server = Serving(stack, options(metastore, free_port()), tmp_path / "serve.log")
        found = stack.enter_context(session(server.uri, metastore, namespace, tmp_path / "spark"))
        failed = failures("plain", found, server.restart)
        assert min(failed[kind] for kind in (*LOOPS, "job", "stream")) >= RESTARTS
        server.end()


def test_a_restart_in_place_fails_nothing(metastore: Any, namespace: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = Serving(stack, options(metastore, 0), tmp_path / "serve.log")
        found = stack.enter_context(session(server.uri, metastore, namespace, tmp_path / "spark"))
        assert failures("in place", found, server.restart_in_place) == {}
        server.end()


def test_a_restart_behind_a_socket_that_stays_fails_nothing(metastore: Any, namespace: str, tmp_path: Path) -> None:
    """As systemd restarts a service with a socket unit."""
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0), backlog=2_048) as listener:
        server = Serving(stack, options(metastore, 0), tmp_path / "serve.log", listener)
        assert server.uri == f"http://127.0.0.1:{listener.getsockname()[1]}"
        found = stack.enter_context(session(server.uri, metastore, namespace, tmp_path / "spark"))
        assert failures("socket", found, server.restart) == {}
        server.end()


def test_a_restart_of_one_of_two_servers_fails_nothing(metastore: Any, namespace: str, tmp_path: Path) -> None:
    """Each restart ends the one that has all clients."""
    with ExitStack() as stack:
        servers = [Serving(stack, options(metastore, free_port()), tmp_path / f"{name}.log") for name in ("a", "b")]
        balancer = stack.enter_context(Balancer([server.uri.removeprefix("http://") for server in servers]))
        turns = cycle(servers)

        found = stack.enter_context(session(f"http://{balancer.address}", metastore, namespace, tmp_path / "spark"))
        assert failures("two servers", found, lambda between: next(turns).restart(between)) == {}
        for server in servers:
            server.end()
