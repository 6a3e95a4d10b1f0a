"""A coordinator over the fakes, and the truth about its table read from them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from iceberg_hms.catalog.schemas import to_schema
from iceberg_hms.changes.change import Change
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.group.commit_group import CommitGroup, GroupResult
from iceberg_hms.coordinator.outcome.already_committed import AlreadyCommitted, LookupSources
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwaps
from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.reading.uuid_lookup import UuidLookup
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.format.file_bounds import FileBounds
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.create import create_updates, new_table_metadata
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_lock import MemoryTableLock
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from iceberg_hms.testing.memory_metastore import LockQueues
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from simulation.world.first_table import one_file

Begun = TypeVar("Begun")

#: Before 1970: clients' snapshots in tests have timestamps of any year.
LONG_AGO_SECONDS = 100 * 365 * 86_400.0

NAME = TableName("db", "t")
SCHEMA = to_schema(pa.schema([("id", pa.int64()), ("level", pa.string())]))


class QuickRuntime(ThreadRuntime):
    """Real threads, with a `join`. Notes each sleep, cuts it to 2 ms, and moves its clock on as if it had slept in
    full. skipped: by how many seconds the clock is ahead of the real one; a test may add to it. early: by how many
    seconds all clocks are behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []
        self.skipped = 0.0
        self.early = 0.0
        self.threads: list[threading.Thread] = []

    def spawn(self, name: str, function: Callable[[], None], *, background: bool = False) -> None:
        is_known = threading.Event()

        def run() -> None:
            # By itself: Ctrl-C may end the caller's `spawn` before that could note the thread for `join`.
            self.threads.append(threading.current_thread())
            is_known.set()
            function()

        threading.Thread(target=run, name=name).start()
        is_known.wait()

    def join(self) -> None:
        """Wait for all workers, so that what they tidy up after their callers' answers is done."""
        for thread in self.threads:
            thread.join(30)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        super().sleep(min(seconds, 0.002))
        self.skipped += max(0.0, seconds - 0.002)

    def now(self) -> float:
        return super().now() + self.skipped - self.early

    def now_ms(self) -> int:
        return super().now_ms() - int(self.early * 1000)


