"""iceberg-hms: the Hive Metastore as a commit coordinator for Apache Iceberg tables.

    import iceberg_hms

    with iceberg_hms.connect(metastore_uri="thrift://127.0.0.1:9083", warehouse="file:/data/warehouse") as catalog:
        table = catalog.load_table("nyc.flights")
        report = table.append(["file:/data/new/a.parquet"])

Public names are imported on first use, so that `import iceberg_hms` is quick and needs no extra.
"""

from __future__ import annotations

# Libraries import it when they are used first, which fails once the main thread has ended: see thread_pool.py.
import concurrent.futures.thread  # noqa: F401
import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iceberg_hms.assembly import connect as connect
    from iceberg_hms.catalog.catalog import Catalog as Catalog
    from iceberg_hms.catalog.snapshot_changes import FileChange as FileChange
    from iceberg_hms.catalog.table import Table as Table
    from iceberg_hms.catalog.watching.head_moves import ChangeKind as ChangeKind
    from iceberg_hms.catalog.watching.new_snapshots import TableChange as TableChange
    from iceberg_hms.changes.operations.files.append import Append as Append
    from iceberg_hms.config import Settings as Settings
    from iceberg_hms.coordinator.outcome.outcome import CommitReport as CommitReport
    from iceberg_hms.coordinator.ports import TableName as TableName
    from iceberg_hms.errors import AccessDenied as AccessDenied
    from iceberg_hms.errors import AlreadyExists as AlreadyExists
    from iceberg_hms.errors import AlreadyIceberg as AlreadyIceberg
    from iceberg_hms.errors import CannotMigrate as CannotMigrate
    from iceberg_hms.errors import CommitConflict as CommitConflict
    from iceberg_hms.errors import CommitFailed as CommitFailed
    from iceberg_hms.errors import CommitStateUnknown as CommitStateUnknown
    from iceberg_hms.errors import CompareAndSwapUnproven as CompareAndSwapUnproven
    from iceberg_hms.errors import ConfigError as ConfigError
    from iceberg_hms.errors import CorruptFile as CorruptFile
    from iceberg_hms.errors import CredentialsUnavailable as CredentialsUnavailable
    from iceberg_hms.errors import DoesNotFit as DoesNotFit
    from iceberg_hms.errors import EngineError as EngineError
    from iceberg_hms.errors import FileAlreadyExists as FileAlreadyExists
    from iceberg_hms.errors import FileBeyondLimit as FileBeyondLimit
    from iceberg_hms.errors import HiveTableKept as HiveTableKept
    from iceberg_hms.errors import IcebergHmsError as IcebergHmsError
    from iceberg_hms.errors import InvalidInput as InvalidInput
    from iceberg_hms.errors import InvalidView as InvalidView
    from iceberg_hms.errors import InvariantViolated as InvariantViolated
    from iceberg_hms.errors import IssuerUnavailable as IssuerUnavailable
    from iceberg_hms.errors import LocationNotAllowed as LocationNotAllowed
    from iceberg_hms.errors import LockLost as LockLost
    from iceberg_hms.errors import LockNotAcquired as LockNotAcquired
    from iceberg_hms.errors import LockUnavailable as LockUnavailable
    from iceberg_hms.errors import MetastoreError as MetastoreError
    from iceberg_hms.errors import MetastoreRefused as MetastoreRefused
    from iceberg_hms.errors import MetastoreUnavailable as MetastoreUnavailable
    from iceberg_hms.errors import MissingFile as MissingFile
    from iceberg_hms.errors import NamespaceNotEmpty as NamespaceNotEmpty
    from iceberg_hms.errors import NoSuchNamespace as NoSuchNamespace
    from iceberg_hms.errors import NoSuchPlanId as NoSuchPlanId
    from iceberg_hms.errors import NoSuchPlanTask as NoSuchPlanTask
    from iceberg_hms.errors import NoSuchTable as NoSuchTable
    from iceberg_hms.errors import NoSuchView as NoSuchView
    from iceberg_hms.errors import NoSuchWarehouse as NoSuchWarehouse
    from iceberg_hms.errors import NotAnIcebergTable as NotAnIcebergTable
    from iceberg_hms.errors import NotAnIcebergView as NotAnIcebergView
    from iceberg_hms.errors import NotAuthenticated as NotAuthenticated
    from iceberg_hms.errors import NotFound as NotFound
    from iceberg_hms.errors import PlanUnavailable as PlanUnavailable
    from iceberg_hms.errors import ProvedFailure as ProvedFailure
    from iceberg_hms.errors import QueueFull as QueueFull
    from iceberg_hms.errors import ReadOnly as ReadOnly
    from iceberg_hms.errors import RequirementFailed as RequirementFailed
    from iceberg_hms.errors import ResourceExhausted as ResourceExhausted
    from iceberg_hms.errors import ScopeMissing as ScopeMissing
    from iceberg_hms.errors import StorageError as StorageError
    from iceberg_hms.errors import StorageRefused as StorageRefused
    from iceberg_hms.errors import UnsupportedFormat as UnsupportedFormat
    from iceberg_hms.expressions.expression import col as col
    from iceberg_hms.format.manifests.manifest import DataFile as DataFile
    from iceberg_hms.format.metadata.snapshot import Snapshot as Snapshot
    from iceberg_hms.format.metadata.table_metadata import TableMetadata as TableMetadata

