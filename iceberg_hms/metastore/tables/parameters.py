"""The HMS parameters of an Iceberg table's or view's row, as Java's HMSTablePropertyHelper writes them.

Iceberg *properties* live in the table's metadata file; HMS *parameters* are the key-value rows (TABLE_PARAMS) beside
the pointer. The metadata file is the truth: parameters are for engines and people that look at the metastore only, and
for the little that is read from the row before the metadata (`_READ_FROM_ROW`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from heapq import nsmallest
from typing import Any

import orjson

from iceberg_hms.coordinator.ports import EXCLUSIVE, HIVE_LOCK_ENABLED, HIVE_TABLE, LOCK_MARK, OWNED_FOLDER
from iceberg_hms.format.locations import same_folder
from iceberg_hms.format.metadata.named_locations import LOCATION_PROPERTIES
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING
from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.metastore.compare_and_swap.row_write import DO_NOT_UPDATE_STATS
from iceberg_hms.metastore.compare_and_swap.row_write import METADATA_LOCATION as METADATA_LOCATION
from iceberg_hms.metastore.compare_and_swap.row_write import VIRTUAL_VIEW as VIRTUAL_VIEW
from iceberg_hms.metastore.connection.storable import PARAMETERS_MAX, VALUE_MAX, fits, is_key
from iceberg_hms.metastore.tables.view_text import set_spark_parameters

logger = logging.getLogger(__name__)

TABLE_TYPE = "table_type"
ICEBERG = "ICEBERG"
ICEBERG_VIEW = "ICEBERG-VIEW"
PREVIOUS_METADATA_LOCATION = "previous_metadata_location"
#: The table's UUID, as Java writes it too. PyIceberg and Trino make rows without it.
UUID = "uuid"
#: The Iceberg property that names the owner of a new row, as in Java; it is no parameter of the row.
TABLE_OWNER = "hive.metastore.table.owner"

#: The types of tables' rows (HMS: TableType).
MANAGED_TABLE = "MANAGED_TABLE"
EXTERNAL_TABLE = "EXTERNAL_TABLE"
EXTERNAL = "EXTERNAL"
#: When the row was last changed, in seconds since 1970. Every release of the metastore sets it if the new row lacks it,
#: and keeps the value that the new row has.
LAST_CHANGED = "transient_lastDdlTime"
_HIVE_ENGINE = "engine.hive.enabled"
_STORAGE_HANDLER = "storage_handler"
_ICEBERG_STORAGE_HANDLER = "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"
_COLUMN_STATISTICS = "COLUMN_STATS_ACCURATE"

#: Iceberg property -> HMS parameter, where Hive calls the same switch otherwise.
_GC_ENABLED = "gc.enabled"
#: From Hive 3 on the metastore deletes the files of an external table that has it.
TABLE_PURGE = "external.table.purge"
_TRANSLATED = {_GC_ENABLED: TABLE_PURGE}

#: Properties that we, Hive or Trino read from the row. No number of others takes their place: one who may set any but
#: these could else change the lock that a table takes.
_READ_FROM_ROW = frozenset(
    {LOCK_MARK, EXCLUSIVE, HIVE_LOCK_ENABLED, *LOCATION_PROPERTIES}
    | {NAME_MAPPING, _HIVE_ENGINE, _GC_ENABLED, TABLE_PURGE, "comment", "format-version", "write.format.default"}
)
#: How the names of the settings of Iceberg and of engines begin. They go before a user's own properties.
_OF_ENGINES = ("commit.", "engine.", "history.", "hive.", "iceberg", "read.", "spark.", "trino", "write.")

#: Parameters that say what the row is and what it owns; a table's own properties never touch them.
_RESERVED = frozenset({EXTERNAL, TABLE_TYPE, METADATA_LOCATION, PREVIOUS_METADATA_LOCATION, OWNED_FOLDER, HIVE_TABLE})

_STATISTICS = (("total-data-files", "numFiles"), ("total-records", "numRows"), ("total-files-size", "totalSize"))


def is_iceberg(parameters: Mapping[str, str]) -> bool:
    """Whether a row's parameters say that it is an Iceberg table."""
    return parameters.get(TABLE_TYPE, "").upper() == ICEBERG


def is_iceberg_view(table_type: str | None, parameters: Mapping[str, str]) -> bool:
    """Whether a row is an Iceberg view's. table_type: the row's own, not the parameter."""
    return (table_type or "").upper() == VIRTUAL_VIEW and parameters.get(TABLE_TYPE, "").upper() == ICEBERG_VIEW


def is_purged(table_type: str | None, parameters: Mapping[str, str]) -> bool:
    """Whether the metastore deletes a table's files when it drops the table."""
    if table_type == EXTERNAL_TABLE:
        return parameters.get(TABLE_PURGE, "").lower() == "true"
    return table_type == MANAGED_TABLE


