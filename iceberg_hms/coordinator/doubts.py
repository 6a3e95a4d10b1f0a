"""Whether a change of which nothing was sent may be in the table all the same.

It may have been sent before: its answer was lost, and its client, or a proxy before us, sends it again under the same
snapshot ids. If it cannot have its turn or the lock now, "failed" would be an order to delete files that the table
names.
"""

from __future__ import annotations

from collections.abc import Callable

from iceberg_hms.changes.change import Identity
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError, MetastoreUnavailable, NoSuchTable
from iceberg_hms.format.metadata import TableMetadata


class Doubts:
    """Looks at a table once, when it is first asked.

    load: the table's metadata as it is now; raises as `Coordinator.load`.
    """

    def __init__(self, name: TableName, load: Callable[[], TableMetadata]) -> None:
        self._name = name
        self._load = load
        self._found: TableMetadata | Exception | None = None

    def about(self, identity: Identity, failure: Exception) -> CommitStateUnknown | None:
        """What the caller is to be told instead of `failure`, which says that its change did not get so far as to be
        sent. None: the failure, since the change is not in the table."""
        if not identity.snapshot_ids:
            return None
        found = self._look()
        if isinstance(found, TableMetadata):
            if any(found.snapshot_by_id(id_) is not None for id_ in identity.snapshot_ids):
                return CommitStateUnknown(f"its snapshot is in {self._name}, and no lock was had to be sure: {failure}")
            return None
        if isinstance(found, NoSuchTable) or isinstance(failure, MetastoreUnavailable):
            # A metastore that is out of reach is waited for: clients are told to come again, and keep their files.
            return None
        return CommitStateUnknown(f"{failure.__class__.__name__}, and {self._name} could not be looked at: {found}")

    def _look(self) -> TableMetadata | Exception:
        if self._found is None:
            try:
                self._found = self._load()
            except IcebergHmsError as error:
                self._found = error
        return self._found
