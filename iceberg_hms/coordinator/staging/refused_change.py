"""A change that a door refused before it was queued, such as one beyond a limit.

It is queued all the same where an earlier process may have sent it: only the group that holds the table's lock can
exclude that such a swap is still made (`sent_swaps`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from iceberg_hms.changes.change import ChangeIdentity, Manifests
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True)
class RefusedChange:
    """A `Change` that every table refuses. error: for this reason."""

    identity: ChangeIdentity
    error: Exception

    def check(self, base: TableMetadata | None) -> NoReturn:  # noqa: ARG002 - the port's
        """Raises the error."""
        raise self.error

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> NoReturn:  # noqa: ARG002 - the port's
        """Raises the error."""
        raise self.error