def owner_of(properties: Mapping[str, str], caller: str | None, user: str) -> str | None:
    """The owner of a new row: the caller by name, whatever the properties say; else the one that they name, or the
    setting `user`."""
    return caller or properties.get(TABLE_OWNER) or user or None


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
    owns_folder: bool = False,
) -> dict[str, str]:
    """The parameters of a row that points at `location`, whose content is `metadata`.

    current: the row's parameters now, {} for a new row; what is not ours stays.
    replaced: the metadata that the row points at now; its properties that `metadata` lacks are removed.
    max_size: `iceberg.hive.table-property-max-size`, bytes; larger schema, spec, order and summary are left out, never
        stale, and 0 leaves out the snapshot too.
    owns_folder: as `TablePointer.create` and `swap` have it.

    A property that some metastore cannot hold is in the metadata alone, unless the row has it already: the metastore's
    database would refuse the swap, and with it the other changes of its group. So is what `PARAMETERS_MAX` leaves out.
    """
    parameters = dict(current)
    value_max = max_size or VALUE_MAX
    before = {} if replaced is None else replaced.properties
    _set_properties(parameters, before, metadata.properties, _TRANSLATED, value_max)
    _set_identity(parameters, current, location, metadata)
    _set_owned_folder(parameters, metadata.location, owns_folder)
    _set_statistics(parameters, metadata, value_max)
    _set_snapshot(parameters, metadata, max_size)
    _set_json(parameters, "current-schema", metadata.schema.raw, max_size)
    spec, order = metadata.spec, metadata.sort_order
    _set_json(parameters, "default-partition-spec", None if spec.is_unpartitioned else spec.raw, max_size)
    _set_json(parameters, "default-sort-order", None if order.is_unsorted else order.raw, max_size)
    return parameters


def view_parameters_for(
    current: Mapping[str, str],
    location: str,
    metadata: ViewMetadata,
    *,
    replaced: ViewMetadata | None,
    max_size: int,
) -> dict[str, str]:
    """The same for a view's row: the pointer, the UUID, the properties, the current schema, and the namespace in which
    Spark resolves the row's SQL."""
    parameters = dict(current)
    before = {} if replaced is None else replaced.properties
    _set_properties(parameters, before, metadata.properties, {}, max_size or VALUE_MAX)
    _set_pointer(parameters, current, location, ICEBERG_VIEW, metadata.uuid)
    _set_json(parameters, "current-schema", metadata.schema.raw, max_size)
    set_spark_parameters(parameters, metadata)
    return parameters


def _set_properties(
    parameters: dict[str, str],
    before: Mapping[str, str],
    after: Mapping[str, str],
    translated: Mapping[str, str],
    value_max: int,
) -> None:
    shown = _first(after)
    for key in (before.keys() | after.keys()) - shown.keys():
        if _is_shown(key):
            parameters.pop(translated.get(key, key), None)
    for key, value in shown.items():
        parameter = translated.get(key, key)
        # Most commits change none: this comparison is all that they pay for.
        if parameters.get(parameter) != value and _is_shown(key):
            _set(parameters, parameter, value, value_max)


def _first(properties: Mapping[str, str]) -> Mapping[str, str]:
    """As many properties as a row gets, the same ones for the same properties."""
    if len(properties) <= PARAMETERS_MAX:
        return properties

    def rank(key: str) -> tuple[bool, bool, str]:
        return key not in _READ_FROM_ROW, not key.startswith(_OF_ENGINES), key

    return {key: properties[key] for key in nsmallest(PARAMETERS_MAX, properties, key=rank)}


def _is_shown(key: str) -> bool:
    """Whether a property is a parameter too, if the metastore holds it."""
    return key not in _RESERVED and key.lower() != TABLE_OWNER


def _set(parameters: dict[str, str], key: str, value: str, value_max: int) -> None:
    """Set a parameter, unless the row has it already; one that a metastore may not hold is removed, never stale."""
    if parameters.get(key) == value:
        return
    if is_key(key) and fits(value, value_max):
        parameters[key] = value
    else:
        parameters.pop(key, None)


def _set_identity(
    parameters: dict[str, str], current: Mapping[str, str], location: str, metadata: TableMetadata
) -> None:
    if not current:
        parameters[EXTERNAL] = "TRUE"
    _set_pointer(parameters, current, location, ICEBERG, metadata.uuid)
    if hive_engine_enabled(metadata):
        parameters[_STORAGE_HANDLER] = _ICEBERG_STORAGE_HANDLER
    else:
        parameters.pop(_STORAGE_HANDLER, None)


def _set_owned_folder(parameters: dict[str, str], location: str, owns_folder: bool) -> None:
    if owns_folder:
        parameters[OWNED_FOLDER] = location
    elif OWNED_FOLDER in parameters and not same_folder(parameters[OWNED_FOLDER], location):
        del parameters[OWNED_FOLDER]


def _set_pointer(
    parameters: dict[str, str], current: Mapping[str, str], location: str, table_type: str, uuid: str | None
) -> None:
    parameters[TABLE_TYPE] = table_type
    parameters[METADATA_LOCATION] = location
    previous = current.get(METADATA_LOCATION)
    if previous:
        parameters[PREVIOUS_METADATA_LOCATION] = previous
    if uuid is not None:
        _set(parameters, UUID, uuid, VALUE_MAX)


def _set_statistics(parameters: dict[str, str], metadata: TableMetadata, value_max: int) -> None:
    snapshot = metadata.current_snapshot
    summary = snapshot.summary if snapshot is not None else {}
    for metric, parameter in _STATISTICS:
        value = summary.get(metric)
        if value is not None:
            _set(parameters, parameter, value, value_max)
    # Hive would answer queries from statistics that it believes to be exact.
    parameters.pop(_COLUMN_STATISTICS, None)
    parameters[DO_NOT_UPDATE_STATS] = "true"


def _set_snapshot(parameters: dict[str, str], metadata: TableMetadata, max_size: int) -> None:
    parameters["snapshot-count"] = str(len(metadata.snapshot_rows))
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
    if fits(text, max_size):
        parameters[key] = text
    else:
        logger.warning(
            "The HMS parameter %s is left out: its %d characters are more than %d bytes", key, len(text), max_size
        )
