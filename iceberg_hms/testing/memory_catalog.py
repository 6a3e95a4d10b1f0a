"""A whole catalog in memory: the real catalog and coordinator over fakes of their ports, for quick tests.

with memory_catalog() as catalog:
    catalog.create_namespace("logging")
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.events import LoggedEvents
from iceberg_hms.catalog.services import Services
from iceberg_hms.catalog.stage_proofs import StageProofs
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.operations.view_operations import ViewOperations
from iceberg_hms.coordinator.ports import CommitPorts
from iceberg_hms.planning.layout import VERSION as LAYOUT_VERSION
from iceberg_hms.planning.manifest_columns import ManifestColumns
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.kept_columns import ColumnFolder
from iceberg_hms.storage.manifests import ManifestStore
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_hive import MemoryHiveTables
from iceberg_hms.testing.memory_lock import MemoryTableLock
from iceberg_hms.testing.memory_metastore import MemoryMetastore
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from iceberg_hms.testing.memory_views import MemoryViewPointer


class MemoryNamespaces:
    """catalog.services.Namespaces: the databases of a metastore in memory."""

    def __init__(self, metastore: MemoryMetastore[Any]) -> None:
        self._metastore = metastore

    def list(self) -> list[str]:
        return sorted(self._metastore.databases)

    def exists(self, namespace: str) -> bool:
        return namespace in self._metastore.databases

    def create(self, namespace: str, properties: Mapping[str, str]) -> None:
        self._metastore.create_database(namespace, dict(properties))

    def load(self, namespace: str) -> dict[str, str]:
        return dict(self._metastore.database(namespace))

    def update(self, namespace: str, updates: Mapping[str, str], removals: Collection[str]) -> None:
        kept = {key: value for key, value in self.load(namespace).items() if key not in removals}
        self._metastore.databases[namespace] = {**kept, **updates}

    def drop(self, namespace: str) -> None:
        self._metastore.drop_database(namespace)


def memory_catalog(
    *,
    files: MemoryFiles | None = None,
    pointer: MemoryTablePointer | None = None,
    hive_tables: MemoryHiveTables | None = None,
    clock: Clock = SYSTEM_CLOCK,
    runtime: ThreadRuntime | None = None,
    **settings: Any,
) -> Catalog:
    """A catalog without servers. files, pointer: fakes that the test inspects or damages; hive_tables, of the same
    pointer, too. runtime: one whose threads
    the test waits for. settings: as for `iceberg_hms.connect`."""
    files = files or MemoryFiles()
    pointer = pointer or MemoryTablePointer(namespaces=())
    loaded = Settings.load({"warehouse": "file:/warehouse", **settings}, environ={})
    pointer.user = loaded.user
    namespaces = MemoryNamespaces(pointer.metastore)
    events = LoggedEvents()

    def services() -> Services:
        threads = runtime or ThreadRuntime(clock)
        lock = MemoryTableLock(runtime=threads)
        lock.short_lease_seconds = loaded.lock_short_lease_ms / 1000
        manifests = ManifestStore(files, loaded, threads)
        kept = ColumnFolder.configured(loaded, threads, layout=LAYOUT_VERSION)
        ports = CommitPorts(
            pointer=pointer,
            lock=lock,
            files=files,
            manifests=manifests.open,
            runtime=threads,
            events=events,
        )
        return Services(
            settings=loaded,
            ports=ports,
            coordinator=Coordinator(ports, loaded),
            namespaces=namespaces,
            lister=pointer,
            views=ViewOperations(ports, MemoryViewPointer(pointer), loaded),
            hive_tables=hive_tables or MemoryHiveTables(pointer),
            stage_proofs=StageProofs.of_process(threads),
            open_input=files.open,
            use_manifest_memory=manifests.use_memory,
            manifest_columns=ManifestColumns(manifests, kept),
            new_snapshot_id=clock.snapshot_id,
            subscribe=events.subscribe,
            close=lambda: None,
        )

    return Catalog(services)
