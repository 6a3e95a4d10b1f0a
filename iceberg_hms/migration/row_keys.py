"""What the keys of a catalog entry say against a migration: each key that is refused, and each that nobody knows.

check_table(row, column_keys, "parquet", format_version=2, ignored=frozenset())
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from iceberg_hms.coordinator.hive_ports import HivePartition, HiveRow
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.json_fields import shown
from iceberg_hms.migration.column_defaults import CURRENT_DEFAULT, DEFAULTS, DEFAULTS_VERSION, is_null
from iceberg_hms.migration.hive_types import ColumnKey
from iceberg_hms.migration.known_keys import KeyPlace, Verdict, find, is_interpreted

#: How many keys an error names: a row may have thousands of parameters.
_NAMED_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class _Refusal:
    what: str
    next_step: str


_NO_DEFAULTS: Final = _Refusal(
    f"{CURRENT_DEFAULT} (column): this version of Iceberg's format has no defaults, and writers would write null",
    "let the Iceberg table have version 3: ALTER TABLE ... SET TBLPROPERTIES ('format-version'='3'), or upgrade an "
    "Iceberg table that exists; or let the key pass: ignore_keys",
)


def check_table(
    row: HiveRow, columns: Iterable[ColumnKey], file_format: str, *, format_version: int, ignored: frozenset[str]
) -> None:
    """Raises InvalidInput that names all keys of a table, its columns' among them, that stand in the way of a
    migration. file_format: of its files. format_version: of the Iceberg table. ignored: keys that the caller lets pass,
    in lower case."""
    found = [
        *_refusals(KeyPlace.OPTION, row.serde_parameters, file_format, ignored),
        *_refusals(KeyPlace.PARAMETER, row.parameters, file_format, ignored),
        *_column_refusals(columns, file_format, format_version, ignored),
    ]
    if found:
        raise _refused(found)


def check_partition(
    partition: HivePartition, row: HiveRow, name: str, file_format: str, *, ignored: frozenset[str]
) -> None:
    """As `check_table`, of the keys that a partition has of its own. name: of the partition."""
    options, parameters = tuple(partition.serde_parameters), tuple(partition.parameters)
    if _always_pass(KeyPlace.OPTION, options) and _always_pass(KeyPlace.PARAMETER, parameters):
        return
    found = [
        *_refusals(KeyPlace.OPTION, _own(partition.serde_parameters, row.serde_parameters), file_format, ignored),
        *_refusals(KeyPlace.PARAMETER, _own(partition.parameters, row.parameters), file_format, ignored),
    ]
    if found:
        error = _refused(found)
        raise InvalidInput(f"Partition {name} of {row.name}: {error.message}", next_step=error.next_step)


# A table may have a million partitions, and most have the same keys.
@lru_cache(maxsize=1024)
def _always_pass(place: KeyPlace, names: tuple[str, ...]) -> bool:
    """Whether no value of these keys is refused."""
    for name in names:
        known = find(place, name)
        if known is None and _is_read(place, name):
            return False
        if known is not None and known.verdict is Verdict.REFUSED:
            return False
    return True


def _is_read(place: KeyPlace, unknown: str) -> bool:
    """Whether a reader may look for a key that nobody knows."""
    return place is not KeyPlace.PARAMETER or is_interpreted(unknown)


def _own(partitions: Mapping[str, str], tables: Mapping[str, str]) -> dict[str, str]:
    """What the table has not said already."""
    return {name: value for name, value in partitions.items() if tables.get(name) != value}


def properties_of(parameters: Mapping[str, str]) -> dict[str, str]:
    """Those parameters of a Hive table's row that are properties of the Iceberg table: the user's own, and the settings
    of writers."""
    return {key: value for key, value in parameters.items() if _is_property(key)}


def _is_property(parameter: str) -> bool:
    known = find(KeyPlace.PARAMETER, parameter)
    return not is_interpreted(parameter) if known is None else known.is_property


def _refusals(
    place: KeyPlace, values: Mapping[str, str], file_format: str, ignored: frozenset[str]
) -> Iterator[_Refusal]:
    for name, value in sorted(values.items()):
        refusal = _refusal(place, name, value, file_format, ignored)
        if refusal is not None:
            yield refusal


def _refusal(place: KeyPlace, name: str, value: str, file_format: str, ignored: frozenset[str]) -> _Refusal | None:
    known = find(place, name)
    if known is not None and not known.refuses(value or "", file_format):
        return None
    passes = name.lower() in ignored or (known is not None and known.name.lower() in ignored)
    if known is None:
        if passes or not _is_read(place, name):
            return None
        return _Refusal(
            f"{shown(name)} ({place}): nobody knows here what it says of the rows",
            "if it changes no row, unset it, or let it pass: ignore_keys, --ignore-key",
        )
    if passes and not known.is_final:
        return None
    return _Refusal(f"{shown(name)} ({place}): {known.why}", known.next_step)


def _column_refusals(
    columns: Iterable[ColumnKey], file_format: str, version: int, ignored: frozenset[str]
) -> Iterator[_Refusal]:
    for column in columns:
        if column.name in DEFAULTS and is_null(column.value):
            continue
        refusal = _refusal(KeyPlace.COLUMN, column.name, column.value, file_format, ignored)
        if column.name == CURRENT_DEFAULT and version < DEFAULTS_VERSION and column.name.lower() not in ignored:
            refusal = _NO_DEFAULTS
        if refusal is not None:
            yield _Refusal(f"column {column.path}: {refusal.what}", refusal.next_step)


def _refused(found: list[_Refusal]) -> InvalidInput:
    named = list(dict.fromkeys(each.what for each in found))
    more = f"; and {len(named) - _NAMED_MAX} more" if len(named) > _NAMED_MAX else ""
    steps = list(dict.fromkeys(each.next_step for each in found[:_NAMED_MAX]))
    return InvalidInput(f"{'; '.join(named[:_NAMED_MAX])}{more}", next_step="; ".join(steps))
