"""Delete data files by name (Java: StreamingDelete)."""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.operations.file_changes import FileChanges
from iceberg_hms.changes.operations.manifest_filter import ManifestFilter
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.locations import file_key


class DeleteFiles(FileChanges):
    """Removes data files from a branch, whatever else was committed meanwhile.

    new: what the snapshot has from its caller. paths: of the files, under any spelling.
    A file that the branch does not have is refused, on whatever the table has become: RequirementFailed names it, and
    the snapshot that removed it since the start. (Java ignores it unless asked.) Raises InvalidInput for no files.
    """

    def __init__(self, new: NewSnapshot, paths: Sequence[str]) -> None:
        if not paths:
            raise InvalidInput("nothing to delete", next_step="name at least one file")
        keys = frozenset(map(file_key, paths))
        super().__init__(new, ManifestFilter(new.snapshot_id, keys=keys), paths=paths)

    @property
    def _operation(self) -> str:
        return summaries.DELETE
