"""What operations share that change a table's metadata and no data.

Such an operation keeps what its caller asked for, not the metadata that results: on a table that moved it is worked out
again on the current metadata. Its caller saw a state of the table on which it is valid, so what fails on a later state
fails because of another writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from iceberg_hms.changes.change import ChangeIdentity, Manifests, StagedChange, Update
from iceberg_hms.changes.requirements import existing_table
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply


class MetadataOperation:
    """Base of these operations. A subclass says what it assumes (`check_seen`) and what it changes (`updates`).

    seen: the state of the table that the caller saw. start: that state before the first step of the caller's
    transaction; None if the operation is no step, or the first one. caller: the authenticated caller, for logs and
    locks. location: of the table, if the operation sets it. paths: as `ChangeIdentity` has them.
    update: of an operation that is the same on every base; others say their `updates`.
    """

    #: `RequirementFailed.name` if the operation is valid on the state that the caller saw, and not on the current one.
    name: ClassVar[str]

    def __init__(
        self,
        seen: TableMetadata,
        *,
        start: TableMetadata | None = None,
        caller: str = "",
        location: str | None = None,
        paths: tuple[str, ...] = (),
        update: Update | None = None,
    ) -> None:
        self._seen = seen
        self._start = seen if start is None else start
        self._identity = ChangeIdentity(caller=caller, location=location, paths=paths)
        self._update = update

    @property
    def identity(self) -> ChangeIdentity:
        return self._identity

    def validate(self) -> None:
        """Raises InvalidInput if the operation is not valid on the state that the caller saw."""
        self._try(self._seen)

    def check(self, base: TableMetadata | None) -> None:
        """Raises RequirementFailed if the table is gone or is another one, if what the operation uses is no longer what
        its caller saw, or if it is not valid on the current state. InvalidInput if it never was valid."""
        table = existing_table(base, self._seen.uuid)
        self.check_seen(table)
        if table is self._seen:
            self.validate()
            return
        try:
            self._try(table)
        except InvalidInput as error:
            self.validate()
            raise RequirementFailed(
                self.name,
                f"another writer changed the table, and on its current state this holds: {error.message}",
                next_step=error.next_step or None,
            ) from error

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:  # noqa: ARG002 - reads none
        """The updates that apply the operation to this base. Raises as `check`."""
        return StagedChange(self.updates(existing_table(base, self._seen.uuid)))

    def check_seen(self, base: TableMetadata) -> None:
        """Raises RequirementFailed if what the operation uses is no longer what its caller saw."""

    def updates(self, base: TableMetadata) -> Sequence[Update]:  # noqa: ARG002 - for those that depend on it
        """The updates for this base. Raises InvalidInput if they cannot be made."""
        return [] if self._update is None else [self._update]

    def _try(self, base: TableMetadata) -> None:
        apply(base, self.updates(base), now_ms=base.last_updated_ms)