class Harness:
    def __init__(self, lock_queues: LockQueues | None = None, **settings: Any) -> None:
        self.runtime = QuickRuntime()
        self.pointer = MemoryTablePointer()
        self.pointer.folders["db"] = ["file:/wh/db"]
        self.files = MemoryFiles()
        self.manifests = MemoryManifestStore()
        self.lock = MemoryTableLock(lock_queues, runtime=self.runtime)
        self.events: list[Mapping[str, Any]] = []
        self.settings = replace(Settings.load({}, environ={}), **settings)
        self.ports = CommitPorts(
            pointer=self.pointer,
            lock=self.lock,
            files=self.files,
            manifests=self.manifests.open,
            runtime=self.runtime,
            events=self,
        )
        self.coordinator = self.begun_before(lambda: Coordinator(self.ports, self.settings))

    def begin_now(self) -> None:
        """Go on with a coordinator that has just begun: it does not know what an earlier process sent."""
        self.coordinator = Coordinator(self.ports, self.settings)

    def begun_before(self, begin: Callable[[], Begun]) -> Begun:
        """What belongs to a process that began so long ago that it knows of all swaps with the changes of a test."""
        self.runtime.early = LONG_AGO_SECONDS
        try:
            return begin()
        finally:
            self.runtime.early = 0.0

    def publish(self, event: Mapping[str, Any]) -> None:
        self.events.append(event)

    def another(self) -> Coordinator:
        """One more coordinator on the same table, as another process has it."""
        return self.begun_before(lambda: Coordinator(self.another_process(), self.settings))

    def another_process(self) -> CommitPorts:
        """The ports of another process on the same table."""
        return replace(self.ports, lock=MemoryTableLock(self.lock.queues, runtime=self.runtime))

    def replace_ports(self, **ports: Any) -> None:
        """Go on with a new coordinator that has other ports."""
        self.ports = replace(self.ports, **ports)
        self.coordinator = self.begun_before(lambda: Coordinator(self.ports, self.settings))

    def restart(self, **settings: Any) -> None:
        """Go on with a new coordinator that has other settings."""
        self.settings = replace(self.settings, **settings)
        self.coordinator = self.begun_before(lambda: Coordinator(self.ports, self.settings))

    def create(self, **properties: str) -> TableMetadata:
        clock = SYSTEM_CLOCK
        metadata = new_table_metadata(
            SCHEMA, None, None, "file:/wh/db/t", properties, uuid=clock.uuid(), now_ms=clock.now_ms()
        )
        change = from_request([{"type": "assert-create"}], create_updates(metadata))
        # Tests rename their table and make another one in the same folder, as other writers do: a table around the
        # root is nobody's neighbour.
        self.coordinator.operations.create(NAME, change, root="file:/wh/db/t/data")
        return self.metadata()

    def commit(self, change: Any, wait_seconds: float = 30.0, coordinator: Coordinator | None = None) -> Any:
        try:
            return (coordinator or self.coordinator).commit(NAME, change, wait_seconds=wait_seconds)
        finally:
            if threading.current_thread() is threading.main_thread():
                self.runtime.join()

    def group(
        self,
        *commits: PendingCommit,
        ports: CommitPorts | None = None,
        last: GroupResult | None = None,
        began_now: bool = False,
    ) -> GroupResult:
        """Commit pending commits as one group, without a queue. began_now: in a process that has just begun."""
        return self.begin_group(*commits, ports=ports, last=last, began_now=began_now).commit()

    def begin_group(
        self,
        *commits: PendingCommit,
        ports: CommitPorts | None = None,
        last: GroupResult | None = None,
        began_now: bool = False,
        sources: LookupSources | None = None,
    ) -> CommitGroup:
        """Such a group before it is committed. sources: those of its process, if it has sent something."""
        cache = self.cache()
        sources = sources or self.sources(cache, began_now=began_now)
        return CommitGroup(ports or self.ports, cache, self.settings, NAME, commits, sources, last or GroupResult())

    def members(self, *changes: Change) -> list[PendingCommit]:
        already_committed = self.already_committed()
        return [PendingCommit(self.runtime, change, 30.0, already_committed) for change in changes]

    def already_committed(self) -> AlreadyCommitted:
        return AlreadyCommitted(NAME, self.sources(self.cache()))

    def cache(self) -> MetadataCache:
        bounds = FileBounds.of(self.settings.as_dict())
        return MetadataCache(self.files, self.runtime, max_bytes=1_000_000, bounds=bounds)

    def sources(self, cache: MetadataCache, *, began_now: bool = False) -> LookupSources:
        """Where to look for changes, for a process that has sent nothing yet."""

        def load(name: TableName) -> TableVersion:
            return cache.version(self.pointer.load(name))

        lookup = UuidLookup(self.ports, cache, self.settings)
        sent = SentSwaps(self.runtime) if began_now else self.begun_before(lambda: SentSwaps(self.runtime))
        return LookupSources(load, lookup.find, cache.peek, sent)

    def version(self) -> TableVersion:
        return self.coordinator.load(NAME)

    def metadata(self) -> TableMetadata:
        return self.read_metadata(self.location())

    def read_metadata(self, location: str) -> TableMetadata:
        return TableMetadata.parse(self.files.read(location))

    def location(self) -> str:
        return self.pointer.rows[NAME].parameters["metadata_location"]

    def data_files(self) -> list[str]:
        """Live data files of the current snapshot, each as often as the manifests have it."""
        metadata = self.metadata()
        if metadata.current_snapshot is None:
            return []
        reader = self.manifests.open()
        entries = reader.entries(reader.list(metadata.current_snapshot))
        return sorted(entry.data_file.file_path for entry in entries)

    def metadata_files(self) -> set[str]:
        return {location for location in self.files.locations() if location.endswith(".metadata.json")}

    def foreign_commit(self, **properties: str) -> str:
        """Another writer's commit, which asks neither lock nor expected value."""
        base, location = self.metadata(), self.location()
        moved = base.replace(properties={**base.properties, **properties}).with_metadata_log_entry(
            location, base.last_updated_ms
        )
        new = f"file:/wh/db/t/metadata/99999-{SYSTEM_CLOCK.uuid()}.metadata.json"
        self.files.write(new, moved.to_bytes())
        self.pointer.point(NAME, new)
        return new


def append(
    path: str, *, uuid: str | None = None, snapshot_id: int | None = None, key: str | None = None, **more: Any
) -> Append:
    snapshot_id = snapshot_id or SYSTEM_CLOCK.snapshot_id()
    new = NewSnapshot(snapshot_id=snapshot_id, table_uuid=uuid, idempotency_key=key, now_ms=SYSTEM_CLOCK.now_ms, **more)
    return Append(new.of_job("append", added=[path]), one_file(path, snapshot_id))


def set_properties(*requirements: Mapping[str, Any], **properties: str) -> Any:
    return from_request(list(requirements), [{"action": "set-properties", "updates": properties}])
