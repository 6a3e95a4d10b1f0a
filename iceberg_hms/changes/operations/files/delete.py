"""Delete data files, by name or by a filter that all of their rows match (Java: StreamingDelete)."""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.operations.files.file_changes import FileChanges
from iceberg_hms.changes.operations.manifests.file_scope import Where
from iceberg_hms.changes.operations.manifests.manifest_filter import ManifestFilter
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.locations import file_key


class DeleteFiles(FileChanges):
    """Removes data files from a branch, whatever else was committed meanwhile.

    paths: of the files, under any spelling.
    A file that the branch does not have is refused, on whatever the table has become: RequirementFailed names it, and
    the snapshot that removed it since the start. (Java ignores it unless asked.) Raises InvalidInput for no files.
    """

    def __init__(self, new: NewSnapshot, paths: Sequence[str]) -> None:
        if not paths:
            raise InvalidInput("nothing to delete", next_step="name at least one file")
        keys = frozenset(map(file_key, paths))
        super().__init__(new, summaries.DELETE, ManifestFilter(new.snapshot_id, keys=keys), paths=paths)


class DeleteRows(FileChanges):
    """Removes the data files whose rows all match a filter, by their partition values and bounds.

    The filter is judged on whatever the table has become, so nothing that others commit conflicts: what they added and
    matches is removed too. Raises RequirementFailed for a file of which only some rows may match; it names the file. If
    nothing matches, the snapshot removes nothing.
    """

    def __init__(self, new: NewSnapshot, where: Where) -> None:
        super().__init__(new, summaries.DELETE, ManifestFilter(new.snapshot_id), where=where)
