"""How much memory a server takes for requests to tables with giant metadata, and how long they stall it.

    python -m labs.siege.memory_costs

Each scenario has a server process of its own, over a catalog in memory and files on disk. Prints its largest resident
memory in MB, the longest wait for /health/live, the most CPU time that the server took while a timer of its event loop
was late, both in seconds, and the statuses of the answers.
"""

from __future__ import annotations

import gc
import gzip
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson

from benchmarks import instruments
from iceberg_hms.rest.server import RestServer
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from labs.siege.loop_probe import probe_servers, stalls_of
from tests.rest.fakes import SCHEMA, divided

TABLES = 9
#: Of which metadata of so many bytes is made: many short properties, or a long one.
SHORT = b'"%08x":"%02x"'
#: What a client of a slow network has room for, in bytes.
SLOW_BUFFER = 64 * 1024


def properties(pairs: int) -> bytes:
    """A JSON object of so many properties, each of two values of its own."""
    return b"{" + b",".join(SHORT % (at, at & 255) for at in range(pairs)) + b"}"


def long_property(size: int) -> bytes:
    """A JSON object of one property of so many bytes."""
    return b'{"long":"' + b"a" * size + b'"}'


def serve() -> None:
    """The server's process: reads how many tables it has and what metadata as a line of JSON, and serves until its
    input ends."""
    given = orjson.loads(sys.stdin.buffer.readline())
    folder, pointer = Path(given["folder"]), MemoryTablePointer(namespaces=("default",))
    # Real files stand in for those in memory.
    files: Any = RoutedFiles()
    library, server_settings = divided({"warehouse": f"file:{folder}", **given["settings"]})
    with memory_catalog(files=files, pointer=pointer, **library) as maker:
        for number in range(given["tables"]):
            location = maker.create_table(("default", f"t{number}"), SCHEMA).metadata_location
            _grow(Path(location.removeprefix("file:")), folder / "properties", compress=given["compress"])
    probe_servers(folder / "stalls")
    with (
        memory_catalog(files=files, pointer=pointer, **library) as catalog,
        RestServer(catalog, "127.0.0.1", 0, settings=server_settings) as server,
    ):
        # As `iceberg-hms serve` does.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, *gc.get_threshold()[1:])
        sys.setswitchinterval(0.0005)
        Path("/proc/self/clear_refs").write_text("5")
        instruments.say({"uri": server.uri})
        sys.stdin.buffer.read()


def _grow(file: Path, source: Path, *, compress: bool) -> None:
    """Give a metadata file the properties of `source`."""
    raw = orjson.loads(file.read_bytes())
    with source.open("rb") as found:
        text = orjson.dumps({**raw, "properties": orjson.Fragment(found.read())})
    file.write_bytes(gzip.compress(text, 9) if compress else text)


class Server:
    """A server's process. folder: its files."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], uri: str) -> None:
        self.folder = folder
        self.process = process
        self.uri = uri

    def peak(self) -> int:
        """The largest resident memory so far, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@contextmanager
def serving(content: bytes, tables: int, *, compress: bool, **settings: Any) -> Iterator[Server]:
    """A server with tables whose properties are `content`, in metadata files."""
    with tempfile.TemporaryDirectory(prefix="iceberg-hms ") as name:
        folder = Path(name)
        (folder / "properties").write_bytes(content)
        (folder / "stalls").touch()
        command = [sys.executable, "-m", "labs.siege.memory_costs", "serve"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=instruments.ROOT) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            given = {"folder": name, "tables": tables, "compress": compress, "settings": settings}
            process.stdin.write(orjson.dumps(given) + b"\n")
            process.stdin.flush()
            yield Server(folder, process, orjson.loads(process.stdout.readline())["uri"])
            process.stdin.close()


def load(server: Server, number: int) -> list[int]:
    """Load a table once and read the answer, without keeping it."""
    with httpx.stream("GET", f"{server.uri}/v1/namespaces/default/tables/t{number}", timeout=300) as answer:
        for _ in answer.iter_raw():
            pass
        return [answer.status_code]


