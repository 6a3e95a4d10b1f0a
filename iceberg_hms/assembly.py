"""Wires drivers to ports. The only module that knows all drivers; `stores.py` knows those of files."""

from __future__ import annotations

import os
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.events import LoggedEvents
from iceberg_hms.catalog.services import Services
from iceberg_hms.catalog.stage_proofs import StageProofs
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.operations.view_operations import ViewOperations
from iceberg_hms.coordinator.ports import CommitPorts
from iceberg_hms.errors import ConfigError
from iceberg_hms.lock_waits import LockWaits
from iceberg_hms.locking.chosen_lock import ChosenTableLock
from iceberg_hms.locking.lock_admin import LockAdmin, LockKeeper
from iceberg_hms.locking.lock_modes import LockModes
from iceberg_hms.metastore import capabilities
from iceberg_hms.metastore.capabilities import Capabilities as Capabilities
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks import lock_table
from iceberg_hms.metastore.locks.holder_identity import agent_info
from iceberg_hms.metastore.locks.lock_table import granted_lock_seconds
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from iceberg_hms.metastore.tables.hive_tables import HmsHiveTables
from iceberg_hms.metastore.tables.namespaces import HmsNamespaces
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.metastore.tables.view_pointer import HmsViewPointer
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.drivers import make_vending
from iceberg_hms.stores import open_stores

if TYPE_CHECKING:
    from iceberg_hms.zookeeper.lock import ZooKeeperTableLock


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

    metastore_uri: `thrift://host:port`, several separated by commas; a catalog tries the next if one is unreachable.
    warehouse: the root location of databases without a location of their own.
    zookeeper: `host:port` list, for ZooKeeper locks. lock: `hms` (default), `zookeeper` or `none`.
    config_file: a TOML file with settings. properties: any further setting of `iceberg_hms.config`, by attribute name,
    or by key as in `**{"commit.retry.num-retries": 10}`.
    The environment (ICEBERG_HMS_...) and then the file supply settings that are not given here.

    Connects on the first call, which raises MetastoreUnavailable if no server answers.
    Raises ConfigError for a setting that is unknown, malformed or missing.
    """
    given = {"metastore_uri": metastore_uri, "warehouse": warehouse, "zookeeper": zookeeper, "lock": lock}
    keywords = {**properties, **{name: value for name, value in given.items() if value is not None}}
    return assemble(Settings.load(keywords, file=None if config_file is None else Path(config_file)))


def assemble(settings: Settings, *, clock: Clock = SYSTEM_CLOCK) -> Catalog:
    """A catalog with loaded settings. Raises ConfigError."""
    if not settings.metastore_uri:
        raise ConfigError("no metastore is named", next_step="give metastore_uri, or set ICEBERG_HMS_URI")
    return Catalog(partial(_services, settings, clock, LoggedEvents()))


def _services(settings: Settings, clock: Clock, events: LoggedEvents) -> Services:
    """The services of one process. A forked child publishes its commits to its copy of the same listeners."""
    stores = open_stores(settings, clock)
    runtime, files, manifests = stores.runtime, stores.files, stores.manifests
    pool = ClientPool.configured(settings)
    namespaces = HmsNamespaces(pool, user=settings.user)
    waits = LockWaits(runtime)
    hms_lock = HmsTableLock(pool, runtime, settings, waits=waits)
    zookeeper_lock = _zookeeper_lock(settings, runtime, pool, waits)
    keepers: dict[str, LockKeeper] = {"hms": lock_table.LockTable(pool)}
    if zookeeper_lock is not None:
        keepers["zookeeper"] = zookeeper_lock

    def close() -> None:
        coordinator.close()
        hms_lock.close()
        if zookeeper_lock is not None:
            zookeeper_lock.close()
        pool.close()
        stores.close()

    pointer = HmsTablePointer(pool, settings, clock=clock)
    lock = ChosenTableLock(
        pointer,
        hms_lock,
        zookeeper_lock,
        LockModes(runtime, setting=settings.lock),
        runtime,
        lock_api_works=lambda: lock_table.api_works(pool, settings, clock=clock),
        granted_lock_seconds=lambda namespace: granted_lock_seconds(pool, settings, namespace, clock=clock),
    )
    ports = CommitPorts(
        pointer=pointer,
        lock=lock,
        files=files,
        manifests=manifests.open,
        runtime=runtime,
        events=events,
        foreign_writer_waits=hms_lock.foreign_writer_waits,
        lock_held_by=waits.held_by,
    )
    coordinator = Coordinator(ports, settings)
    return Services(
        settings=settings,
        ports=ports,
        coordinator=coordinator,
        namespaces=namespaces,
        lister=pointer,
        views=ViewOperations(ports, HmsViewPointer(pool, settings, clock=clock), settings),
        hive_tables=HmsHiveTables(pool, settings, clock=clock),
        stage_proofs=StageProofs.of_process(runtime),
        open_input=files.open,
        use_manifest_memory=manifests.use_memory,
        manifest_columns=stores.manifest_columns,
        new_snapshot_id=clock.snapshot_id,
        subscribe=events.subscribe,
        close=close,
        locks=LockAdmin(ports, settings, lock, keepers),
        make_vending=partial(make_vending, settings, clock),
    )


def _zookeeper_lock(
    settings: Settings, runtime: ThreadRuntime, pool: ClientPool, waits: LockWaits
) -> ZooKeeperTableLock | None:
    if not settings.zookeeper:
        return None
    from iceberg_hms.zookeeper.lock import ZooKeeperTableLock
    from iceberg_hms.zookeeper.session import ZooKeeperSession

    session = ZooKeeperSession(
        settings.zookeeper,
        runtime,
        timeout_ms=settings.zookeeper_session_timeout_ms,
        connect_timeout_ms=settings.connect_timeout_ms,
    )

    return ZooKeeperTableLock(
        session,
        runtime,
        agent_info=agent_info,
        user=settings.user,
        host=socket.gethostname(),
        may_overwrite=pool.cas_support.may_overwrite,
        swap_seconds=settings.unanswered_swap_timeout_ms / 1000,
        waits=waits,
    )


def probe_server(uri: str, settings: Settings) -> Capabilities:
    """The capabilities of one metastore. Raises MetastoreUnavailable if it is unreachable."""
    return capabilities.probe(uri, settings)
