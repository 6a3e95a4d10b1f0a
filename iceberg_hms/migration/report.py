"""What a migration did, or would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from iceberg_hms.migration.work import PartitionFiles, Problem

#: dry run: nothing was written. already done: an earlier run had made the table. failed: of a table of a database.
Outcome = Literal["done", "already done", "dry run", "failed"]


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """table: its full name. outcome: what became of it.

    partitions: what each has, in the metastore's order; one without a name if the table has none. files, records, size:
    of all files that were described; size in bytes. reused_files: how many of them an earlier run had described.
    problems: files and folders that cannot be taken over, the first ones of problem_count; a run with
    `skip_unreadable` left them out. metadata_location, snapshot_id: of the Iceberg table; None if nothing was made,
    and without files there is no snapshot. seconds: how long it took. error: why it failed.
    """

    table: str
    outcome: Outcome
    partitions: Sequence[PartitionFiles] = field(default=(), repr=False)
    files: int = 0
    records: int = 0
    size: int = 0
    reused_files: int = 0
    problems: Sequence[Problem] = ()
    problem_count: int = 0
    metadata_location: str | None = None
    snapshot_id: int | None = None
    seconds: float = 0.0
    error: str = ""

    @classmethod
    def failed(cls, table: str, error: Exception) -> MigrationReport:
        """Of a table about which nothing else is known."""
        return cls(table, "failed", error=str(error))

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "table": self.table,
            "outcome": self.outcome,
            "files": self.files,
            "records": self.records,
            "size": self.size,
            "reused_files": self.reused_files,
            "partitions": [{"name": each.name, "files": each.files, "size": each.size} for each in self.partitions],
            "problems": [
                {
                    "partition": each.partition,
                    "location": each.location,
                    "reason": each.reason,
                    "next_step": each.next_step,
                }
                for each in self.problems
            ],
            "problem_count": self.problem_count,
            "metadata_location": self.metadata_location,
            "snapshot_id": self.snapshot_id,
            "seconds": round(self.seconds, 3),
            "error": self.error,
        }
