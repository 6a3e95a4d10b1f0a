"""A server that counts all of its calls to the metastore, and whose writes of files can be made to take longer, as on a
store that is far away; else as `iceberg-hms serve`.

    python -m benchmarks.watched_server --metastore-uri URI --warehouse LOCATION [--write-seconds 0.06]

It prints one line of JSON when it listens, and for each line of its input one with the calls so far, by method. It ends
when its input does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
from pyarrow.fs import LocalFileSystem

import iceberg_hms
from benchmarks.writers import count_calls
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.rest.server import RestServer
from iceberg_hms.storage.files import PyArrowFiles
from iceberg_hms.storage.manifests import ManifestStore


class SlowFilesystem:
    """Local files, as a store that is far away: each file takes so many seconds more to be written. It is no
    LocalFileSystem, so that files come one by one, as they come to an object store."""

    def __init__(self, seconds: float, runtime: Runtime) -> None:
        self._files = LocalFileSystem()
        self._seconds = seconds
        self._runtime = runtime

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open_output_stream(self, path: str) -> Any:
        self._runtime.sleep(self._seconds)
        return self._files.open_output_stream(path)


def slowed(catalog: Catalog, seconds: float) -> Catalog:
    """The same catalog on slow files."""
    services = catalog.services
    runtime = services.world.runtime
    files = PyArrowFiles(
        filesystem=lambda _location: SlowFilesystem(seconds, runtime),
        gather=runtime.gather,
        io_threads=services.settings.io_threads,
    )
    manifests = ManifestStore(files, services.settings, runtime)
    world = replace(services.world, files=files, manifests=manifests.open)
    made = replace(services, world=world, coordinator=Coordinator(world, services.settings))
    return Catalog(lambda: made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metastore-uri", required=True)
    parser.add_argument("--warehouse", required=True)
    parser.add_argument("--write-seconds", type=float, default=0.0)
    given = parser.parse_args()
    calls = count_calls()
    with iceberg_hms.connect(given.metastore_uri, given.warehouse) as catalog:
        served = slowed(catalog, given.write_seconds) if given.write_seconds else catalog
        with RestServer(served, host="127.0.0.1", port=0, token=None) as server:
            _say({"uri": server.uri, "pid": os.getpid()})
            for _ in sys.stdin:
                _say(dict(calls))


def _say(answer: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
