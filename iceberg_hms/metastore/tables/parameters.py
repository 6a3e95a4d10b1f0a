"""The HMS parameters of an Iceberg table's row, as Java's HMSTablePropertyHelper writes them.

Iceberg *properties* live in the table's metadata file; HMS *parameters* are the key-value rows (TABLE_PARAMS) beside
the pointer. The metadata file is the truth: parameters are for engines and people that look at the metastore only.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import orjson

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.metastore.compare_and_swap.alter import DO_NOT_UPDATE_STATS
from iceberg_hms.metastore.compare_and_swap.alter import METADATA_LOCATION as METADATA_LOCATION

logger = logging.getLogger(__name__)

#: The longest name that the metastore's database takes (TABLE_PARAMS.PARAM_KEY).
KEY_MAX = 256

TABLE_TYPE = "table_type"
ICEBERG = "ICEBERG"
PREVIOUS_METADATA_LOCATION = "previous_metadata_location"
#: The table's UUID, as Java writes it too. PyIceberg and Trino make rows without it.
UUID = "uuid"
#: The Iceberg property that names the owner of the row; it is written into the row itself, not into its parameters.
TABLE_OWNER = "hive.metastore.table.owner"

_EXTERNAL = "EXTERNAL"
_HIVE_ENGINE = "engine.hive.enabled"
_STORAGE_HANDLER = "storage_handler"
_ICEBERG_STORAGE_HANDLER = "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"
_COLUMN_STATISTICS = "COLUMN_STATS_ACCURATE"

#: Iceberg property -> HMS parameter, where Hive calls the same switch otherwise.
_TRANSLATED = {"gc.enabled": "external.table.purge"}

#: Parameters that tell every engine what the row is; a table's own properties never touch them.
_RESERVED = frozenset({_EXTERNAL, TABLE_TYPE, METADATA_LOCATION, PREVIOUS_METADATA_LOCATION})

_STATISTICS = (("total-data-files", "numFiles"), ("total-records", "numRows"), ("total-files-size", "totalSize"))


def is_iceberg(parameters: Mapping[str, str]) -> bool:
    """Whether a row's parameters say that it is an Iceberg table."""
    return parameters.get(TABLE_TYPE, "").upper() == ICEBERG


def hive_engine_enabled(metadata: TableMetadata) -> bool:
    """Whether the table wants to be readable by Hive itself (`engine.hive.enabled`, default false)."""
    return metadata.properties.get(_HIVE_ENGINE, "false").strip().lower() == "true"


def parameters_for(
    current: Mapping[str, str],
    location: str,
    metadata: TableMetadata,
    *,
    replaced: TableMetadata | None,
    max_size: int,
) -> dict[str, str]:
    """The parameters of a row that points at `location`, whose content is `metadata`.

    current: the row's parameters now, {} for a new row; what is not ours stays.
    replaced: the metadata that the row points at now; its properties that `metadata` lacks are removed.
    max_size: `iceberg.hive.table-property-max-size`, characters; larger schema, spec, order and summary are left out,
        never stale, and 0 leaves out the snapshot too.
    """
    parameters = dict(current)
    if replaced is not None:
        for key in replaced.properties.keys() - metadata.properties.keys():
            if _is_shown(key):
                parameters.pop(_TRANSLATED.get(key, key), None)
    for key, value in metadata.properties.items():
        if _is_shown(key):
            parameters[_TRANSLATED.get(key, key)] = value
    _set_identity(parameters, current, location, metadata)
    _set_statistics(parameters, metadata)
    _set_snapshot(parameters, metadata, max_size)
    _set_json(parameters, "current-schema", metadata.schema.raw, max_size)
    spec, order = metadata.spec, metadata.sort_order
    _set_json(parameters, "default-partition-spec", None if spec.is_unpartitioned else spec.raw, max_size)
    _set_json(parameters, "default-sort-order", None if order.is_unsorted else order.raw, max_size)
    return parameters


def _is_shown(key: str) -> bool:
    """Whether a property is a parameter too. One with a longer name is in the metadata alone: the metastore's database
    would refuse the swap, and with it the other changes of its group."""
    return key not in _RESERVED and key.lower() != TABLE_OWNER and len(key) <= KEY_MAX


def _set_identity(
    parameters: dict[str, str], current: Mapping[str, str], location: str, metadata: TableMetadata
) -> None:
    if not current:
        parameters[_EXTERNAL] = "TRUE"
    parameters[TABLE_TYPE] = ICEBERG
    parameters[METADATA_LOCATION] = location
    previous = current.get(METADATA_LOCATION)
    if previous:
        parameters[PREVIOUS_METADATA_LOCATION] = previous
    if metadata.uuid is not None:
        parameters[UUID] = metadata.uuid
    if hive_engine_enabled(metadata):
        parameters[_STORAGE_HANDLER] = _ICEBERG_STORAGE_HANDLER
    else:
        parameters.pop(_STORAGE_HANDLER, None)


def _set_statistics(parameters: dict[str, str], metadata: TableMetadata) -> None:
    snapshot = metadata.current_snapshot
    summary = snapshot.summary if snapshot is not None else {}
    for metric, parameter in _STATISTICS:
        value = summary.get(metric)
        if value is not None:
            parameters[parameter] = value
    # Hive would answer queries from statistics that it believes to be exact.
    parameters.pop(_COLUMN_STATISTICS, None)
    parameters[DO_NOT_UPDATE_STATS] = "true"


def _set_snapshot(parameters: dict[str, str], metadata: TableMetadata, max_size: int) -> None:
    parameters["snapshot-count"] = str(len(metadata.snapshots))
    snapshot = metadata.current_snapshot
    if snapshot is None or max_size == 0:
        for key in ("current-snapshot-id", "current-snapshot-timestamp-ms", "current-snapshot-summary"):
            parameters.pop(key, None)
        return
    parameters["current-snapshot-id"] = str(snapshot.snapshot_id)
    parameters["current-snapshot-timestamp-ms"] = str(snapshot.timestamp_ms)
    summary = {key: value for key, value in snapshot.summary.items() if key != "operation"}
    _set_json(parameters, "current-snapshot-summary", summary, max_size)


def _set_json(parameters: dict[str, str], key: str, value: Any | None, max_size: int) -> None:
    # Removed first: what is too long must not leave an older value behind.
    parameters.pop(key, None)
    if value is None or max_size == 0:
        return
    text = orjson.dumps(value).decode()
    if len(text) <= max_size:
        parameters[key] = text
    else:
        logger.warning("The HMS parameter %s is left out: it has %d characters, more than %d", key, len(text), max_size)
