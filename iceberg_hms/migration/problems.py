"""The problems that a task finds: bounded, since they travel to the driver."""

from __future__ import annotations

from typing import Final

from iceberg_hms.errors import IcebergHmsError, ResourceExhausted, StorageError
from iceberg_hms.format.locations import parse
from iceberg_hms.migration.work import PROBLEMS_MAX, Problem

#: Characters of a problem's reason: a file's schema may be named in it, of whatever length.
_REASON_MAX: Final = 1_000


class Problems:
    """Those of one task: the first `PROBLEMS_MAX` by name, all by their count."""

    def __init__(self) -> None:
        self._named: list[Problem] = []
        self.count = 0

    @property
    def named(self) -> tuple[Problem, ...]:
        """In the order in which they were found."""
        return tuple(self._named)

    def add(self, partition: str, location: str, error: IcebergHmsError) -> None:
        """Note why a file or folder cannot be taken over."""
        self.count += 1
        if len(self._named) < PROBLEMS_MAX:
            reason = error.message
            if len(reason) > _REASON_MAX:
                reason = f"{reason[:_REASON_MAX]}..."
            self._named.append(Problem(partition, location, reason, error.next_step))


def may_pass(location: str, error: IcebergHmsError) -> bool:
    """Whether an error says nothing of the file or folder itself, so that another run may succeed: no memory, or a
    remote store that did not answer. Left out because of it, good files would be lost."""
    if isinstance(error, ResourceExhausted):
        return True
    return type(error) is StorageError and not parse(location).is_local
