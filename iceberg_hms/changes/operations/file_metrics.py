"""What an operation adds and removes, for its snapshot's summary (Java: SnapshotSummary).

Java leaves out what is zero, except the number of changed partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from iceberg_hms.changes.operations.manifest_filter import is_deletion_vector
from iceberg_hms.changes.partition_set import partition_key
from iceberg_hms.format.manifests.manifest import DataFile, FileContent

_RECORDS = {
    (FileContent.DATA, True): "added-records",
    (FileContent.DATA, False): "deleted-records",
    (FileContent.POSITION_DELETES, True): "added-position-deletes",
    (FileContent.POSITION_DELETES, False): "removed-position-deletes",
    (FileContent.EQUALITY_DELETES, True): "added-equality-deletes",
    (FileContent.EQUALITY_DELETES, False): "removed-equality-deletes",
}


def file_metrics(added: Iterable[DataFile], removed: Iterable[DataFile], *, duplicates: int = 0) -> dict[str, str]:
    """The metrics of data files and delete files. duplicates: how often a removed file was listed again."""
    counts: Counter[str] = Counter()
    partitions = set()
    for files, is_added in ((added, True), (removed, False)):
        for each in files:
            content = FileContent(each.content)
            counts[_RECORDS[content, is_added]] += each.record_count
            counts["added-files-size" if is_added else "removed-files-size"] += _size(each)
            for name in _names(each, content, is_added=is_added):
                counts[name] += 1
            # Java counts the paths of partitions: one of two specs with the same fields is one.
            partitions.add(partition_key(each)[1])
    counts["deleted-duplicate-files"] = duplicates
    summary = {name: str(count) for name, count in counts.items() if count > 0}
    return {**summary, "changed-partition-count": str(len(partitions))}


def _size(file: DataFile) -> int:
    """In bytes; a deletion vector is a part of its file."""
    size = file.content_size_in_bytes if is_deletion_vector(file) else None
    return file.file_size_in_bytes if size is None else size


def _names(file: DataFile, content: FileContent, *, is_added: bool) -> tuple[str, ...]:
    did = "added" if is_added else "removed"
    if content == FileContent.DATA:
        return ("added-data-files" if is_added else "deleted-data-files",)
    if content == FileContent.EQUALITY_DELETES:
        return f"{did}-delete-files", f"{did}-equality-delete-files"
    return f"{did}-delete-files", f"{did}-dvs" if is_deletion_vector(file) else f"{did}-position-delete-files"