def commit(server: Server, number: int) -> list[int]:
    """Commit a property to a table."""
    updates = [{"action": "set-properties", "updates": {"a": "b"}}]
    body = {"requirements": [], "updates": updates}
    uri = f"{server.uri}/v1/namespaces/default/tables/t{number}"
    with httpx.stream("POST", uri, json=body, timeout=300) as answer:
        for _ in answer.iter_raw():
            pass
        return [answer.status_code]


def load_slowly(server: Server, number: int) -> list[int]:
    """Load a table eight times and read nothing of the answers but their statuses, for some seconds."""
    transport = httpx.HTTPTransport(socket_options=[(1, 8, SLOW_BUFFER)])
    with httpx.Client(transport=transport, timeout=300) as client:
        uri = f"{server.uri}/v1/namespaces/default/tables/t{number}"
        answers = [client.send(client.build_request("GET", uri), stream=True) for _ in range(8)]
        threading.Event().wait(3)
        statuses = [answer.status_code for answer in answers]
        for answer in answers:
            answer.close()
        return statuses


def measure(server: Server, ask: Callable[[Server, int], list[int]], tables: int) -> dict[str, Any]:
    """Let a client for each table ask at once. Returns figures."""
    over, longest = threading.Event(), [0.0]

    def watch() -> None:
        with httpx.Client(timeout=300) as client:
            while not over.wait(0.02):
                began = time.monotonic()
                client.get(f"{server.uri}/health/live").raise_for_status()
                longest[0] = max(longest[0], time.monotonic() - began)

    watcher = threading.Thread(target=watch)
    watcher.start()
    before, began = server.peak(), time.monotonic()
    with ThreadPoolExecutor(tables) as clients:
        answers = [status for some in clients.map(lambda number: ask(server, number), range(tables)) for status in some]
    seconds = time.monotonic() - began
    over.set()
    watcher.join()
    stalls = [stall.computed for stall in stalls_of(server.folder / "stalls", began, time.monotonic())]
    return {
        "before": before,
        "peak": server.peak(),
        "seconds": seconds,
        "health": longest[0],
        "stall": max(stalls, default=0.0),
        "statuses": dict(Counter(answers)),
    }


def main() -> None:
    options = instruments.parser(__doc__)
    options.add_argument("--pairs", type=int, default=1_500_000, help="properties of a dense file")
    options.add_argument("--long", type=int, default=64 * 1024 * 1024 - 10_000, help="bytes of a long property")
    options.add_argument("--only", action="append", default=[], metavar="SCENARIO", help="may be repeated")
    options.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = options.parse_args()
    dense, long = properties(arguments.pairs), long_property(arguments.long)
    scenarios: dict[str, tuple[bytes, bool, int, Callable[[Server, int], list[int]]]] = {
        "loads, short": (dense, False, TABLES, load),
        "loads, long": (long, False, TABLES, load),
        "loads, gzip": (dense, True, 3, load),
        "commits, short": (dense, False, TABLES, commit),
        "commits, long": (long, False, TABLES, commit),
        "slow clients": (long, False, 3, load_slowly),
    }
    show("scenario", "idle MB", "peak MB", "seconds", "health s", "stall CPU s", "statuses")
    found = {}
    for name in arguments.only or scenarios:
        content, compress, tables, ask = scenarios[name]
        with serving(content, tables, compress=compress) as server:
            figures = found[name] = measure(server, ask, tables)
        megabytes = [f"{figures[key] / 1e6:.0f}" for key in ("before", "peak")]
        times = [f"{figures[key]:.2f}" for key in ("seconds", "health", "stall")]
        show(name, *megabytes, *times, str(figures["statuses"]))
    instruments.keep(arguments.out, "memory_costs", vars(arguments), found)


def show(name: str, *figures: str) -> None:
    """Print a line at once: all scenarios take minutes."""
    print(name.ljust(16), *(figure.rjust(11) for figure in figures), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        main()
