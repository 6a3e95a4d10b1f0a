"""What every benchmark uses: the server under test, CPU meters, printed tables, and raw results that are kept."""

from __future__ import annotations

import argparse
import importlib.metadata
import inspect
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
from pyarrow.fs import LocalFileSystem

from benchmarks.writers import count_calls
from iceberg_hms.assembly import assemble
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.rest.server import RestServer
from iceberg_hms.rest.settings import load
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.manifests import ManifestStore
from iceberg_hms.storage.pyarrow_driver import PyArrowDriver
from iceberg_hms.storage.retries import Retries


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser of a benchmark's options that prints the description as it is written."""
    return argparse.ArgumentParser(
        description=inspect.cleandoc(description or ""), formatter_class=argparse.RawDescriptionHelpFormatter
    )


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns: the first to the left, the others to the right."""
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join([first.strip().ljust(widths[0]), *others]))


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def machine() -> dict[str, Any]:
    """What the results depend on besides the settings."""
    return {
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "iceberg-hms": importlib.metadata.version("iceberg-hms"),
    }


def keep(folder: Path, name: str, settings: Mapping[str, Any], results: Any) -> None:
    """Write raw results as JSON, with the settings and the machine."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = {"benchmark": name, "settings": dict(settings), "machine": machine(), "results": results}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(raw, indent=1, default=str))
    print(f"raw results: {path}")


_TICKS = os.sysconf("SC_CLK_TCK")
#: Fields of /proc/<pid>/stat, counted after the program's name, which may hold any character.
_USER, _CHILDREN_SYSTEM = 11, 14


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process and of its ended children (Java starts programs for files' modes).
    Raises FileNotFoundError if the process ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[_USER : _CHILDREN_SYSTEM + 1])) / _TICKS


class CpuMeter:
    """CPU seconds of groups of processes since the meter was created.

    groups: process ids by the group's name. All must run when the meter is created and when it is read.
    """

    def __init__(self, groups: Mapping[str, Sequence[int]]) -> None:
        self._groups = groups
        self._before = self._read()

    def used(self) -> dict[str, float]:
        after = self._read()
        return {name: round(after[name] - self._before[name], 2) for name in after}

    def _read(self) -> dict[str, float]:
        return {name: sum(map(cpu_seconds, pids)) for name, pids in self._groups.items()}


ROOT = Path(__file__).parent.parent
#: Time limit for a server to end after its input closed; seconds.
END_SECONDS = 30
_PREFIX = "iceberg_hms_rest_commit"
_COUNTED = ("metastore_calls", "rebased", "replays", "queue_wait_seconds", "lock_wait_seconds", "swap_seconds")


class Serving:
    """A server under test. uri, pid: its address and its process. watched: whether it counts its metastore calls."""

    def __init__(self, process: subprocess.Popen[bytes], *, watched: bool) -> None:
        self._process = process
        self._watched = watched
        listening = self._read()
        self.uri = str(listening["uri"])
        self.pid = int(listening["pid"])

    def counts(self) -> dict[str, float]:
        """The server's own counters: acknowledged commits with their costs, and commits that it refused for a conflict.
        `metastore_calls` leaves out calls between commits."""
        samples = {}
        for line in httpx.get(f"{self.uri}/metrics", timeout=60).text.splitlines():
            name, _, value = line.rpartition(" ")
            if name and not line.startswith("#"):
                samples[name] = float(value)
        counted = {name: samples[f"{_PREFIX}_{name}_total"] for name in _COUNTED}
        outcomes = {
            name: samples.get(f'{_PREFIX}s_total{{outcome="{outcome}"}}', 0.0)
            for name, outcome in (("commits", "committed"), ("conflicts", "conflict"))
        }
        return {**outcomes, **counted}

    def calls(self) -> dict[str, int]:
        """All calls to the metastore so far, by method; empty if the server does not count them."""
        if not self._watched:
            return {}
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server ended; see its log")
        return dict(orjson.loads(line))


@contextmanager
def serving(
    metastore: LocalMetastore,
    log: Path,
    *,
    write_seconds: float | None = None,
    compressed: bool = False,
    access: Sequence[str] = ("--no-auth",),
    program: Sequence[str] = (str(Path(sys.executable).parent / "iceberg-hms"),),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Serving]:
    """Run a server at its defaults. It ends with the block, and with this process, however that ends.

    log: the file for its log.
    write_seconds: None runs the command as users do; a number runs the watched server and delays each file write by it.
    compressed: the server compresses its answers on loopback too, as it does for clients on other machines.
    access: the options that say who may call it. program: what starts it, as the command does. environment: variables
    besides this process's own.
    """
    command = [*program, "serve", "--port", "0", *access]
    command.append("--exit-with-stdin")
    if write_seconds is not None:
        command = [sys.executable, "-m", "benchmarks", "watched-server", "--write-seconds", str(write_seconds)]
    command += ["--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse]
    variables = {**os.environ, **(environment or {})}
    if compressed:
        variables["ICEBERG_HMS_REST_COMPRESS_LOOPBACK"] = "true"
    with log.open("ab") as stderr:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT, env=variables
        )
    try:
        yield Serving(process, watched=write_seconds is not None)
    finally:
        try:
            # This closes its input, which ends it.
            process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


class SlowFilesystem:
    """Local files that behave like a remote store: each write takes `seconds` longer. Files are written one by one,
    as to an object store."""

    def __init__(self, seconds: float, runtime: Runtime) -> None:
        self._files = LocalFileSystem()
        self._seconds = seconds
        self._runtime = runtime

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open_output_stream(self, path: str) -> Any:
        self._runtime.sleep(self._seconds)
        return self._files.open_output_stream(path)


def slowed(catalog: Catalog, seconds: float) -> Catalog:
    """The same catalog on slow files."""
    services = catalog.services
    runtime = services.ports.runtime
    files = RoutedFiles(
        {"file": lambda: (PyArrowDriver(lambda _location: SlowFilesystem(seconds, runtime)), Retries())},
        gather=runtime.gather,
        io_threads=services.settings.io_threads,
    )
    manifests = ManifestStore(files, services.settings, runtime)
    ports = replace(services.ports, files=files, manifests=manifests.open)
    made = replace(services, ports=ports, coordinator=Coordinator(ports, services.settings))
    return Catalog(lambda: made)


def run_watched_server() -> None:
    """Run a server that counts all of its calls to the metastore and can delay its writes of files.

    It prints one line of JSON when it listens, and for each line of its input one with the calls so far, by method. It
    ends when its input ends.
    """
    options = parser(run_watched_server.__doc__)
    options.add_argument("--metastore-uri", required=True)
    options.add_argument("--warehouse", required=True)
    options.add_argument("--write-seconds", type=float, default=0.0)
    given = options.parse_args()
    calls = count_calls()
    library, settings = load({"metastore_uri": given.metastore_uri, "warehouse": given.warehouse})
    with assemble(library) as catalog:
        served = slowed(catalog, given.write_seconds) if given.write_seconds else catalog
        with RestServer(served, "127.0.0.1", 0, settings=settings) as server:
            say({"uri": server.uri, "pid": os.getpid()})
            for _ in sys.stdin:
                say(dict(calls))


def answers(program: str, work: Any, seconds: float) -> Iterator[dict[str, Any]]:
    """Run a process of the benchmarks, whose argument is its work as JSON, and yield what it says. seconds: how long it
    may take. Raises SystemExit if it fails."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "benchmarks", program, json.dumps(work)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def say(answer: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.flush()
