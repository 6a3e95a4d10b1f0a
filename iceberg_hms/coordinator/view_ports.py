"""The coordinator's port for views: their rows in the metastore (metastore/tables/view_pointer.py).

A port's docstrings are its contract; `iceberg_hms.testing.contracts.view_pointer` checks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from iceberg_hms.coordinator.ports import Pointer, Sending, SwapAnswer, TableName
from iceberg_hms.format.views.view_metadata import ViewMetadata


class ViewPointer(Protocol):
    """Rows of Iceberg views in the metastore. Never touches a row that is not an Iceberg view's.

    What `coordinator.ports.TablePointer` says of errors, of answers and of `Sending` holds here too.
    """

    def load(self, name: TableName) -> Pointer:
        """One metastore call, never from a cache. Raises NoSuchView (no row), NotAnIcebergView (another kind)."""
        ...

    def swap(
        self,
        base: Pointer,
        location: str,
        metadata: ViewMetadata,
        replaced: ViewMetadata,
        sending: Sending,
    ) -> SwapAnswer:
        """Point the row at `location`, with `base.metadata_location` as the expected value; as `TablePointer.swap`. The
        row gets the parameters, the columns and the SQL of `metadata`, and `base.metadata_location` as the previous
        location."""
        ...

    def create(self, name: TableName, location: str, metadata: ViewMetadata, owner: str | None) -> SwapAnswer:
        """Insert a new row. A name that a table or view has is Refused(conflict=True, AlreadyExists), a missing
        database Refused(conflict=False, NoSuchNamespace). owner: as for tables."""
        ...

    def rename(self, base: Pointer, to: TableName, sending: Sending) -> SwapAnswer:
        """As `TablePointer.rename`."""
        ...

    def drop(self, base: Pointer, sending: Sending) -> SwapAnswer:
        """Remove the row; files stay. Without an expected value, as `TablePointer.drop`."""
        ...

    def list_views(self, namespace: str) -> Sequence[str]:
        """Names of the Iceberg views of a database, sorted. Raises NoSuchNamespace."""
        ...
