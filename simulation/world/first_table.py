"""The table that every schedule begins with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from iceberg_hms.changes.clients.blind_append import ISOLATION_LEVELS
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.updates.create import new_table_metadata
from simulation.engine.runtime import EPOCH_MS

_SCHEMA: Final = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}

#: No engine validates an append to such a table, so an append without unknown summary properties is a blind one.
SNAPSHOT_ISOLATION: Final = dict.fromkeys(ISOLATION_LEVELS, "snapshot")

#: The UUID of the first table.
_FIRST: Final = "00000000-0000-4000-8000-000000000000"


def empty_table(uuid: str, properties: Mapping[str, str], now_ms: int) -> TableMetadata:
    """The metadata of a table without snapshots, in a folder of its own."""
    folder = "file:/t" if uuid == _FIRST else f"file:/t-{uuid}"
    return new_table_metadata(Schema.parse(_SCHEMA), None, None, folder, dict(properties), uuid=uuid, now_ms=now_ms)


@lru_cache(maxsize=64)
def first_metadata(properties: tuple[tuple[str, str], ...]) -> tuple[str, bytes]:
    """Where the first metadata file of a schedule is, and what is in it."""
    metadata = empty_table(_FIRST, dict(properties), EPOCH_MS - 86_400_000)
    return "file:/t/metadata/00000-first.metadata.json", metadata_file.encode(metadata)


def one_file(path: str, snapshot_id: int) -> NewDataFiles:
    """A data file of one row, as an append of such a table adds it."""
    file = DataFile(file_path=path, file_format="PARQUET", record_count=1, file_size_in_bytes=10, spec_id=0)
    return NewDataFiles([file], snapshot_id=snapshot_id, schema_id=0, specs={0: None})
