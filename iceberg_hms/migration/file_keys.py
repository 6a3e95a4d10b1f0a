"""The files that tasks compare, each by the key of its location (`file_key`), with the location.

Tasks import this module: nothing here needs a metastore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iceberg_hms.config import Settings
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.migration.listing import locations_in
from iceberg_hms.migration.task import stores_for
from iceberg_hms.migration.work import SourcePartition, Work


def manifest_keys(settings: Settings, live: bool, manifest: ManifestFile) -> Iterator[tuple[str, str]]:
    """Of the data files in a manifest. live: not of those that are deleted there. Raises MissingFile, StorageError."""
    for entry in stores_for(settings).manifests.open().entries([manifest]):
        if entry.is_live or not live:
            path = entry.data_file.file_path
            yield file_key(path), path


def folder_keys(work: Work, folders: Sequence[SourcePartition]) -> Iterator[tuple[str, str]]:
    """Of the files and links in folders; none of one that is gone. Raises InvalidInput, StorageError."""
    for each in locations_in(work, folders):
        yield file_key(each), each
