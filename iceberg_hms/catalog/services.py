"""The services of a catalog, wired by assembly.py."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from iceberg_hms.catalog.events import Listener
from iceberg_hms.catalog.stage_proofs import StageProofs
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.hive_ports import HiveTables
from iceberg_hms.coordinator.operations.view_operations import ViewOperations
from iceberg_hms.coordinator.ports import CommitPorts
from iceberg_hms.memory_budget import MemoryBudget

if TYPE_CHECKING:
    from iceberg_hms.locking.lock_admin import LockAdmin
    from iceberg_hms.planning.manifest_columns import ManifestColumns


class Namespaces(Protocol):
    """Databases of the metastore. Properties are Java HiveCatalog's: `location`, `comment`,
    `hive.metastore.database.owner`, `hive.metastore.database.owner-type`, and any other as a parameter.

    All raise MetastoreUnavailable, AccessDenied, MetastoreRefused.
    """

    def list(self) -> list[str]: ...

    def exists(self, namespace: str) -> bool: ...

    def create(self, namespace: str, properties: Mapping[str, str]) -> None:
        """Raises AlreadyExists."""
        ...

    def load(self, namespace: str) -> dict[str, str]:
        """Raises NoSuchNamespace."""
        ...

    def update(self, namespace: str, updates: Mapping[str, str], removals: Collection[str]) -> None:
        """Raises NoSuchNamespace."""
        ...

    def drop(self, namespace: str) -> None:
        """Raises NoSuchNamespace, NamespaceNotEmpty."""
        ...


class TableLister(Protocol):
    def list_tables(self, namespace: str) -> Sequence[str]:
        """Names of the Iceberg tables of a database, sorted. Raises NoSuchNamespace."""
        ...

    def list_tables_after(self, namespace: str, after: str | None, limit: int) -> tuple[Sequence[str], bool]:
        """The first `limit` of these names after `after`, and whether there may be more; None: from the beginning.
        A table that was made or dropped since the first page may be missing or listed. Raises NoSuchNamespace."""
        ...

    def locations_in(
        self,
        namespace: str,
        names: Collection[str] | None = None,
        *,
        known: Mapping[str, str] | None = None,
        turn: int = 0,
    ) -> Mapping[str, str]:
        """The metadata locations of a database's Iceberg tables, by name, or of those among them with these names; none
        for a database that is not there. Never from a cache.

        known: what the last call answered, which makes this one cheaper: a table that moved may then have its known
        location once more, if it is unlucky in this turn. turn: counts the calls; in another one it is lucky, and in
        each 16th all are. Without `known` every answer is exact."""
        ...


class CredentialVending(Protocol):
    """Makes short-lived credentials of a store for clients, which the store itself narrows to some folders. Properties
    are those of Iceberg's FileIO."""

    @property
    def client_properties(self) -> Mapping[str, str]:
        """What clients need besides: where the store is and how it is called, without secrets."""
        ...

    def serves(self, location: str) -> bool:
        """Whether a location is in a store that this is for."""
        ...

    def vend(self, folders: Sequence[str], *, write: bool) -> Mapping[str, str]:
        """Credentials for what is below these folders, with the time at which they expire: to read, or to write and
        delete as well. Callers that ask for the same get the same ones, of whose life at least a third is left.
        Raises LocationNotAllowed for a folder to which the store cannot narrow them, CredentialsUnavailable."""
        ...


class MakeVending(Protocol):
    """Raises ConfigError for settings with which no credentials can be made."""

    def __call__(self, *, role_arn: str, duration_seconds: int) -> CredentialVending: ...


@dataclass(frozen=True, slots=True)
class Services:
    """subscribe: adds a listener for events. close: closes connections and ends threads; called once.
    open_input: opens a location as a pyarrow file, for reading footers. use_manifest_memory: as
    `MetadataCache.use_memory`, for manifests. manifest_columns: for scans and maintenance.
    locks, make_vending: None for a catalog in memory."""

    settings: Settings
    ports: CommitPorts
    coordinator: Coordinator
    namespaces: Namespaces
    lister: TableLister
    views: ViewOperations
    hive_tables: HiveTables
    stage_proofs: StageProofs
    open_input: Callable[[str], Any]
    use_manifest_memory: Callable[[MemoryBudget], None]
    manifest_columns: ManifestColumns
    new_snapshot_id: Callable[[], int]
    subscribe: Callable[[Listener], None]
    close: Callable[[], None]
    locks: LockAdmin | None = None
    make_vending: MakeVending | None = None
