"""What the tasks of a migration have on the machine where they run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from iceberg_hms.config import Settings
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.folder_names import FolderNames
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.migration.progress import Records, SliceTexts, outcome_key
from iceberg_hms.migration.work import Work
from iceberg_hms.stores import Stores, open_stores


@dataclass(frozen=True, slots=True)
class MigrationTask:
    """table: which gets the files; exact: the same for files whose columns are found by their exact names alone.
    key: what decides beside the files what is described (`progress.outcome_key`). names: which of them are hidden in a
    folder that has those of partitions."""

    work: Work
    stores: Stores
    table: TableOfFiles
    exact: TableOfFiles
    key: bytes
    names: FolderNames

    @classmethod
    def of(cls, work: Work) -> Self:
        """Raises CorruptFile for metadata that is none."""
        metadata = metadata_file.decode(work.metadata, work.manifest_folder)
        table, exact = TableOfFiles(metadata, folds_case=work.adds_names), TableOfFiles(metadata)
        key, names = outcome_key(work, metadata), FolderNames.of(metadata)
        return cls(work, stores_for(work.settings), table, exact, key, names)

    @property
    def metadata(self) -> TableMetadata:
        """Of the table."""
        return self.table.metadata

    @property
    def records(self) -> Records:
        """Of slices that were described."""
        return Records(self.stores.files, self.work.progress_folder, self.work.snapshot_id)

    @property
    def texts(self) -> SliceTexts:
        """How slices are written."""
        return SliceTexts(self.metadata.spec.partition_type(self.metadata.schema))


def stores_for(settings: Settings) -> Stores:
    """The stores of this process, which are kept from task to task."""
    return _stores(settings, os.getpid())


@lru_cache(maxsize=4)
def _stores(settings: Settings, _process: int) -> Stores:
    """A forked child has its own."""
    return open_stores(settings)
