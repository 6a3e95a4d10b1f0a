"""What the REST layer needs of a catalog. `iceberg_hms.catalog.Catalog` has it all; so has the fake in the tests.

Every method but `submit` blocks, and all raise errors of `iceberg_hms.errors`. Names are (namespace, table) pairs as
the client sent them; the catalog folds their case and refuses what the metastore cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from iceberg_hms.changes.change import Requirement, Update
    from iceberg_hms.changes.request import Client
    from iceberg_hms.config import Settings
    from iceberg_hms.coordinator.ports import TableName
    from iceberg_hms.coordinator.protocol.commit_report import CommitReport
    from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: (namespace, table), decoded.
Identifier = tuple[str, str]
#: A JSON object in the shape of the REST protocol.
JsonObject = Mapping[str, Any]


class TablePort(Protocol):
    """A table that was created, registered, or loaded."""

    @property
    def metadata(self) -> TableMetadata: ...

    @property
    def metadata_location(self) -> str: ...


class LoadedPort(Protocol):
    """A table as it is served. metadata_location: None for a table that is staged and not yet created."""

    @property
    def metadata(self) -> TableMetadata: ...

    @property
    def metadata_location(self) -> str | None: ...


class StagedPort(Protocol):
    """A table that a client is about to create by a commit."""

    @property
    def metadata(self) -> TableMetadata: ...


class NamespaceUpdatePort(Protocol):
    """What became of a change of namespace properties."""

    @property
    def updated(self) -> Collection[str]: ...

    @property
    def removed(self) -> Collection[str]: ...

    @property
    def missing(self) -> Collection[str]: ...


class PendingCommitPort(Protocol):
    """A commit in its table's queue."""

    @property
    def withdrawn(self) -> bool:
        """Whether it was withdrawn."""
        ...

    def when_settled(self, listener: Callable[[], None], /) -> None:
        """Call `listener` once it has its outcome, on any thread."""
        ...

    def withdraw(self) -> bool:
        """Wait no longer. False: a swap may carry it, so its outcome must be waited for."""
        ...

    def result(self) -> CommitReport:
        """The outcome of one that is settled or withdrawn; blocks for one that was withdrawn. Raises what the commit
        came to."""
        ...


class CatalogPort(Protocol):
    """Tables and namespaces, as the routes use them."""

    @property
    def settings(self) -> Settings: ...

    def subscribe(self, listener: Callable[[Mapping[str, Any]], None], /) -> None: ...

    def list_namespaces(self) -> Sequence[str]: ...

    def namespace_exists(self, namespace: str, /) -> bool: ...

    def create_namespace(self, namespace: str, /, properties: Mapping[str, str] | None = None) -> None: ...

    def load_namespace(self, namespace: str, /) -> Mapping[str, str]: ...

    def update_namespace(
        self, namespace: str, /, updates: Mapping[str, str], removals: Collection[str]
    ) -> NamespaceUpdatePort: ...

    def drop_namespace(self, namespace: str, /) -> None: ...

    def list_tables(self, namespace: str, /) -> Sequence[TableName]: ...

    def table_exists(self, identifier: Identifier, /) -> bool: ...

    def create_table(
        self,
        identifier: Identifier,
        /,
        schema: JsonObject,
        partition_spec: JsonObject | None = None,
        sort_order: JsonObject | None = None,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> TablePort: ...

    def stage_table(
        self,
        identifier: Identifier,
        /,
        schema: JsonObject,
        partition_spec: JsonObject | None = None,
        sort_order: JsonObject | None = None,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> StagedPort: ...

    def load(self, identifier: Identifier, /) -> LoadedPort: ...

    def commit(
        self,
        identifier: Identifier,
        /,
        requirements: Sequence[Requirement],
        updates: Sequence[Update],
        *,
        idempotency_key: str | None = None,
        client: Client | None = None,
        wait_seconds: float | None = None,
        size: int = 0,
    ) -> CommitReport: ...

    def submit(
        self,
        identifier: Identifier,
        /,
        requirements: Sequence[Requirement],
        updates: Sequence[Update],
        *,
        idempotency_key: str | None = None,
        client: Client | None = None,
        wait_seconds: float | None = None,
        size: int = 0,
    ) -> PendingCommitPort: ...

    def drop_table(
        self, identifier: Identifier, /, *, purge: bool = False, wait_seconds: float | None = None
    ) -> None: ...

    def rename_table(self, old: Identifier, new: Identifier, /, *, wait_seconds: float | None = None) -> None: ...

    def register_table(
        self,
        identifier: Identifier,
        /,
        metadata_location: str,
        *,
        overwrite: bool = False,
        wait_seconds: float | None = None,
    ) -> TablePort: ...
