"""A Hive table of many small files, made without Spark, and what there is of it whenever a test looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from hmsclient.genthrift.hive_metastore.ttypes import Partition
from pyarrow import orc
from pyiceberg.catalog import load_catalog

import iceberg_hms
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import (
    FieldSchema,
    GetTableRequest,
    SerDeInfo,
    StorageDescriptor,
    Table,
    extended,
)
from iceberg_hms.metastore.tables.parameters import is_iceberg
from iceberg_hms.metastore.tables.partitions import PartitionRows
from iceberg_hms.testing.history import check_table

#: Of each file.
ROWS: Final = 2


@dataclass(frozen=True)
class _Format:
    """How Hive names a format, what writes a file of it, and how many rows a file has."""

    input_format: str
    output_format: str
    serde: str
    write: Callable[[pa.Table, Path], None]
    rows: Callable[[str], int]


_HIVE: Final = "org.apache.hadoop.hive.ql.io"
_FORMATS: Final = {
    "parquet": _Format(
        f"{_HIVE}.parquet.MapredParquetInputFormat",
        f"{_HIVE}.parquet.MapredParquetOutputFormat",
        f"{_HIVE}.parquet.serde.ParquetHiveSerDe",
        pq.write_table,
        lambda file: int(pq.read_metadata(file).num_rows),
    ),
    "orc": _Format(
        f"{_HIVE}.orc.OrcInputFormat",
        f"{_HIVE}.orc.OrcOutputFormat",
        f"{_HIVE}.orc.OrcSerde",
        orc.write_table,
        lambda file: int(orc.ORCFile(file).nrows),
    ),
}


@dataclass(frozen=True)
class Seen:
    """What there is of a table. kind: `hive` or `iceberg`. files: the paths of its data files, as its readers find
    them. rows: how many these have, by their footers."""

    kind: str
    files: frozenset[str]
    rows: int


class SmallFiles:
    """A Hive table `small (id bigint, name string) PARTITIONED BY (part int)` whose files have ROWS rows each; the ids
    count from 0. Every look at it reads the metastore and the folders anew. The caller closes it."""

    def __init__(
        self,
        metastore: LocalMetastore,
        namespace: str,
        folder: Path,
        *,
        partitions: int,
        files: int = 1,
        file_format: str = "parquet",
    ) -> None:
        self.name = f"{namespace}.small"
        self.folder = folder
        self.metastore = metastore
        self.rows = partitions * files * ROWS
        self._namespace = namespace
        self._format = _FORMATS[file_format]
        self._pool = ClientPool([metastore.uri])
        self.catalog = iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse)
        self._make_files(partitions, files)
        self._make_rows(partitions)
        self.before = self.row()
        self.whole = self.seen()
        assert (self.whole.kind, len(self.whole.files), self.whole.rows) == ("hive", partitions * files, self.rows)

    def seen(self) -> Seen:
        """What a reader finds now, of whichever kind the table is. Fails if the row, the metadata or a file that they
        name is not whole."""
        if is_iceberg(self.row().parameters):
            report = check_table(self.catalog, self.name)
            report.raise_if_broken()
            files = frozenset(each.removeprefix("file:") for each in report.data_files)
            assert len(files) == len(report.data_files)
            return Seen("iceberg", files, self._rows_of(files))
        folders = [Path(each.sd.location.removeprefix("file:")) for each in self.partitions()]
        # As Hive and Spark list a partition: what begins so is not there.
        found = [str(file) for folder in folders for file in folder.iterdir() if file.name[0] not in "._"]
        return Seen("hive", frozenset(found), self._rows_of(found))

    def is_untouched(self) -> bool:
        """Whether it is the Hive table that it was when it was made: row, partitions and files."""
        return bool(self.row() == self.before) and self.seen() == self.whole

    def is_undone(self) -> bool:
        """Whether it is that Hive table again; its row says when it was changed last."""
        now = self.row()
        now.parameters["transient_lastDdlTime"] = self.before.parameters["transient_lastDdlTime"]
        return bool(now == self.before) and self.seen() == self.whole

    def is_complete(self) -> bool:
        """Whether it is an Iceberg table with all files of the Hive table and no other."""
        return self.seen() == replace(self.whole, kind="iceberg")

    def ids(self) -> list[int]:
        """What PyIceberg reads of the Iceberg table."""
        catalog = load_catalog("judge", type="hive", uri=self.metastore.uri, warehouse=self.metastore.warehouse)
        found: list[int] = catalog.load_table(self.name).scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        return sorted(found)

    def row(self) -> Any:
        """The metastore's row."""
        return self._pool.ask("get_table_req", req=GetTableRequest(dbName=self._namespace, tblName="small")).table

    def partitions(self) -> list[Any]:
        rows, name = PartitionRows(self._pool), TableName(self._namespace, self.name.partition(".")[2])
        return list(rows.records(name, rows.names(name)))

    def metadata(self) -> TableMetadata:
        """Of the Iceberg table."""
        return self.catalog.load_table(self.name).metadata

    def move_partition(self, part: int, folder: Path) -> None:
        """Give a partition another folder, as Hive's `ALTER TABLE ... PARTITION (...) SET LOCATION` does."""
        moved = next(each for each in self.partitions() if each.values == [str(part)])
        moved.sd.location = f"file:{folder}"
        self._pool.call_once("alter_partition", db_name=self._namespace, tbl_name="small", new_part=moved)

    def partition_folder(self, part: int) -> Path:
        return self.folder / f"part={part}"

    def file(self, part: int, number: int = 0) -> Path:
        """A data file."""
        return self.partition_folder(part) / f"{number:04}"

    def progress(self) -> list[Path]:
        """What runs that have not ended have left of their progress."""
        folder = self.folder / "_iceberg" / "migration"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def close(self) -> None:
        self.catalog.close()
        self._pool.close()

    def _rows_of(self, files: Iterable[str]) -> int:
        return sum(self._format.rows(each) for each in files)

    def _make_files(self, partitions: int, files: int) -> None:
        first = 0
        for part in range(partitions):
            self.partition_folder(part).mkdir(parents=True)
            for number in range(files):
                ids = range(first, first + ROWS)
                table = pa.table({"id": ids, "name": [f"row {each}" for each in ids]})
                self._format.write(table, self.file(part, number))
                first += ROWS

    def _make_rows(self, partitions: int) -> None:
        table = Table(
            dbName=self._namespace,
            tableName="small",
            owner="hive",
            createTime=1_700_000_000,
            tableType="EXTERNAL_TABLE",
            sd=self._storage(self.folder),
            partitionKeys=[FieldSchema(name="part", type="int")],
            parameters={"EXTERNAL": "TRUE", "transient_lastDdlTime": "1700000000", "owner's": "own"},
        )
        self._pool.call_once("create_table", tbl=table)
        added = [
            extended(Partition)(
                values=[str(part)],
                dbName=self._namespace,
                tableName="small",
                sd=self._storage(self.partition_folder(part)),
                parameters={},
            )
            for part in range(partitions)
        ]
        self._pool.call_once("add_partitions", new_parts=added)

    def _storage(self, folder: Path) -> Any:
        columns = [FieldSchema(name="id", type="bigint"), FieldSchema(name="name", type="string")]
        return StorageDescriptor(
            cols=columns,
            location=f"file:{folder}",
            inputFormat=self._format.input_format,
            outputFormat=self._format.output_format,
            compressed=False,
            numBuckets=-1,
            serdeInfo=SerDeInfo(serializationLib=self._format.serde, parameters={"serialization.format": "1"}),
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
