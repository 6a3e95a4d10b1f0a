"""Libraries that decode manifests, side by side: entries a second of one core.

    python -m benchmarks manifest-decoders [--manifests 10] [--entries 10040] [--rounds 5]

The manifests are like those of a large partitioned table with bounds of five columns. What is not installed is left
out: polars-avro, and DuckDB with its Avro extension (duckdb-extension-avro). Figures are of the processor's time, the
best of the rounds, which alternate. Then how large a manifest must be for DataFusion to gain over our own reader.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

import fastavro

from benchmarks import instruments
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry, decode_manifest
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.manifests.manifest_writer import ManifestWriter
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.planning import decode

COLUMNS = (("hour", "int"), ("batch", "int"), ("time", "timestamptz"), ("name", "string"), ("value", "double"))
SCHEMA = Schema.parse(
    {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": column_id, "name": name, "type": kind, "required": False}
            for column_id, (name, kind) in enumerate(COLUMNS, 1)
        ],
    }
)
SPEC = PartitionSpec.parse(
    {
        "spec-id": 0,
        "fields": [
            {"source-id": 1, "field-id": 1000, "name": "hour", "transform": "identity"},
            {"source-id": 2, "field-id": 1001, "name": "batch", "transform": "identity"},
        ],
    }
)
#: Columns of a filter, whose statistics a plan needs.
STATS = frozenset({3, 4})
#: How many entries small manifests have.
SMALL = (1, 10, 30, 50, 100, 300, 1_000)

Decoder = Callable[[Path, bytes, ManifestFile], int]


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--manifests", type=int, default=10)
    parser.add_argument("--entries", type=int, default=10_040, help="of each manifest")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder:
        rates = _rates(Path(folder), arguments)
    rows = [[name, f"{rate:,.0f}"] for name, rate in sorted(rates.items(), key=lambda each: -each[1])]
    instruments.print_table(["decoder", "entries/s"], rows)
    small = [[count, *_milliseconds(count, arguments.rounds)] for count in SMALL]
    print()
    instruments.print_table(["entries", "DataFusion ms", "our reader ms"], small)
    instruments.keep(arguments.out, "manifest_decoders", vars(arguments), {"rates": rates, "small": small})


def _rates(folder: Path, arguments: argparse.Namespace) -> dict[str, float]:
    manifests = []
    for number in range(arguments.manifests):
        path = folder / f"m{number}.avro"
        data, line = _manifest(number, arguments.entries, str(path))
        path.write_bytes(data)
        manifests.append((path, data, line))
    decoders = dict(_decoders())
    best = dict.fromkeys(decoders, float("inf"))
    for _ in range(arguments.rounds):
        for name, decoder in decoders.items():
            # A slow one gets a part of the work.
            some = manifests if best[name] < 1 or best[name] == float("inf") else manifests[:1]
            started = process_time()
            found = sum(decoder(*each) for each in some)
            seconds = (process_time() - started) * len(manifests) / len(some)
            if found != arguments.entries * len(some):
                raise RuntimeError(f"{name} found {found} entries")
            best[name] = min(best[name], seconds)
    return {name: arguments.manifests * arguments.entries / seconds for name, seconds in best.items()}


def _decoders() -> Iterator[tuple[str, Decoder]]:
    yield "our columns, two columns' statistics", _columns(STATS)
    yield "our columns, all statistics", _columns(None)
    yield "our columns, without DataFusion", _own_columns
    yield "our records (decode_manifest)", lambda _path, data, line: sum(1 for _ in decode_manifest(data, "m", line))
    yield "fastavro", _fastavro
    yield "DataFusion", _datafusion
    if importlib.util.find_spec("polars_avro"):
        yield "polars-avro", _polars
    if importlib.util.find_spec("duckdb_extension_avro"):
        yield "DuckDB", _duckdb()


def _columns(stats: frozenset[int] | None) -> Decoder:
    return lambda _path, data, line: len(decode.decode_columns(data, "m", line, stats=stats))


def _own_columns(_path: Path, data: bytes, line: ManifestFile) -> int:
    with _by_datafusion_from(2**31):
        return len(decode.decode_columns(data, "m", line, stats=STATS))


def _fastavro(path: Path, _data: bytes, _line: ManifestFile) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in fastavro.reader(file))


def _datafusion(path: Path, _data: bytes, _line: ManifestFile) -> int:
    import datafusion

    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    return int(context.read_avro(str(path)).to_arrow_table().num_rows)


def _polars(path: Path, _data: bytes, _line: ManifestFile) -> int:
    polars_avro: Any = importlib.import_module("polars_avro")
    with path.open("rb") as file:
        return len(polars_avro.read_avro(file))


def _duckdb() -> Decoder:
    duckdb: Any = importlib.import_module("duckdb")
    importlib.import_module("duckdb_extensions").import_extension("avro")
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("LOAD avro")
    query = "SELECT * FROM read_avro(?)"
    return lambda path, _data, _line: int(connection.execute(query, [str(path)]).to_arrow_table().num_rows)


def _milliseconds(entries: int, rounds: int) -> Sequence[str]:
    data, line = _manifest(0, entries, "m")
    found = []
    for smallest in (0, 2**31):
        best = float("inf")
        for _ in range(5 * rounds):
            with _by_datafusion_from(smallest):
                started = process_time()
                decode.decode_columns(data, "m", line, stats=STATS)
                best = min(best, process_time() - started)
        found.append(f"{1000 * best:.2f}")
    return found


@contextmanager
def _by_datafusion_from(entries: int) -> Iterator[None]:
    """DataFusion decodes manifests of so many entries and more."""
    before = decode.SMALL_ENTRIES
    vars(decode)["SMALL_ENTRIES"] = entries
    try:
        yield
    finally:
        vars(decode)["SMALL_ENTRIES"] = before


def _manifest(number: int, entries: int, location: str) -> tuple[bytes, ManifestFile]:
    """A manifest of ten partitions."""
    chosen = random.Random(number)  # noqa: S311 - for figures
    writer = ManifestWriter(2, SCHEMA, SPEC, 1)
    for at in range(entries):
        hour, batch = divmod(10 * number + 10 * at // entries, 4)
        writer.add(ManifestEntry(EntryStatus.ADDED, _file(hour, batch, at, chosen), 1))
    return writer.finish(location)


def _file(hour: int, batch: int, at: int, chosen: random.Random) -> DataFile:
    rows, time = chosen.randrange(10_000, 100_000), 1_700_000_000_000_000 + hour * 3_600_000_000 + at

    def bounds(last: int) -> dict[int, bytes]:
        value = struct.pack("<d", chosen.random())
        numbers = struct.pack("<i", hour), struct.pack("<i", batch), struct.pack("<q", time + last)
        return dict(enumerate([*numbers, f"name.{1_000 * at + last:08d}".encode(), value], 1))

    return DataFile(
        f"s3://lake/warehouse/metrics.db/atlas/data/hour={hour}/batch={batch}/{at:05d}-{chosen.getrandbits(64):016x}.parquet",
        "PARQUET",
        rows,
        chosen.randrange(10**6, 10**8),
        {"hour": hour, "batch": batch},
        column_sizes={column_id: chosen.randrange(1_000, 10**6) for column_id in range(1, 6)},
        value_counts=dict.fromkeys(range(1, 6), rows),
        null_value_counts=dict.fromkeys(range(1, 6), 0),
        nan_value_counts={5: 0},
        lower_bounds=bounds(0),
        upper_bounds=bounds(999),
        split_offsets=[4],
        sort_order_id=0,
    )
