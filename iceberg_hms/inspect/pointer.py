"""The table's row in the metastore: every HMS parameter, and its meaning.

HMS keeps the parameters in TABLE_PARAMS, one row each. Java's HMSTablePropertyHelper defines which of them Iceberg
writes, and from what.
"""

from __future__ import annotations

from collections.abc import Mapping

from iceberg_hms.coordinator.ports import Pointer

_MEANINGS = {
    "metadata_location": "the table's current metadata file: the pointer that a commit swaps",
    "previous_metadata_location": "the metadata file that the last swap replaced",
    "table_type": "ICEBERG makes the row an Iceberg table",
    "EXTERNAL": "TRUE: dropping the row leaves the files",
    "uuid": "the table's identity, the same through all commits",
    "current-schema": "copy of the current schema, for tools that read only the metastore",
    "default-partition-spec": "copy of the partition spec",
    "default-sort-order": "copy of the sort order",
    "current-snapshot-id": "the snapshot that readers of main see",
    "current-snapshot-timestamp-ms": "when that snapshot was committed, in milliseconds since 1970",
    "current-snapshot-summary": "what that snapshot did",
    "snapshot-count": "snapshots that the metadata keeps",
    "numFiles": "data files of the current snapshot",
    "numRows": "rows of the current snapshot",
    "totalSize": "bytes of the current snapshot's files",
    "transient_lastDdlTime": "when the metastore last changed the row, in seconds since 1970",
    "DO_NOT_UPDATE_STATS": "asks the metastore not to list the table's folder",
    "COLUMN_STATS_ACCURATE": "whether Hive trusts its own column statistics",
    "storage_handler": "lets Hive itself read and write the table",
    "external.table.purge": "the table property gc.enabled, under Hive's name: a purge may delete data files",
    "engine.hive.enabled": "Hive itself may use the table",
    "engine.hive.lock-enabled": "false: every writer uses compare-and-swap instead of locks",
    "iceberg-hms.lock": "which lock all writers of iceberg-hms take first",
    "iceberg-hms.exclusive": "true: iceberg-hms is the only writer",
    "iceberg-hms.hive-table": "the row that the table had as a Hive table: `iceberg-hms migrate --undo` writes it back",
    "metadata_hash": "checksum of the metadata file of an encrypted table",
    "comment": "the table's comment",
}
#: Listed first: they make the row an Iceberg table and point at its metadata.
_FIRST = ("table_type", "EXTERNAL", "metadata_location", "previous_metadata_location", "uuid")


def parameter_rows(pointer: Pointer, properties: Mapping[str, str]) -> list[dict[str, str]]:
    """Every parameter of the row: those of the pointer first, the rest by name. meaning: for people; also says if it is
    a copy of a table property.

    properties: the table's Iceberg properties, which Java copies into the parameters.
    """
    order = {name: index for index, name in enumerate(_FIRST)}
    named = sorted(pointer.parameters.items(), key=lambda item: (order.get(item[0], len(order)), item[0]))
    return [{"parameter": name, "value": value, "meaning": _meaning(name, value, properties)} for name, value in named]


def _meaning(name: str, value: str, properties: Mapping[str, str]) -> str:
    if name in _MEANINGS:
        return _MEANINGS[name]
    if name not in properties:
        return "set by another tool"
    if properties[name] == value:
        return "copy of the table property"
    return f"differs from the table property, which is {properties[name]!r}"
