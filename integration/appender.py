"""One writer, as a program of its own: appends small Parquet files to a table through the Python API.

    python -m integration.appender METASTORE_URI WAREHOUSE TABLE FOLDER WRITER COUNT

It writes `ready`, waits for a line on its input so that all writers start together, and then writes one JSON line for
each append: {"path": ..., "error": null or text}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import iceberg_hms
from integration import interop


def main(uri: str, warehouse: str, table_name: str, folder: Path, writer: int, count: int) -> None:
    with iceberg_hms.connect(metastore_uri=uri, warehouse=warehouse) as catalog:
        table = catalog.load_table(table_name)
        _say("ready")
        sys.stdin.readline()
        for number in range(count):
            path = interop.small_parquet(folder / f"{writer}-{number}.parquet", [writer * 1_000_000 + number])
            error = None
            try:
                table.append([f"file:{path}"])
            except iceberg_hms.IcebergHmsError as raised:
                error = f"{type(raised).__name__}: {raised}"
            _say(json.dumps({"path": f"file:{path}", "error": error}))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
