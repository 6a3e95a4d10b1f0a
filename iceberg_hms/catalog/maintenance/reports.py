"""What maintenance deleted, would delete, or had to keep.

The files are in the fields; `repr` and `str` count them, since a table has many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.manifests.manifest import FileContent


class FileKind(StrEnum):
    """What a file of a table is."""

    DATA = "data"
    POSITION_DELETES = "position-deletes"
    EQUALITY_DELETES = "equality-deletes"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest-list"
    STATISTICS = "statistics"
    #: Found in the table's folder; nothing says what it is.
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, content: int) -> FileKind:
        """What a manifest says that a file is. content: a FileContent."""
        return _KINDS[FileContent(content)]


_KINDS: Final = {
    FileContent.DATA: FileKind.DATA,
    FileContent.POSITION_DELETES: FileKind.POSITION_DELETES,
    FileContent.EQUALITY_DELETES: FileKind.EQUALITY_DELETES,
}


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may be deleted. length: bytes; None if nothing says it."""

    location: str
    kind: FileKind
    length: int | None = None


#: Told, now and then, what maintenance is at (such as "deleting") and how many files it is through with there.
Progress = Callable[[str, int], None]


@dataclass(slots=True, repr=False)
class DeletedFiles:
    """Files that maintenance deleted; after a dry run those that it would delete.

    deleted: in the order of their deletion; files that were gone already count. failed: location -> why it could not be
    deleted; an orphan sweep finds it later. kept: files that the table does not name any more, and that are kept
    because they do not lie in its own folder. stopped: why maintenance ended early and left the rest, which an orphan
    sweep finds later; empty if it did not.
    """

    deleted: list[FoundFile] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    stopped: str = ""

    @property
    def counts(self) -> Mapping[FileKind, int]:
        """How many files of each kind were deleted."""
        return Counter(each.kind for each in self.deleted)

    @property
    def bytes(self) -> int:
        """The sum of the lengths that are known."""
        return sum(each.length or 0 for each in self.deleted)

    @property
    def locations(self) -> list[str]:
        return [each.location for each in self.deleted]

    def __repr__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        stopped = f"; stopped: {self.stopped}" if self.stopped else ""
        return (
            f"DeletedFiles({len(self.deleted)} files{f' ({kinds})' if kinds else ''}, {self.bytes} bytes; "
            f"{_failed(len(self.failed), self.failed)}; {len(self.kept)} kept{stopped})"
        )


@dataclass(frozen=True, slots=True, repr=False)
class PurgeReport:
    """What became of the files of a dropped table.

    deleted: how many were deleted. failed: how many could not be; the table is gone, so no orphan sweep finds them.
    kept: how many are not the table's own, and why. left: location -> why it could not be deleted, of the first 1,000.
    ended: False if the purge was stopped and files are left; `why` says so then.
    """

    deleted: int
    failed: int = 0
    kept: int = 0
    why: str = ""
    left: Mapping[str, IcebergHmsError] = field(default_factory=dict)
    ended: bool = True

    def __repr__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"PurgeReport({self.deleted} deleted; {_failed(self.failed, self.left)}; {self.kept} kept{why})"


def _failed(count: int, some: Mapping[str, object]) -> str:
    """How many files could not be deleted, and the first of them."""
    location, why = next(iter(some.items()), ("", ""))
    return f"{count} failed, such as {location}: {why}" if location else f"{count} failed"


@dataclass(frozen=True, slots=True, repr=False)
class ExpiryReport:
    """What an expiration of snapshots did, or would do.

    snapshot_ids: the snapshots that it removed. refs: the branches and tags. schema_ids, spec_ids: of the schemas and
    partition specs. files: what it deleted. commit: None after a dry run.
    """

    snapshot_ids: tuple[int, ...]
    refs: tuple[str, ...]
    schema_ids: tuple[int, ...]
    spec_ids: tuple[int, ...]
    files: DeletedFiles
    commit: CommitReport | None

    def __repr__(self) -> str:
        counts = ("snapshot_ids", "refs", "schema_ids", "spec_ids")
        removed = ", ".join(f"{len(getattr(self, name))} {name}" for name in counts)
        return f"ExpiryReport({removed}; {self.files!r}{'; dry run' if self.commit is None else ''})"


@dataclass(frozen=True, slots=True, repr=False)
class OrphanReport:
    """What a removal of orphan files did, or would do.

    listed: how many files the folder has. files: the orphans that it deleted. mismatched: files that the table names
    with another scheme or authority, and that were kept for that.
    """

    listed: int
    files: DeletedFiles
    mismatched: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"OrphanReport({self.listed} listed; {self.files!r}; {len(self.mismatched)} mismatched)"
