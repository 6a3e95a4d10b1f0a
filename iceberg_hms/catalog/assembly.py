"""The one place that wires drivers to ports."""

from __future__ import annotations

import os
from pathlib import Path

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.events import LoggedEvents
from iceberg_hms.catalog.runtime import ThreadRuntime
from iceberg_hms.catalog.services import Services
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.world import World
from iceberg_hms.errors import ConfigError
from iceberg_hms.metastore import capabilities
from iceberg_hms.metastore.lock import HmsTableLock
from iceberg_hms.metastore.namespaces import HmsNamespaces
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.tables import HmsTablePointer
from iceberg_hms.storage.files import PyArrowFiles
from iceberg_hms.storage.manifests import ManifestStore


def connect(
    metastore_uri: str | None = None,
    warehouse: str | None = None,
    zookeeper: str | None = None,
    lock: str | None = None,
    *,
    config_file: str | os.PathLike[str] | None = None,
    **properties: object,
) -> Catalog:
    """A catalog over a Hive Metastore.

    metastore_uri: `thrift://host:port`, several with commas; the others are tried when one is out of reach.
    warehouse: the location under which databases are created that name none of their own.
    zookeeper: `host:port` list, for ZooKeeper locks. lock: `hms` (default), `zookeeper` or `none`.
    config_file: a TOML file with settings. properties: any further setting of `iceberg_hms.config`, by attribute name,
    or by key as in `**{"commit.retry.num-retries": 10}`.
    What is not given here is looked for in the environment (ICEBERG_HMS_...) and then in the file.

    Nothing is connected before the first call, which raises MetastoreUnavailable if no server answers.
    Raises ConfigError for a setting that is unknown, malformed or missing.
    """
    given = {"metastore_uri": metastore_uri, "warehouse": warehouse, "zookeeper": zookeeper, "lock": lock}
    keywords = {**properties, **{name: value for name, value in given.items() if value is not None}}
    return assemble(Settings.load(keywords, file=None if config_file is None else Path(config_file)))


def assemble(settings: Settings, *, clock: Clock = SYSTEM_CLOCK) -> Catalog:
    """A catalog of settings that were loaded already. Raises ConfigError."""
    if not settings.metastore_uri:
        raise ConfigError("no metastore is named", next_step="give metastore_uri, or set ICEBERG_HMS_URI")
    if settings.lock != "hms":
        raise ConfigError(f"lock={settings.lock} is not available yet", next_step="leave it at hms")
    runtime = ThreadRuntime(clock)
    pool = ClientPool(
        [uri.strip() for uri in settings.metastore_uri.split(",")],
        size=settings.clients,
        connect_timeout_ms=settings.connect_timeout_ms,
        socket_timeout_ms=settings.socket_timeout_ms,
        user=settings.user,
    )
    lock = HmsTableLock(pool, runtime, settings)

    def close() -> None:
        lock.close()
        pool.close()

    pointer = HmsTablePointer(pool, settings, clock=clock)
    files = PyArrowFiles(fsync=settings.storage_fsync, clock=clock)
    manifests = ManifestStore(files, settings, runtime)
    world = World(
        pointer=pointer,
        lock=lock,
        files=files,
        manifests=manifests.open,
        runtime=runtime,
        events=LoggedEvents(),
    )
    return Catalog(
        Services(
            settings=settings,
            world=world,
            coordinator=Coordinator(world, settings),
            namespaces=HmsNamespaces(pool, user=settings.user),
            lister=pointer,
            open_input=files.open,
            new_snapshot_id=clock.snapshot_id,
            close=close,
        )
    )


def probe_server(uri: str, settings: Settings) -> capabilities.Capabilities:
    """What one metastore of the list can do. Raises MetastoreUnavailable if it cannot be reached."""
    return capabilities.probe(uri, settings)


def open_files(settings: Settings) -> PyArrowFiles:
    """Files as a catalog with these settings reads and writes them."""
    return PyArrowFiles(fsync=settings.storage_fsync)
