"""A process that plans scans for a server, so that commits do not wait for the interpreter.

The server starts it with a socket, over which it sends the settings of a warehouse and then one task after another. It
opens files by those settings and asks no metastore. It gives way to all other processes (`nice`), and ends as soon as
the server closes the socket, or is gone.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import signal
import socket
import struct
import sys
import threading
from dataclasses import dataclass, replace
from typing import Any, Final

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.locations.location_policy import LocationPolicy
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache
from iceberg_hms.errors import IcebergHmsError, PlanUnavailable
from iceberg_hms.format.metadata.gzip_parts import GzipStart
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.planning.answers import PlanAnswer, PlanJob, answer
from iceberg_hms.stores import open_stores

logger = logging.getLogger(__name__)

#: By how much the process gives way to others.
NICE: Final = 10
#: Bytes of the tables' metadata that it remembers.
_METADATA_BYTES: Final = 64 * 1024 * 1024
_LENGTH: Final = struct.Struct("!Q")


@dataclass(frozen=True, slots=True)
class PlanningSetup:
    """settings: of the warehouse. allowed_locations, strict: as for `LocationPolicy`; None: clients may name every
    location. memory_bytes: for what it reads."""

    settings: Settings
    allowed_locations: str | None
    strict: bool
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class PlanningTask:
    """metadata_location: of the table. version: of the file there. folder: of the table, as its row names it. packed:
    whether the answer is gzip, which takes the process's time, not the server's."""

    metadata_location: str
    version: tuple[str | None, int]
    folder: str | None
    job: PlanJob
    packed: bool


def version_of(metadata: TableMetadata) -> tuple[str | None, int]:
    """What tells a metadata file from another one that had its name before."""
    return metadata.uuid, metadata.last_updated_ms


def send(channel: socket.socket, value: object) -> None:
    """Send a value. Raises OSError."""
    data = pickle.dumps(value, protocol=5)
    channel.sendall(_LENGTH.pack(len(data)))
    channel.sendall(data)


def receive(channel: socket.socket) -> Any:
    """The next value that the other side sent, which is a process of the same server. Raises EOFError once it has
    closed the socket, OSError."""
    (length,) = _LENGTH.unpack(_exactly(channel, _LENGTH.size))
    return pickle.loads(_exactly(channel, length))  # noqa: S301 - only this server and its own process have the socket


def _exactly(channel: socket.socket, length: int) -> bytearray:
    data = bytearray(length)
    view = memoryview(data)
    while view:
        received = channel.recv_into(view)
        if not received:
            raise EOFError
        view = view[received:]
    return data


class Planner:
    """Answers tasks by what a warehouse's settings open."""

    def __init__(self, setup: PlanningSetup) -> None:
        stores = open_stores(setup.settings)
        budget = MemoryBudget(setup.memory_bytes, setup.memory_bytes)
        stores.manifests.use_memory(budget)
        self._stores = stores
        self._columns = stores.manifest_columns
        self._metadata = MetadataCache(
            stores.files, stores.runtime, max_bytes=_METADATA_BYTES, bounds=stores.manifests.bounds
        )
        self._policy: LocationPolicy | None = None
        if setup.allowed_locations is not None:
            self._policy = LocationPolicy(
                stores.files,
                warehouse=setup.settings.warehouse,
                allowed=setup.allowed_locations,
                strict=setup.strict,
            )

    def answer(self, task: PlanningTask) -> PlanAnswer:
        """Raises as `planning.answers.answer`; PlanUnavailable for metadata that is no longer there."""
        location = task.metadata_location
        metadata = self._metadata.get(location, versions=1)
        if version_of(metadata) != task.version:
            metadata = self._metadata.read_anew(location)
        if version_of(metadata) != task.version:
            raise PlanUnavailable("The table's metadata file was replaced while its scan was planned")
        guard = None
        if self._policy is not None:
            guard = self._policy.guard(task.folder, location.rpartition("/")[0], base=metadata)
        manifests = self._stores.manifests.open()
        monotonic = SYSTEM_CLOCK.monotonic
        found = answer(metadata, task.job, manifests, self._columns, monotonic=monotonic, guard=guard)
        if task.packed and isinstance(found.tasks, bytes):
            found = replace(found, tasks=GzipStart.of(b"{" + found.tasks))
        return found


def serve(channel: socket.socket) -> None:
    """Answer tasks until the other side closes the socket, which ends the process."""
    received: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:
        try:
            while True:
                received.put(receive(channel))
        except (EOFError, OSError):
            # Whatever is being planned: nobody waits for it any more.
            os._exit(0)

    threading.Thread(target=read, name="iceberg-hms-plan-read", daemon=True).start()
    planner = Planner(received.get())
    while True:
        task: PlanningTask = received.get()
        try:
            result: object = planner.answer(task)
        except IcebergHmsError as error:
            result = error
        except Exception as error:
            logger.exception("a plan failed")
            result = PlanUnavailable(f"The plan failed: {type(error).__name__}")
        send(channel, result)


def main() -> None:
    """The process's body; its argument is the number of the socket."""
    # Who stops the server by the keyboard or a supervisor signals all of its processes; this one ends with the server.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICE)
    logging.basicConfig(level=logging.WARNING)
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
