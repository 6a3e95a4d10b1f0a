"""The file that keeps the row of a Hive table while the table is an Iceberg table: for the way back, and for people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from iceberg_hms.coordinator.hive_ports import HiveRow, HiveTables
from iceberg_hms.coordinator.ports import Files, TableName
from iceberg_hms.errors import CorruptFile, InvalidInput

_FORMAT: Final = 1


@dataclass(frozen=True)
class SavedRow:
    """row: as it was. uuid: of the Iceberg table that was made of it. snapshot_id: of the snapshot with which that
    began; None if it began without one."""

    row: HiveRow
    uuid: str
    snapshot_id: int | None

    def to_bytes(self, hive: HiveTables) -> bytes:
        """What the file has. `record` alone is read to write the row back."""
        row = self.row
        shown = {
            "table": str(row.name),
            "type": row.table_type,
            "location": row.location,
            "owner": row.owner,
            "columns": [asdict(each) for each in row.columns],
            "partition-keys": [asdict(each) for each in row.partition_keys],
            "input-format": row.input_format,
            "serde": row.serde,
            "parameters": row.parameters,
        }
        content = {
            "format-version": _FORMAT,
            "about": "The metastore's row of a Hive table, which `iceberg-hms migrate --undo` writes back",
            "uuid": self.uuid,
            "snapshot-id": self.snapshot_id,
            "row": shown,
            "record": hive.encode(row),
        }
        return orjson.dumps(content, option=orjson.OPT_INDENT_2)


def read(files: Files, hive: HiveTables, name: TableName, location: str) -> SavedRow:
    """What a file keeps, for the table that has this name now. Raises MissingFile, StorageError, CorruptFile."""
    data = files.read(location)
    try:
        return _parsed(data, hive, name)
    except (ValueError, KeyError, TypeError) as error:
        why = error.message if isinstance(error, InvalidInput) else f"it is no row of a Hive table: {error!r}"
        raise CorruptFile(location, why) from error


def name_in(files: Files, location: str) -> TableName:
    """The name that the table of a file had when it was written. Raises as `read`."""
    data = files.read(location)
    try:
        namespace, _, name = orjson.loads(data)["row"]["table"].partition(".")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFile(location, f"it is no row of a Hive table: {error!r}") from error
    return TableName(namespace, name)


def _parsed(data: bytes, hive: HiveTables, name: TableName) -> SavedRow:
    content: Any = orjson.loads(data)
    if content["format-version"] != _FORMAT:
        raise InvalidInput(f"it has format version {content['format-version']}, which a later release wrote")
    uuid, snapshot_id = content["uuid"], content["snapshot-id"]
    if not isinstance(uuid, str) or not isinstance(snapshot_id, int | None):
        raise InvalidInput("its uuid or snapshot-id is none")
    return SavedRow(hive.decode(name, content["record"]), uuid, snapshot_id)
