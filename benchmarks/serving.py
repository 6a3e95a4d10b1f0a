"""The server under test, in a process of its own: the command as users start it, or `watched_server`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson

from iceberg_hms.local.metastore import LocalMetastore

ROOT = Path(__file__).parent.parent
#: The last that a server is waited for when it should end; seconds.
END_SECONDS = 30
_PREFIX = "iceberg_hms_rest_commit"
_COUNTED = ("metastore_calls", "rebased", "replays", "queue_wait_seconds", "lock_wait_seconds", "swap_seconds")


class Serving:
    """A server that answers. uri, pid: where, and its process. watched: whether it counts its calls."""

    def __init__(self, process: subprocess.Popen[bytes], *, watched: bool) -> None:
        self._process = process
        self._watched = watched
        told = self._read()
        self.uri = str(told["uri"])
        self.pid = int(told["pid"])

    def counts(self) -> dict[str, float]:
        """What it says of itself so far: commits that it acknowledged and what these took, and commits that it refused
        because of a conflict. Calls between commits are not among the `metastore_calls`."""
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
        """All calls to the metastore so far, by method; empty where nobody counts them."""
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
            raise RuntimeError("the server ended; its log says why")
        return dict(orjson.loads(line))


@contextmanager
def serving(
    metastore: LocalMetastore, log: Path, *, write_seconds: float | None = None, compressed: bool = False
) -> Iterator[Serving]:
    """A server at its defaults. It ends with the block, and with this process however that ends.

    log: the file that its log goes to.
    write_seconds: None is the command as it is; else it is watched, and each write of a file takes so much longer.
    compressed: it compresses its answers to this machine too, as it does for clients on others.
    """
    command = [str(Path(sys.executable).parent / "iceberg-hms"), "serve", "--port", "0", "--no-auth"]
    command.append("--exit-with-stdin")
    if write_seconds is not None:
        command = [sys.executable, "-m", "benchmarks.watched_server", "--write-seconds", str(write_seconds)]
    command += ["--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse]
    environment = {**os.environ, **({"ICEBERG_HMS_REST_COMPRESS_LOOPBACK": "true"} if compressed else {})}
    with log.open("ab") as stderr:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT, env=environment
        )
    try:
        yield Serving(process, watched=write_seconds is not None)
    finally:
        try:
            # Closes its input, which ends it.
            process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
