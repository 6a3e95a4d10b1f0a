"""What reads and writes files by settings alone: for catalogs, and for a migration's tasks, which need no metastore."""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.planning import layout
from iceberg_hms.planning.manifest_columns import ManifestColumns
from iceberg_hms.runtime import GATHER_THREADS, ThreadRuntime
from iceberg_hms.storage.drivers import remote_drivers
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.kept_columns import ColumnFolder
from iceberg_hms.storage.manifests import DECODERS, ManifestStore


@dataclass(frozen=True, slots=True)
class Stores:
    """Files and manifests, and the threads that read and write several at once. All may be shared between threads.
    decoders: with the threads that decode manifests into columns. manifest_columns: manifests for scans."""

    runtime: ThreadRuntime
    decoders: ThreadRuntime
    files: RoutedFiles
    manifests: ManifestStore
    manifest_columns: ManifestColumns

    def close(self) -> None:
        """End the threads once they are idle."""
        self.runtime.close()
        self.decoders.close()


def open_stores(settings: Settings, clock: Clock = SYSTEM_CLOCK) -> Stores:
    """The stores of one process. Connects to none before a location asks for it. Who opens them closes them. Raises
    ConfigError for a folder of `planning.cache-dir` that others can write to."""
    runtime = ThreadRuntime(clock, threads=max(GATHER_THREADS, settings.io_threads))
    files = RoutedFiles(
        remote_drivers(settings, clock),
        fsync=settings.storage_fsync,
        gather=runtime.gather,
        io_threads=settings.io_threads,
        read_retries=settings.metadata_refresh_max_retries,
        clock=clock,
    )
    decoders = ThreadRuntime(clock, threads=DECODERS)
    manifests = ManifestStore(files, settings, runtime, decoders=decoders)
    kept = ColumnFolder.configured(settings, runtime, layout=layout.VERSION)
    return Stores(runtime, decoders, files, manifests, ManifestColumns(manifests, kept))


def open_files(settings: Settings) -> RoutedFiles:
    """Files as a catalog with these settings reads and writes them, one after the other."""
    return RoutedFiles(
        remote_drivers(settings), fsync=settings.storage_fsync, read_retries=settings.metadata_refresh_max_retries
    )
