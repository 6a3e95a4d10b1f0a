"""One writer, as a program of its own: appends small Parquet files to a table.

    python -m integration.appender URI WAREHOUSE TABLE FOLDER WRITER COUNT [CLIENT]

FOLDER is a local one, or a location on S3, which the settings in the environment (ICEBERG_HMS_S3_*) then reach.
CLIENT is what appends: `library` (the default) is ours; `same` is ours with files that are there already, the same
for all writers; `unlocked` is ours with its lock switched off; `hive` is PyIceberg's Hive catalog; `rest` is
PyIceberg's REST catalog, and URI then a server of ours.

It writes `ready`, waits for a line on its input so that all writers start together, and then writes one JSON line for
each append: {"path": ..., "error": null or text, "refused": whether the error proves that nothing of it is in the
table, "snapshot_id": of a success, if the client returns it}.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import requests

import iceberg_hms
from iceberg_hms.assembly import open_files
from iceberg_hms.config import Settings
from integration import interop
from integration.faults import rewired, until

#: Appends one file, by its location; returns its snapshot, None if the client does not return it.
Append = Callable[[str], int | None]


@contextmanager
def library(uri: str, warehouse: str, table_name: str, *, locked: bool = True) -> Iterator[Append]:
    with iceberg_hms.connect(metastore_uri=uri, warehouse=warehouse) as connected:
        table = (connected if locked else unlocked(connected)).load_table(table_name)
        yield lambda location: table.append([location]).snapshot_ids[0]


def unlocked(catalog: Any) -> Any:
    """A catalog with a lock that only this process sees, which no setting allows on a table with other writers."""
    from iceberg_hms.testing.memory_lock import MemoryTableLock

    return rewired(catalog, lock=MemoryTableLock())


@contextmanager
def pyiceberg(kind: str, uri: str, warehouse: str, table_name: str) -> Iterator[Append]:
    from pyiceberg.catalog import load_catalog

    with closing(load_catalog(kind, type=kind, uri=uri, warehouse=warehouse)) as catalog:
        table = catalog.load_table(table_name)

        def append(location: str) -> int | None:
            try:
                table.add_files([location], check_duplicate_files=False)
            except requests.ConnectionError:
                until(lambda: is_loaded_again(table), "the server is back")
                raise
            current = table.current_snapshot()
            # A server may answer with a table that has later appends of the same group in it.
            return current.snapshot_id if current is not None and kind == "hive" else None

        yield append


def is_loaded_again(table: Any) -> bool:
    try:
        table.refresh()
    except requests.ConnectionError:
        return False
    return True


def is_refusal(error: Exception) -> bool:
    """Whether an error proves that nothing changed: all of our errors but one do, and only one of PyIceberg's."""
    from pyiceberg.exceptions import CommitFailedException

    if isinstance(error, iceberg_hms.IcebergHmsError):
        return not isinstance(error, iceberg_hms.CommitStateUnknown)
    return isinstance(error, CommitFailedException)


def write(location: str, ids: list[int]) -> None:
    """Write a Parquet file of a few rows."""
    if location.startswith("file:"):
        interop.small_parquet(Path(location.removeprefix("file:")), ids)
        return
    with tempfile.TemporaryDirectory() as folder:
        data = interop.small_parquet(Path(folder) / "data", ids).read_bytes()
    open_files(Settings.load({})).write(location, data)


def main(uri: str, warehouse: str, table: str, folder: str, writer: int, count: int, client: str = "library") -> None:
    given = (uri, warehouse, table)
    opened = pyiceberg(client, *given) if client in ("hive", "rest") else library(*given, locked=client != "unlocked")
    # Of PyIceberg any error is counted, whatever it is; of ours, only those that we declare.
    errors = Exception if client in ("hive", "rest") else iceberg_hms.IcebergHmsError
    with opened as append:
        _say("ready")
        sys.stdin.readline()
        for number in range(count):
            name = f"{number}.parquet" if client == "same" else f"{writer}-{number}.parquet"
            path = f"{folder}/{name}" if "://" in folder else f"file:{folder}/{name}"
            result: dict[str, Any] = {"path": path, "error": None, "refused": False, "snapshot_id": None}
            try:
                if client != "same":
                    write(path, [writer * 1_000_000 + number])
                result["snapshot_id"] = append(path)
            except errors as raised:
                result |= {"error": f"{type(raised).__name__}: {raised}", "refused": is_refusal(raised)}
            _say(json.dumps(result))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uri, warehouse, table, folder, writer, count, *client = sys.argv[1:]
    main(uri, warehouse, table, folder, int(writer), int(count), *client)
