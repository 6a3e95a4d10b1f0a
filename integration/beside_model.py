"""A table of real Parquet files beside a plain model of its rows, for the tests of operations.

The model keeps, for each live data file, its live rows by field id. `check` asks Spark and PyIceberg for the rows, and
compares what Spark's metadata tables say with our metadata and manifests.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.config import Settings
from iceberg_hms.format.manifests.lineage_columns import LINEAGE_COLUMNS, LINEAGE_VERSION
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.manifests import ManifestStore
from integration import interop

_ARROW = {"long": pa.int64(), "int": pa.int32(), "string": pa.string(), "double": pa.float64()}
#: Keys of a snapshot's summary that count files and rows; sizes depend on who wrote the files.
_COUNTS = ("added-", "deleted-", "removed-", "total-", "changed-")


class BesideModel:
    """table: an identifier `namespace.name`. rows: what a live file has, as live rows by field id."""

    def __init__(self, spark: Any, metastore: Any, catalog: Catalog, table: str, folder: Path) -> None:
        self.spark = spark
        self.metastore = metastore
        self.catalog = catalog
        self.name = table
        self.files: dict[str, list[dict[int, Any]]] = {}
        self.pyiceberg_reads = True
        self.folder = folder
        self._numbers = itertools.count()
        self._rows: dict[str, list[dict[int, Any]]] = {}

    @property
    def table(self) -> Table:
        """The table as it is now."""
        return self.catalog.load_table(self.name)

    def write(self, rows: Sequence[Mapping[str, Any]], *, moved: bool = False) -> str:
        """Write a data file with the current columns, and field ids; the model does not have it yet. moved: whether the
        table has the rows already, so that the file carries their row ids if the table tracks rows."""
        schema = self.table.schema()
        tracked = moved and self.table.metadata.format_version >= LINEAGE_VERSION
        fields = [
            pa.field(each.name, _ARROW[str(each.type)], metadata={"PARQUET:field_id": str(each.id)})
            for each in (*schema.fields, *(LINEAGE_COLUMNS.values() if tracked else ()))
        ]
        path = self.folder / f"{next(self._numbers)}.parquet"
        lineage = self._lineage() if tracked else {}
        stored = [{**row, **lineage.get(row["id"], {})} for row in rows]
        pq.write_table(pa.Table.from_pylist(stored, schema=pa.schema(fields)), path)
        ids = {each.name: each.id for each in schema.fields}
        location = f"file:{path}"
        self._rows[location] = [{ids[key]: value for key, value in row.items()} for row in rows]
        return location

    def _lineage(self) -> dict[int, dict[str, int]]:
        """By `id`, what Spark reads of each row's lineage."""
        names = [each.name for each in LINEAGE_COLUMNS.values()]
        rows = self.spark.sql(f"SELECT id, {', '.join(names)} FROM {self.name}").collect()
        return {row["id"]: {name: row[name] for name in names} for row in rows}

    def adopt(self, *locations: str) -> list[str]:
        """The model has these written files now. Returns them."""
        for location in locations:
            self.files[location] = [dict(row) for row in self._rows[location]]
        return list(locations)

    def drop(self, *locations: str) -> list[str]:
        """The model lacks these files from now on. Returns them."""
        for location in locations:
            del self.files[location]
        return list(locations)

    def expected(self) -> list[dict[str, Any]]:
        """All live rows by the current columns, sorted by `id`."""
        fields = self.table.schema().fields
        rows = [{each.name: row.get(each.id) for each in fields} for rows in self.files.values() for row in rows]
        return interop.by_id(rows)

    def check(self) -> None:
        """Spark and PyIceberg read exactly the model's rows, and Spark's metadata tables agree with what we wrote."""
        expected = self.expected()
        assert interop.spark_rows(self.spark, f"SELECT * FROM {self.name}") == expected
        if self.pyiceberg_reads:
            assert interop.pyiceberg_rows(self.metastore, self.name) == expected
        self.check_metadata_tables()

    def check_metadata_tables(self) -> None:
        metadata = self.table.metadata
        assert self._of("snapshots", "snapshot_id, parent_id, operation, manifest_list, summary") == Counter(
            _frozen(
                each.snapshot_id,
                each.parent_snapshot_id,
                each.operation,
                each.manifest_list,
                {key: value for key, value in each.summary.items() if key != "operation"},
            )
            for each in metadata.snapshots
        )
        ancestors = {each.snapshot_id for each in self.table.ancestors()} if metadata.current_snapshot else set()
        log = [_frozen(each.snapshot_id, each.snapshot_id in ancestors) for each in self.table.history()]
        assert self._of("history", "snapshot_id, is_current_ancestor") == Counter(log)
        refs = [
            _frozen(name, each.type.upper(), each.snapshot_id, each.max_ref_age_ms)
            for name, each in metadata.refs.items()
        ]
        assert self._of("refs", "name, type, snapshot_id, max_reference_age_in_ms") == Counter(refs)
        self._check_manifests()

    def manifests(self) -> list[tuple[ManifestFile, list[ManifestEntry]]]:
        """The current snapshot's manifests and all their entries."""
        metadata = self.table.metadata
        if metadata.current_snapshot is None:
            return []
        store = ManifestStore(RoutedFiles(fsync=False), Settings.load({}, environ={}), ThreadRuntime()).open()
        files = store.list(metadata.current_snapshot)
        return [(file, list(store.entries([file]))) for file in files]

    def live(self, content: int = FileContent.DATA) -> list[DataFile]:
        """The records of the live files."""
        entries = [entry for _, entries in self.manifests() for entry in entries]
        return [entry.data_file for entry in entries if entry.is_live and entry.data_file.content == content]

    def _check_manifests(self) -> None:
        manifests = self.manifests()
        found = self._of("manifests", "path, length, partition_spec_id, added_snapshot_id, content")
        listed = [
            _frozen(
                each.manifest_path, each.manifest_length, each.partition_spec_id, each.added_snapshot_id, each.content
            )
            for each, _ in manifests
        ]
        assert found == Counter(listed)
        entries = [entry for _, entries in manifests for entry in entries]
        numbers = "status, snapshot_id, sequence_number, file_sequence_number, data_file.file_path"
        assert self._of("entries", numbers) == Counter(
            _frozen(
                each.status,
                each.snapshot_id,
                each.sequence_number,
                each.file_sequence_number,
                each.data_file.file_path,
            )
            for each in entries
        )
        live = [each.data_file for each in entries if each.is_live]
        assert self._of("files", "file_path, content, record_count, spec_id") == Counter(
            _frozen(each.file_path, each.content, each.record_count, each.spec_id) for each in live
        )
        data = [each for each in live if each.content == FileContent.DATA]
        assert Counter(each.file_path for each in data) == Counter(self.files.keys())
        columns = "sum(record_count), sum(file_count)"
        (totals,) = self.spark.sql(f"SELECT {columns} FROM {self.name}.partitions").collect()
        assert (totals[0] or 0, totals[1] or 0) == (sum(each.record_count for each in data), len(data))

    def _of(self, metadata_table: str, columns: str) -> Counter[Any]:
        rows = self.spark.sql(f"SELECT {columns} FROM {self.name}.{metadata_table}").collect()
        return Counter(_frozen(*row) for row in rows)

    def counts(self) -> dict[str, str]:
        """The operation of the current snapshot and what its summary counts."""
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        kept = {key: value for key, value in snapshot.summary.items() if key.startswith(_COUNTS)}
        # Java leaves out what is zero, but for totals; sizes differ.
        kept = {key: value for key, value in kept.items() if "size" not in key}
        return {"operation": str(snapshot.operation), **kept}

    def content(self) -> Counter[Any]:
        """The live rows of each live file, as Spark reads them, whatever the files are called."""
        by_file: dict[str, list[Any]] = {}
        for row in self.spark.sql(f"SELECT *, _file FROM {self.name}").collect():
            by_file.setdefault(row["_file"], []).append(tuple(row)[:-1])
        return Counter(tuple(sorted(rows, key=repr)) for rows in by_file.values())


def _frozen(*values: Any) -> Any:
    return tuple(tuple(sorted(each.items())) if isinstance(each, Mapping) else each for each in values)


def numbered(level: str, ids: Iterable[int]) -> list[dict[str, Any]]:
    """Rows of one level."""
    return [{"id": each, "level": level, "name": f"row {each}"} for each in ids]
