"""Hive tables with real files, in a metastore in memory, and what a migration works with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.hive_ports import HiveColumn
from iceberg_hms.coordinator.ports import HIVE_TABLE, TableName
from iceberg_hms.migration.driver import MigrationDriver
from iceberg_hms.migration.in_place import migrate_table
from iceberg_hms.migration.more_files import LateFiles, find_late_files
from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.migration.takeover import Options
from iceberg_hms.stores import open_files
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_hive import MemoryHiveTables
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.migration.hive_files import Loop, rows, write

FLIGHTS = TableName("nyc", "flights")
COLUMNS = (HiveColumn("id", "bigint"), HiveColumn("carrier", "string"), HiveColumn("delay", "double"))
MONTH = (HiveColumn("month", "int"),)
_IO = "org.apache.hadoop.hive.ql.io."
CLASSES = {
    "parquet": (f"{_IO}parquet.MapredParquetInputFormat", f"{_IO}parquet.serde.ParquetHiveSerDe"),
    "orc": (f"{_IO}orc.OrcInputFormat", f"{_IO}orc.OrcSerde"),
    "avro": (f"{_IO}avro.AvroContainerInputFormat", "org.apache.hadoop.hive.serde2.avro.AvroSerDe"),
}
SPARK: Any = object()


class Lake:
    """A catalog over a metastore in memory and files in a folder, with a loop as its executors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pointer = MemoryTablePointer(namespaces=())
        self.hive = MemoryHiveTables(self.pointer)
        settings = Settings.load({"storage_fsync": False}, environ={})
        self.catalog = memory_catalog(
            files=open_files(settings),  # type: ignore[arg-type]
            pointer=self.pointer,
            hive_tables=self.hive,
            warehouse=f"file:{path}",
            storage_fsync=False,
        )
        self.catalog.create_namespace("nyc")
        self.driver = MigrationDriver(self.catalog, Loop(), UTC)

    def folder(self, name: TableName = FLIGHTS) -> Path:
        return self.path / "hive" / name.name

    def table(
        self,
        months: Mapping[str, Sequence[int]] | None = None,
        *,
        name: TableName = FLIGHTS,
        keys: Sequence[HiveColumn] = MONTH,
        file_format: str = "parquet",
        location: str | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> Path:
        """A Hive table. months: folder of a partition -> the first id of each of its files; its folder."""
        folder = self.folder(name)
        for partition, firsts in (months or {}).items():
            (folder / partition).mkdir(parents=True, exist_ok=True)
            for first in firsts:
                write(folder / partition / f"{first:03}", rows(first), file_format)
        input_format, serde = CLASSES[file_format]
        where = location or f"file:{folder}"
        self.hive.add(name, where, parameters=parameters)
        self.pointer.rows[name] = replace(
            self.pointer.rows[name],
            columns=COLUMNS,
            partition_keys=tuple(keys),
            input_format=input_format,
            serde=serde,
            folders=tuple(f"{where.rstrip('/')}/{each}" for each in months or {}) if keys else (),
        )
        return folder

    def migrate(self, name: TableName = FLIGHTS, **options: Any) -> MigrationReport:
        return migrate_table(self.driver, name, Options(**{"progress": False, **options}))

    def late(self, name: TableName = FLIGHTS) -> LateFiles:
        return find_late_files(self.driver, name)

    def is_hive(self, name: TableName = FLIGHTS) -> bool:
        return "metadata_location" not in self.pointer.rows[name].parameters

    def is_migrated(self, name: TableName = FLIGHTS) -> bool:
        return HIVE_TABLE in self.pointer.rows[name].parameters

    def data_files(self, name: TableName = FLIGHTS) -> dict[str, dict[str, Any]]:
        """Path of each live file below the Hive table's folder -> its partition."""
        metadata = self.catalog.load(name).metadata
        if metadata.current_snapshot is None:
            return {}
        manifests = self.catalog.services.ports.manifests()
        return {
            Path(each.data_file.file_path.removeprefix("file:")).relative_to(self.path).as_posix(): dict(
                each.data_file.partition
            )
            for each in manifests.entries(manifests.list(metadata.current_snapshot))
            if each.is_live
        }

    def hidden(self, name: TableName = FLIGHTS) -> list[str]:
        """What a migration has written, by its path in the hidden folder."""
        folder = self.folder(name) / "_iceberg"
        return sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())

    def files(self) -> dict[str, bytes]:
        """All files and what is in them."""
        found = (each for each in self.path.rglob("*") if each.is_file())
        return {each.relative_to(self.path).as_posix(): each.read_bytes() for each in found}

    def opens_driver(self) -> Callable[..., Any]:
        """In the place of `driver_of`."""

        @contextmanager
        def driver_of(spark: object, catalog: object, what: str) -> Iterator[MigrationDriver]:
            yield self.driver

        return driver_of


class Killed(BaseException):
    """What ends a run as `kill -9` does: nobody catches it."""


def killed_at(stage: str, after: int = 1) -> Callable[[str], None]:
    """What ends a run when it hears a stage for the nth time."""
    heard: list[str] = []

    def on_stage(name: str) -> None:
        heard.append(name)
        if heard.count(stage) == after and name == stage:
            raise Killed(stage)

    return on_stage


def unreadable(folder: Path, name: str = "bad") -> str:
    (folder / name).write_bytes(b"no data file")
    return f"file:{folder / name}"
