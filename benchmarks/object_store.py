"""Commits to tables in a bucket, far away: iceberg-hms beside Java's HiveCatalog, by what each answer takes longer.

    python -m benchmarks object-store [--delays 0,20,60] [--in-flight 1,16,64] [--commits 10] [--rounds 3]

MinIO on this machine (`make minio`), and before it a proxy that holds each answer back by so many milliseconds. The
requests of `loads.py`, which clients built near the store, go to a server that is far from it: all but one of a table
are stale, so for each the server reads the client's manifest list, and writes one of its own. Blocks alternate, each
on a table of its own. Ends with 1 if a table does not match the answers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median

import orjson

import iceberg_hms
from benchmarks import instruments, loads
from benchmarks.instruments import ROOT, Serving, serving
from benchmarks.loads import Load, LoadBlock
from iceberg_hms.local.metastore import LocalMetastore
from integration.stores.minio import ObjectStore, local_object_store

BUCKET = "lake"


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--delays", type=numbers, default=[0, 20, 60], help="milliseconds; several, with commas")
    parser.add_argument("--in-flight", type=numbers, default=[1, 16, 64])
    parser.add_argument(
        "--commits", type=int, default=10, help="of each client of a block; a client alone makes thrice"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        store = stack.enter_context(local_object_store(folder))
        store.make_bucket(BUCKET)
        metastore = stack.enter_context(LocalMetastore(folder / "hms", warehouse=f"s3://{BUCKET}/warehouse"))
        found = measure(stack, folder, store, metastore, arguments)
    instruments.print_table(
        ("in flight", "answers later by", "commits/s", "p50 ms", "p99 ms"), [_row(blocks) for blocks in found]
    )
    instruments.keep(
        arguments.out, "object-store", vars(arguments), [asdict(each) for blocks in found for _, each in blocks]
    )
    findings = [finding for blocks in found for _, each in blocks for finding in each.findings]
    print("\n".join(findings))
    raise SystemExit(1 if findings else 0)


def measure(
    stack: ExitStack, folder: Path, store: ObjectStore, metastore: LocalMetastore, arguments: argparse.Namespace
) -> Sequence[Sequence[tuple[int, LoadBlock]]]:
    """The blocks of each row of the table: by in flight, then by delay."""
    near = stack.enter_context(
        iceberg_hms.connect(
            metastore_uri=metastore.uri,
            warehouse=metastore.warehouse,
            s3_endpoint=store.endpoint,
            s3_access_key_id=store.access_key,
            s3_secret_access_key=store.secret_key,
        )
    )
    near.create_namespace(loads.NAMESPACE)
    servers: dict[int, Serving] = {}
    for delay in arguments.delays:
        endpoint = stack.enter_context(far_from(store.endpoint, delay / 1_000))
        variables = {
            "ICEBERG_HMS_S3_ENDPOINT": endpoint,
            "ICEBERG_HMS_S3_ACCESS_KEY_ID": store.access_key,
            "ICEBERG_HMS_S3_SECRET_ACCESS_KEY": store.secret_key,
        }
        log = folder / f"server-{delay}.log"
        servers[delay] = stack.enter_context(serving(metastore, log, environment=variables))
    assert metastore.pid is not None
    found: dict[tuple[int, int], list[tuple[int, LoadBlock]]] = {}
    for round_ in range(arguments.rounds):
        for in_flight in arguments.in_flight:
            commits = arguments.commits * (in_flight if in_flight > 1 else 3)
            for delay, server in servers.items():
                load = Load(f"s3_{delay}", in_flight, commits)
                block = loads.run(near, server, metastore.pid, load, round_)
                found.setdefault((in_flight, delay), []).append((delay, block))
                print(_row([(delay, block)]), flush=True)
    return list(found.values())


@contextmanager
def far_from(endpoint: str, seconds: float) -> Iterator[str]:
    """An address at which an endpoint's answers come so much later."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "benchmarks", "distance", "--target", endpoint, "--seconds", str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{orjson.loads(process.stdout.readline())['port']}"
    finally:
        # This closes its input, which ends it.
        process.communicate(timeout=instruments.END_SECONDS)


def _row(blocks: Sequence[tuple[int, LoadBlock]]) -> Sequence[str]:
    delay, first = blocks[0]
    rates = [each.rate for _, each in blocks]
    seconds = sorted(second for _, each in blocks for second in each.seconds)
    at = [seconds[min(len(seconds) - 1, int(len(seconds) * part))] * 1_000 for part in (0.5, 0.99)]
    return (
        str(first.load.in_flight),
        f"{delay} ms",
        f"{median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f})",
        *(f"{each:.0f}" for each in at),
    )


def numbers(text: str) -> list[int]:
    """Of a text with commas."""
    return [int(part) for part in text.split(",")]
