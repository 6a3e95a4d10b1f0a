"""A table whose data files lie in its own folder, for the tests of what deletes them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import StorageError
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.metastore.runtimes import Counted

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
FOLDER = "file:///warehouse/db.db/t"
FUTURE = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


class StubbornFiles(MemoryFiles):
    """Refuses to delete what is in `stubborn`; calls `before_delete` once, before the first deletion."""

    def __init__(self) -> None:
        super().__init__()
        self.stubborn: set[str] = set()
        self.before_delete: Any = None

    def delete(self, location: str) -> bool:
        hook, self.before_delete = self.before_delete, None
        if hook is not None:
            hook()
        if location in self.stubborn:
            raise StorageError(f"{location}: denied")
        return super().delete(location)


class Lab:
    """A table whose data files lie in its own folder. settings: of its catalog."""

    def __init__(
        self,
        version: int = 2,
        settings: Mapping[str, Any] | None = None,
        files: MemoryFiles | None = None,
        **properties: str,
    ) -> None:
        self.files: Any = files or StubbornFiles()
        self.pointer = MemoryTablePointer(namespaces=())
        self.runtime = Counted()
        self.catalog: Catalog = memory_catalog(
            files=self.files, pointer=self.pointer, runtime=self.runtime, **(settings or {})
        )
        self.catalog.create_namespace("db")
        self.table: Table = self.catalog.create_table(
            "db.t", SCHEMA, properties={"format-version": str(version), **properties}
        )
        self.number = 0

    def data_file(self, folder: str = f"{FOLDER}/data") -> DataFile:
        self.number += 1
        location = f"{folder}/{self.number}.parquet"
        self.files.write(location, b"0123456789")
        return DataFile(location, "PARQUET", 1, 10)

    def append(self, **options: Any) -> int:
        report = self.table.append([self.data_file()], **options)
        return report.snapshot_ids[0]

    def rows(self, snapshot: Any) -> list[str]:
        """The live files of a snapshot, each of which must be there."""
        manifests = self.catalog.services.ports.manifests()
        found = []
        for entry in manifests.entries(manifests.list(snapshot), lambda entry: entry.is_live):
            self.files.length(entry.data_file.file_path)
            found.append(entry.data_file.file_path)
        return sorted(found)

    def reachable(self) -> set[str]:
        """All that the table's current metadata leads to, but for metadata files."""
        # A catalog of its own: the caches of another one may hold files that are gone.
        with memory_catalog(files=self.files, pointer=self.pointer) as fresh:
            table, manifests = fresh.load_table("db.t"), fresh.services.ports.manifests()
            found = set[str]()
            for snapshot in table.snapshots():
                listed = manifests.list(snapshot)
                assert snapshot.manifest_list is not None
                found |= {snapshot.manifest_list, *(each.manifest_path for each in listed)}
                found |= {e.data_file.file_path for e in manifests.entries(listed) if e.is_live}
            found |= {each["statistics-path"] for each in table.metadata.fields.get("statistics") or ()}
            return found

    def present(self) -> set[str]:
        # What a refused operation wrote is deleted after its caller has the answer.
        self.runtime.join()
        return {each for each in self.files.locations() if not each.endswith(".metadata.json")}
