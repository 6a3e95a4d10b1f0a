"""What one append enters of the package: modules, functions, classes, calls, and the frames between the coordinator and
the metastore's socket. It counts, and measures no time, so the figures of two revisions can be compared on any machine.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa

import iceberg_hms
from benchmarks import instruments
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.local.metastore import LocalMetastore

PACKAGE = str(Path(iceberg_hms.__file__).parent)
#: Appends before the one that is counted: they open connections and fill caches.
WARM_UP = 3


class Walk:
    """Functions of the package that were entered within. calls: of each. hops: from the coordinator's last function to
    the socket, for each metastore call that a swap sends."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.hops: list[list[str]] = []
        self._counts = False
        # Threads are asked as they start, so this comes before the catalog's.
        threading.setprofile(self._entered)
        sys.setprofile(self._entered)

    def __enter__(self) -> Walk:
        self._counts = True
        return self

    def __exit__(self, *_: object) -> None:
        self._counts = False
        sys.setprofile(None)
        threading.setprofile(None)

    def _entered(self, frame: FrameType, event: str, function: Any) -> None:
        if not self._counts:
            return
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self.calls[frame.f_code] += 1
        elif event == "c_call" and getattr(function, "__qualname__", "") == socket.socket.sendall.__qualname__:
            self._sent(frame)

    def _sent(self, frame: FrameType | None) -> None:
        path: list[str] = []
        while frame is not None and "/coordinator/" not in frame.f_code.co_filename:
            path.append(frame.f_code.co_qualname)
            frame = frame.f_back
        if frame is not None and any(name.endswith("TablePointer.swap") for name in path):
            self.hops.append(path[::-1])

    def summary(self) -> list[str]:
        """Lines for people."""
        code = list(self.calls)
        modules = {each.co_filename for each in code}
        functions = {each for each in code if each.co_name != "<module>"}
        classes = {(each.co_filename, owner) for each in functions if (owner := _class_of(each))}
        rooms = Counter(str(Path(each.co_filename).relative_to(PACKAGE).parent) for each in self.calls.elements())
        lines = [
            f"modules {len(modules)}, functions {len(functions)}, classes {len(classes)}, calls {self.calls.total()}",
            f"frames from the coordinator to the socket: {min(map(len, self.hops), default=0)}",
            *(f"  {name}" for name in min(self.hops, key=len, default=[])),
            "calls by room:",
        ]
        return lines + [f"  {count:6} {room}" for room, count in rooms.most_common(12)]


def walk() -> None:
    """Count what one append enters: one writer of the Python API on a real metastore, after a warm-up."""
    parser = instruments.parser(walk.__doc__)
    parser.add_argument("--functions", type=int, default=0, help="list so many functions with the most calls")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, LocalMetastore(Path(folder) / "hms") as metastore:
        walked = Walk()
        catalog = iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse)
        try:
            catalog.create_namespace("walk")
            table = catalog.create_table("walk.t", pa.schema([pa.field("id", pa.int64())]))
            for number in range(WARM_UP):
                table.append([_file(number)])
            with walked:
                table.append([_file(WARM_UP)])
        finally:
            catalog.close()
    print("\n".join(walked.summary()))
    for code, count in walked.calls.most_common(options.functions):
        print(f"  {count:6} {Path(code.co_filename).relative_to(PACKAGE)} {code.co_qualname}")


def _class_of(code: CodeType) -> str:
    """The class whose method this is, or lies in; "" for a function of a module."""
    return code.co_qualname.partition(".<locals>")[0].rpartition(".")[0]


def _file(number: int) -> DataFile:
    return DataFile(f"file:/nowhere/walk-{number}.parquet", "PARQUET", 10, 1_000)
