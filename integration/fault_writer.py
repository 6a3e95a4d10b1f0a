"""One writer, as a program of its own that a test kills or stops: appends one data file to a table.

    python -m integration.fault_writer JOB      (JSON; see integration.faults.Scene.writer)

It writes `ready` when the table is loaded, waits for a line on its input, and writes what the append came to as one
JSON line. With stop_at = "metadata-write" it stops itself (SIGSTOP) just before the metadata file is written.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from typing import Any

import iceberg_hms
from iceberg_hms.format.manifests.manifest import DataFile
from integration.faults import rewired


class StoppingFiles:
    """coordinator.ports.Files that stops its own process before the coordinator writes a file."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def write(self, location: str, data: bytes) -> None:
        # To this thread: a signal to the process may meet another first, and this one goes on for a moment.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        self._files.write(location, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


def main(job: dict[str, Any]) -> None:
    connected = iceberg_hms.connect(metastore_uri=job["uri"], warehouse=job["warehouse"], **job["settings"])
    with connected as catalog:
        writer = rewired(catalog, files=StoppingFiles) if job["stop_at"] == "metadata-write" else catalog
        table = writer.load_table(job["table"])
        _say("ready")
        sys.stdin.readline()
        data_file = DataFile(job["path"], "PARQUET", record_count=2, file_size_in_bytes=8)
        snapshot_ids: tuple[int, ...] = ()
        error = None
        try:
            snapshot_ids = table.append([data_file]).snapshot_ids
        except iceberg_hms.IcebergHmsError as raised:
            error = type(raised).__name__
        _say(json.dumps({"snapshot_ids": snapshot_ids, "error": error}))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