_ERRORS = (
    "PlanUnavailable",
    "ProvedFailure",
    "AccessDenied",
    "AlreadyExists",
    "AlreadyIceberg",
    "ReadOnly",
    "RequirementFailed",
    "CannotMigrate",
    "CommitConflict",
    "CommitFailed",
    "CommitStateUnknown",
    "ConfigError",
    "CannotMigrate",
    "CorruptFile",
    "CredentialsUnavailable",
    "DoesNotFit",
    "EngineError",
    "FileAlreadyExists",
    "FileBeyondLimit",
    "CompareAndSwapUnproven",
    "IcebergHmsError",
    "InvalidInput",
    "InvalidView",
    "InvariantViolated",
    "IssuerUnavailable",
    "LocationNotAllowed",
    "LockLost",
    "LockNotAcquired",
    "LockUnavailable",
    "MetastoreError",
    "MetastoreRefused",
    "MetastoreUnavailable",
    "MissingFile",
    "NamespaceNotEmpty",
    "NoSuchNamespace",
    "NoSuchPlanId",
    "NoSuchPlanTask",
    "NoSuchTable",
    "NoSuchWarehouse",
    "NoSuchView",
    "HiveTableKept",
    "NotAnIcebergTable",
    "NotAnIcebergView",
    "NotAuthenticated",
    "NotFound",
    "QueueFull",
    "ScopeMissing",
    "StorageError",
    "StorageRefused",
    "ResourceExhausted",
    "UnsupportedFormat",
)

#: Public name -> the module that defines it.
PUBLIC_NAMES = dict.fromkeys(_ERRORS, "iceberg_hms.errors") | {
    "Append": "iceberg_hms.changes.operations.files.append",
    "Catalog": "iceberg_hms.catalog.catalog",
    "ChangeKind": "iceberg_hms.catalog.watching.head_moves",
    "CommitReport": "iceberg_hms.coordinator.outcome.outcome",
    "DataFile": "iceberg_hms.format.manifests.manifest",
    "FileChange": "iceberg_hms.catalog.snapshot_changes",
    "Settings": "iceberg_hms.config",
    "Snapshot": "iceberg_hms.format.metadata.snapshot",
    "Table": "iceberg_hms.catalog.table",
    "TableChange": "iceberg_hms.catalog.watching.new_snapshots",
    "TableMetadata": "iceberg_hms.format.metadata.table_metadata",
    "TableName": "iceberg_hms.coordinator.ports",
    "col": "iceberg_hms.expressions.expression",
    "connect": "iceberg_hms.assembly",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = importlib.metadata.version("iceberg-hms")
    elif name in PUBLIC_NAMES:
        value = getattr(importlib.import_module(PUBLIC_NAMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC_NAMES, "__version__"})
