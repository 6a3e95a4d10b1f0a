"""A process that commits to a table through the Python API, as a service would.

    python -m iceberg_hms.cli.demo.writer --metastore-uri U --warehouse W --table nyc.departures
           --name python-1 --source DIR --month 2 --batches 10

It prints JSON lines: `ready`; then, after it reads a line on standard input, a `commit` or a `failed` for each batch;
then `done`. When standard input closes, its parent ended or wants it to end: it finishes the commit in flight, so that
no lock stays behind, and ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.errors import IcebergHmsError, InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

    from iceberg_hms.catalog.table import Table
    from iceberg_hms.format.schema.schema import Schema

#: Parquet's key for a column's Iceberg field id: readers find a column by it, even after a rename.
_FIELD_ID: Final = b"PARQUET:field_id"
_ORPHANED: Final = 1
#: Time limit of the last commit after standard input closed; seconds.
_GRACE: Final = 10.0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Options from the command line; argparse ends the process on wrong ones.

    metastore_uri, warehouse, table: where to commit. name: of this writer. source: folder of the Hive table. month: the
    month of the flights that it writes. batches: how many days of that month, one commit a day."""
    parser = argparse.ArgumentParser(prog="python -m iceberg_hms.cli.demo.writer")
    for name in ("metastore-uri", "warehouse", "table", "name"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--source", required=True, type=Path)
    for name in ("month", "batches"):
        parser.add_argument(f"--{name}", required=True, type=int)
    return parser.parse_args(arguments)


def departures(source: Path, month: int, day: int, writer: str) -> pa.Table:
    """Read the flights of one day from the Hive table's Parquet files, as rows of the table `departures`."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    files = [file for file in sorted((source / f"month={month}").iterdir()) if not file.name.startswith((".", "_"))]
    columns = ["carrier", "flight", "origin", "dest", "time_hour", "dep_delay", "distance", "day"]
    rows = pa.concat_tables(pq.ParquetFile(file).read(columns=columns) for file in files)
    rows = rows.filter(pc.equal(rows["day"], day)).drop_columns("day")
    hours = rows["time_hour"].cast(pa.timestamp("us", tz="UTC"))
    rows = rows.set_column(rows.schema.get_field_index("time_hour"), "time_hour", hours)
    rows = rows.append_column("writer", pa.array([writer] * len(rows), pa.string()))
    return rows.append_column("batch", pa.array([day] * len(rows), pa.int32()))


def with_field_ids(rows: pa.Table, schema: Schema) -> pa.Table:
    """The same rows in the table's column order, with each column's field id.

    Raises InvalidInput for a column that the table lacks.
    """
    import pyarrow as pa

    ids = {field.name: field.id for field in schema.fields}
    unknown = sorted(set(rows.column_names) - set(ids))
    if unknown:
        raise InvalidInput(f"the table has no column {', '.join(unknown)}")
    fields = [rows.schema.field(name).with_metadata({_FIELD_ID: str(ids[name])}) for name in ids]
    return rows.select(list(ids)).cast(pa.schema(fields))


def commit_batches(
    table: Table,
    options: argparse.Namespace,
    report: Callable[..., None],
    now: Callable[[], float],
    stopped: threading.Event,
) -> None:
    """Write one Parquet file a day, append it, and report each commit as acknowledged or failed, until stopped."""
    import pyarrow.parquet as pq

    folder = Path(table.metadata.location.removeprefix("file:")) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    for day in range(1, options.batches + 1):
        if stopped.is_set():
            return
        rows = with_field_ids(departures(options.source, options.month, day, options.name), table.schema())
        file = folder / f"{options.name}-{day:02}.parquet"
        pq.write_table(rows, file, compression="zstd")
        started = now()
        try:
            done = table.append([f"file:{file}"])
        except IcebergHmsError as error:
            report("failed", batch=day, error=str(error))
            continue
        report(
            "commit",
            batch=day,
            rows=len(rows),
            milliseconds=(now() - started) * 1000,
            replays=done.replays,
            snapshot_ids=list(done.snapshot_ids),
        )


def main(arguments: Sequence[str]) -> int:
    """Connect, report `ready`, wait for a line on standard input, commit all batches, report `done`."""
    from iceberg_hms.assembly import connect

    options = parse(arguments)
    with connect(metastore_uri=options.metastore_uri, warehouse=options.warehouse) as catalog:
        table = catalog.load_table(options.table)
        _report("ready")
        if not _read_line():
            return _ORPHANED
        stopped = threading.Event()
        threading.Thread(target=_end_with_parent, args=(stopped, SYSTEM_CLOCK), daemon=True).start()
        commit_batches(table, options, _report, SYSTEM_CLOCK.monotonic, stopped)
    if stopped.is_set():
        return _ORPHANED
    _report("done")
    return 0


def _report(event: str, **values: Any) -> None:
    sys.stdout.write(orjson.dumps({"event": event, **values}).decode() + "\n")
    sys.stdout.flush()


def _read_line() -> bytes:
    # Unbuffered: a thread that waits in sys.stdin's buffer would keep the interpreter from ending.
    return os.read(sys.stdin.fileno(), 1)


def _end_with_parent(stopped: threading.Event, clock: Clock) -> None:
    with contextlib.suppress(OSError):
        while os.read(sys.stdin.fileno(), 1):
            pass
    stopped.set()
    clock.sleep(_GRACE)
    os._exit(_ORPHANED)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except IcebergHmsError as failure:
        _report("failed", batch=None, error=str(failure))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(_ORPHANED)
