"""Existing Parquet files in a bucket, added to a table: `Table.append(locations)` beside PyIceberg's `add_files`.

    python -m benchmarks add-files [--files 1000] [--delays 0,20,60] [--rounds 3]

MinIO on this machine (`make minio`), and before it a proxy that holds each answer back by so many milliseconds. Both
read the footers of the same files, of 20 columns, and commit to tables of one metastore, PyIceberg by its HiveCatalog.
They take turns, in this process, each on an empty table that it has loaded; figures are medians of the rounds. Each
does it once more before a proxy that counts requests and bytes. PYICEBERG_MAX_WORKERS says how many threads PyIceberg
has, by default a few more than there are processors. Ends with 1 if a table lacks a file or a row.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog

import iceberg_hms
from benchmarks import instruments
from benchmarks.object_store import BUCKET, far_from, numbers
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.testing.faults.script import PASS
from integration.stores.minio import ObjectStore, local_object_store
from integration.stores.s3_proxy import S3Proxy, S3Request

#: Of each file, which is larger than what is read of it.
COLUMNS, ROWS = 20, 1_000
SCHEMA = pa.schema([("id", pa.int64()), *((f"c{at}", pa.float64()) for at in range(1, COLUMNS))])
NAMESPACE = "files"
#: Files of the first commit of each writer, which opens connections, and imports what is imported late.
WARM_UP = 64


@dataclass(frozen=True)
class Writer:
    """Who adds files. load: gives a table by its name; add: adds files to such a table."""

    who: str
    load: Callable[[str], Any]
    add: Callable[[Any, Sequence[str]], object]


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--delays", type=numbers, default=[0, 20, 60], help="milliseconds; several, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        store = stack.enter_context(local_object_store(folder))
        store.make_bucket(BUCKET)
        metastore = stack.enter_context(LocalMetastore(folder / "hms", warehouse=f"s3://{BUCKET}/warehouse"))
        bench = AddFiles(stack, store, metastore, write_files(store, arguments.files))
        seconds, counts = bench.measure(arguments.delays, arguments.rounds), bench.count()
    rows = [
        (f"{delay} ms", who, f"{median(each):.2f}", f"{min(each):.2f} to {max(each):.2f}")
        for (delay, who), each in seconds.items()
    ]
    instruments.print_table(("answers later by", "", "seconds", "of the rounds"), rows)
    instruments.print_table(
        ("", "requests", "bytes read"),
        [(who, f"{requests} ({methods})", read) for who, (requests, methods, read) in counts.items()],
    )
    results = {"seconds": {f"{who}, {delay} ms": each for (delay, who), each in seconds.items()}, "counts": counts}
    instruments.keep(arguments.out, "add-files", vars(arguments), results)
    print("\n".join(bench.findings))
    raise SystemExit(1 if bench.findings else 0)


def write_files(store: ObjectStore, count: int) -> list[str]:
    """The locations of new files, without field ids, which `add_files` refuses."""
    client = store.client()

    def write(number: int) -> str:
        first = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
        others = [pa.array([float(number + at + row) for row in range(ROWS)]) for at in range(1, COLUMNS)]
        data = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_arrays([first, *others], schema=SCHEMA), data)
        key = f"landed/{number:05}.parquet"
        client.put_object(Bucket=BUCKET, Key=key, Body=data.getvalue().to_pybytes())
        return f"s3://{BUCKET}/{key}"

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(write, range(count)))
    client.close()
    return found


class AddFiles:
    """stack: closes what is opened here. findings: which tables lack something."""

    def __init__(self, stack: ExitStack, store: ObjectStore, metastore: LocalMetastore, files: Sequence[str]) -> None:
        self._stack, self._store, self._metastore, self._files = stack, store, metastore, files
        self._near, self._tables = self._catalog(store.endpoint), 0
        self._near.create_namespace(NAMESPACE)
        self.findings: list[str] = []

    def measure(self, delays: Sequence[int], rounds: int) -> Mapping[tuple[int, str], list[float]]:
        """Seconds of each round, by milliseconds and by who adds the files."""
        found: dict[tuple[int, str], list[float]] = {}
        writers: list[tuple[int, Writer]] = []
        for delay in delays:
            endpoint = self._stack.enter_context(far_from(self._store.endpoint, delay / 1_000))
            writers += [(delay, each) for each in self._warm_writers(endpoint)]
        for _ in range(rounds):
            for delay, writer in writers:
                seconds = self._timed(writer, self._files)
                found.setdefault((delay, writer.who), []).append(seconds)
                print(f"{delay} ms, {writer.who}: {seconds:.2f} s", flush=True)
        return found

    def count(self) -> Mapping[str, tuple[int, str, int]]:
        """How many requests each sends, of which methods, and how many bytes it reads."""
        found = {}
        with closing(S3Proxy(self._store.endpoint)) as proxy:
            for writer in self._warm_writers(proxy.endpoint):
                read: list[int] = []

                def loaded(read: list[int] = read) -> None:
                    proxy.forget()
                    proxy.on("GET", PASS, times=None, rewrite=partial(_counted, read))

                self._timed(writer, self._files, loaded)
                methods = Counter(each.method for each in proxy.requests)
                what = ", ".join(f"{count} {method}" for method, count in sorted(methods.items()))
                found[writer.who] = (methods.total(), what, sum(read))
                proxy.clear()
        return found

    def _timed(self, writer: Writer, files: Sequence[str], loaded: Callable[[], object] = lambda: None) -> float:
        """Add files to a new table. loaded: called before that."""
        self._tables += 1
        name = f"{NAMESPACE}.t{self._tables}"
        self._near.create_table(name, SCHEMA)
        table = writer.load(name)
        loaded()
        begun = perf_counter()
        writer.add(table, files)
        seconds = perf_counter() - begun
        snapshot = self._near.load_table(name).metadata.current_snapshot
        there = {} if snapshot is None else snapshot.summary
        wanted = {"total-data-files": str(len(files)), "total-records": str(len(files) * ROWS)}
        if not wanted.items() <= there.items():
            self.findings.append(f"{name} by {writer.who}: {there}")
        return seconds

    def _warm_writers(self, endpoint: str) -> list[Writer]:
        """Both, with connections that are open."""
        ours = self._catalog(endpoint)
        settings = {
            "s3.endpoint": endpoint,
            "s3.region": self._store.region,
            "s3.access-key-id": self._store.access_key,
            "s3.secret-access-key": self._store.secret_key,
        }
        theirs = load_catalog("pyiceberg", type="hive", uri=self._metastore.uri, **settings)
        found = [
            Writer("iceberg-hms", ours.load_table, lambda table, files: table.append(files)),
            Writer("PyIceberg", theirs.load_table, lambda table, files: table.add_files(list(files))),
        ]
        for each in found:
            self._timed(each, self._files[:WARM_UP])
        return found

    def _catalog(self, endpoint: str) -> Catalog:
        settings = self._store.settings(endpoint=endpoint)
        uri, warehouse = self._metastore.uri, self._metastore.warehouse
        return self._stack.enter_context(iceberg_hms.connect(metastore_uri=uri, warehouse=warehouse, **settings))


def _counted(read: list[int], _: S3Request, answer: bytes) -> bytes:
    read.append(len(answer.partition(b"\r\n\r\n")[2]))
    return answer
