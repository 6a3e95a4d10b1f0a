"""Folders of a Hive table with real files, and the work of tasks that take them over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from iceberg_hms.config import Settings
from iceberg_hms.format.manifests.manifest import DataFile, decode_manifest
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, name_mapping
from iceberg_hms.migration.describing import describe_slice
from iceberg_hms.migration.listing import list_partitions
from iceberg_hms.migration.work import Described, Item, ListedPartitions, Result, Side, SourcePartition, Wanted, Work
from tests.catalog.parquet import table_for

COLUMNS = pa.schema([("id", pa.int64()), ("carrier", pa.string()), ("delay", pa.float64())])
TABLE = pa.schema([*COLUMNS, ("month", pa.int32())])
AVRO = {
    "type": "record",
    "name": "flight",
    "fields": [
        {"name": "id", "type": ["null", "long"]},
        {"name": "carrier", "type": ["null", "string"]},
        {"name": "delay", "type": ["null", "double"]},
    ],
}


def rows(first: int = 0, count: int = 3) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {"id": list(ids), "carrier": [f"c{each}" for each in ids], "delay": [each / 2 for each in ids]}, schema=COLUMNS
    )


def write(path: Path, table: pa.Table | None = None, file_format: str = "parquet") -> str:
    """A file of a format, by whatever name; its location as a metastore spells locations."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = rows() if table is None else table
    match file_format:
        case "parquet":
            pq.write_table(found, path)
        case "orc":
            orc.write_table(found, path)
        case _:
            with path.open("wb") as file:
                fastavro.writer(file, AVRO, found.to_pylist())
    return f"file:{path}"


class Loop:
    """`migration.work.Executors` that run one item after the other, here."""

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item], *, done: Callable[[Result], None]
    ) -> list[Result]:
        found = []
        for each in items:
            found.append(function(each))
            done(found[-1])
        return found

    def compare(self, left: Side, right: Side, *, wanted: Wanted, named: int) -> tuple[int, list[str]]:
        one, other = (dict(each for item in side.items for each in side.give(item)) for side in (left, right))
        found = sorted(place for key, place in one.items() if (key in other) == (wanted == "common"))
        return len(found), found[:named]


class HiveFolder:
    """A Hive table's folder, partitioned by month, and what a run over it needs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partitions: list[SourcePartition] = []

    @property
    def progress(self) -> Path:
        return self.path / "_iceberg" / "migration"

    def partition(self, month: int | None = 1, name: str | None = None, file_format: str | None = "parquet") -> Path:
        """A new partition; its folder, which is not made."""
        folder = self.path / (name or f"month={month}")
        self.partitions.append(SourcePartition(f"month={month}", f"file:{folder}", {"month": month}, file_format))
        return folder

    def work(
        self, schema: Any = TABLE, *, properties: dict[str, str] | None = None, version: int = 2, **more: Any
    ) -> Work:
        bare = table_for(schema, ["month"], version=version)
        mapping = orjson.dumps(name_mapping(bare.schema)).decode()
        metadata = bare.replace(properties={NAME_MAPPING: mapping, **(properties or {})})
        return Work(
            **{
                "settings": Settings.load({"storage_fsync": False}, environ={}),
                "metadata": metadata_file.encode(metadata),
                "snapshot_id": 7,
                "manifest_folder": f"file:{self.path}/_iceberg",
                "progress_folder": f"file:{self.progress}",
                **more,
            }
        )

    def listed(self, work: Work) -> ListedPartitions:
        return list_partitions(work, tuple(self.partitions))

    def described(self, work: Work) -> list[Described]:
        slices = self.listed(work).slices
        return Loop().map(partial(describe_slice, work), slices, done=lambda _: None)

    def names(self) -> set[str]:
        """What lies in the folder of the table's metadata, by what the names end with."""
        return {each.name.rpartition(".")[2] for each in (self.path / "_iceberg").rglob("*") if each.is_file()}


def data_files(manifests: Sequence[ManifestFile]) -> list[DataFile]:
    found = []
    for each in manifests:
        data = Path(each.manifest_path.removeprefix("file:")).read_bytes()
        found += [entry.data_file for entry in decode_manifest(data, each.manifest_path, each)]
    return found
