"""The client libraries for S3 that there are for Python, on MinIO: requests a second, latencies, processor, memory.

    python -m benchmarks s3-clients [--threads 16] [--rounds 3]

Each library runs in a process of its own; rounds alternate. Figures are medians of the rounds. It needs `make minio`.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import orjson

from benchmarks import instruments
from benchmarks.instruments import ROOT
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.storage.s3.clients import S3Clients
from integration.stores.minio import ObjectStore, local_object_store

BUCKET = "clients"
LIBRARIES = ("obstore", "botocore", "pyarrow")
#: What is done, how large each object is, and how often.
WORK = (
    ("write 4 KiB", 4_096, 800),
    ("read 4 KiB", 4_096, 800),
    ("write 1 MiB", 1 << 20, 96),
    ("read 1 MiB", 1 << 20, 96),
)


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found: dict[tuple[str, str], list[Sequence[float]]] = {}
    memory: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder, local_object_store(Path(folder)) as store:
        store.make_bucket(BUCKET)
        for _ in range(arguments.rounds):
            for library in LIBRARIES:
                measured = _measured(store, library, arguments.threads)
                memory[library] = measured["memory_mib"]
                for what, *_ in WORK:
                    found.setdefault((what, library), []).append(measured[what])
    rows = []
    for (what, library), rounds in found.items():
        rate, p50, p99, cpu = (median(each) for each in zip(*rounds, strict=True))
        rows.append((what, library, f"{rate:.0f}", f"{p50:.1f}", f"{p99:.1f}", f"{cpu:.2f}", f"{memory[library]:.0f}"))
    instruments.print_table(("", "library", "requests/s", "p50 ms", "p99 ms", "processor ms", "RSS MiB"), sorted(rows))


def _measured(store: ObjectStore, library: str, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks", "s3-client", "--library", library, "--threads", str(threads)]
    secrets = {"S3_ENDPOINT": store.endpoint, "S3_KEY": store.access_key, "S3_SECRET": store.secret_key}
    ended = subprocess.run(  # noqa: S603 - our own program
        command, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, **secrets}, check=True
    )
    return dict(orjson.loads(ended.stdout))


def run_s3_client() -> None:
    """Do all the work with one library, and print one line of JSON: for each kind requests a second, p50 and p99 in
    milliseconds, and milliseconds of a processor a request; and the memory."""
    options = instruments.parser(run_s3_client.__doc__)
    options.add_argument("--library", choices=LIBRARIES, required=True)
    options.add_argument("--threads", type=int, required=True)
    given = options.parse_args()
    write, read = _pyarrow() if given.library == "pyarrow" else _ours(given.library)
    found: dict[str, Any] = {}
    with ThreadPoolExecutor(given.threads) as pool:
        for what, size, count in WORK:
            data = os.urandom(size)
            keys = [f"{os.getpid()}/{size}-{at}" for at in range(count)]
            is_write = what.startswith("write")
            found[what] = _timed(pool, [partial(write, key, data) if is_write else partial(read, key) for key in keys])
    found["memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    print(orjson.dumps(found).decode())


def _timed(pool: ThreadPoolExecutor, calls: Sequence[Callable[[], object]]) -> Sequence[float]:
    def one(call: Callable[[], object]) -> float:
        begun = perf_counter()
        call()
        return perf_counter() - begun

    begun, cpu, count = perf_counter(), process_time(), len(calls)
    seconds = sorted(pool.map(one, calls))
    wall, used = perf_counter() - begun, process_time() - cpu
    return count / wall, seconds[count // 2] * 1_000, seconds[int(count * 0.99)] * 1_000, used / count * 1_000


def _ours(library: str) -> tuple[Callable[[str, bytes], None], Callable[[str], bytes]]:
    """Write and read as the driver does."""
    settings = Settings(
        s3_endpoint=os.environ["S3_ENDPOINT"],
        s3_access_key_id=os.environ["S3_KEY"],
        s3_secret_access_key=os.environ["S3_SECRET"],
    )
    clients = S3Clients(settings, SYSTEM_CLOCK)
    bucket = clients.obstore(BUCKET) if library == "obstore" else clients.botocore(BUCKET)
    return lambda key, data: bucket.put(key, data, is_new=True), lambda key: bucket.get(key, lambda _: None)


def _pyarrow() -> tuple[Callable[[str, bytes], None], Callable[[str], bytes]]:
    from pyarrow.fs import S3FileSystem

    filesystem = S3FileSystem(
        endpoint_override=os.environ["S3_ENDPOINT"],
        access_key=os.environ["S3_KEY"],
        secret_key=os.environ["S3_SECRET"],
        region="us-east-1",
    )

    def write(key: str, data: bytes) -> None:
        with filesystem.open_output_stream(f"{BUCKET}/{key}") as stream:
            stream.write(data)

    def read(key: str) -> bytes:
        with filesystem.open_input_file(f"{BUCKET}/{key}") as file:
            return bytes(file.read())

    return write, read
