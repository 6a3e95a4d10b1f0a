"""From nested columns, as a manifest has them, to those of `layout`: a column for each partition field, and for each
statistic of each column of the table."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent, StoredManifest, StoredPartitionField
from iceberg_hms.planning import layout

_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_UUID_BYTES: Final = 16
_UUID: Final = pa.binary(_UUID_BYTES)
#: The most digits that a decimal has in Iceberg, and in Arrow's 16 bytes.
_DECIMAL_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition field of a manifest. label: its name in records. field_id: its id. stored_type: of the values as they
    are stored. type: of its column. convert: a stored value to one of the column; None: they are cast."""

    label: str
    field_id: int
    stored_type: pa.DataType
    type: pa.DataType
    convert: Callable[[Any], Any] | None = None


def partition_columns(stored: StoredManifest) -> list[PartitionColumn]:
    """The partition fields of a manifest. Raises ValueError for a type that no partition value has, and for a field
    without an id."""
    ids = {name: field_id for field_id, name in stored.names.items()}
    return [_partition_column(each, ids) for each in stored.partition]


def _partition_column(field: StoredPartitionField, ids: Mapping[str, int]) -> PartitionColumn:
    field_id = ids.get(field.name) if field.field_id is None else field.field_id
    if field_id is None:
        raise ValueError(f"partition field {field.name} has no id")
    kind, logical = field.kind, None
    while isinstance(kind, dict) and kind["type"] != "fixed":
        logical = logical or kind.get("logicalType")
        kind = kind["type"]
    if isinstance(kind, dict):
        logical = logical or kind.get("logicalType")
        stored_type = pa.binary(int(kind["size"]))
    elif isinstance(kind, str) and kind in _PLAIN:
        stored_type = _PLAIN[kind]
    else:
        raise ValueError(f"partition field {field_id} has values of type {kind}")
    if logical == "uuid":
        convert = (lambda text: uuid.UUID(text).bytes) if stored_type == pa.string() else None
        return PartitionColumn(field.label, field_id, stored_type, _UUID, convert)
    if logical == "decimal":
        scale = int(field.kind.get("scale", 0))
        return PartitionColumn(field.label, field_id, stored_type, pa.decimal128(_DECIMAL_DIGITS, scale), field.convert)
    binary = pa.types.is_fixed_size_binary(stored_type)
    return PartitionColumn(field.label, field_id, stored_type, pa.binary() if binary else stored_type)


def flat_columns(
    nested: Mapping[str, pa.Array], partition: list[PartitionColumn], stats: frozenset[int] | None
) -> pa.RecordBatch:
    """The columns of the live entries. nested: by the names that fields of entries and files have in
    `manifest_schemas`; of those that the manifest lacks, none. stats: as for `decode_columns`. Raises ValueError for
    what is not an entry's."""
    columns = _entry_columns(nested)
    for field in partition:
        if not pa.types.is_null(field.type):
            columns[layout.partition(field.field_id)] = _converted(nested[field.label], field)
    for name, map_name in layout.STATISTICS.items():
        maps = nested.get(map_name)
        if maps is not None and maps.null_count < len(maps) and (stats is None or stats):
            for column_id, values in statistics(maps, stats):
                columns[layout.statistic(name, column_id)] = values
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    live = pc.not_equal(columns[layout.STATUS], pa.scalar(int(EntryStatus.DELETED), pa.int32()))
    return batch if pc.all(live).as_py() is not False else batch.filter(live)


def _entry_columns(nested: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    count = len(nested[layout.STATUS])
    columns = {}
    for name, kind in layout.TYPES.items():
        values = nested.get(name)
        if name == layout.CONTENT:
            # Manifests of version 1 have only data files.
            values = _zeros(count) if values is None or values.null_count == count else values.fill_null(0)
        if name in layout.REQUIRED:
            if values is None or values.null_count:
                raise ValueError(f"an entry has no {name}")
        elif values is None or values.null_count == count:
            continue
        columns[name] = values if values.type == kind else values.cast(kind)
    _check_range(columns[layout.STATUS], layout.STATUS, EntryStatus.DELETED)
    _check_range(columns[layout.CONTENT], layout.CONTENT, FileContent.EQUALITY_DELETES)
    return columns


def _zeros(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(0, pa.int32()), count)


def _check_range(values: pa.Array, name: str, last: int) -> None:
    found = pc.min_max(values)
    for each in (found["min"].as_py(), found["max"].as_py()):
        if each is not None and not 0 <= each <= last:
            raise ValueError(f"{each} is no {name}")


def _converted(values: pa.Array, field: PartitionColumn) -> pa.Array:
    if field.convert is None:
        return values if values.type == field.type else values.cast(field.type)
    # A manifest has few partitions.
    encoded = values.dictionary_encode()
    distinct = [None if each is None else field.convert(each) for each in encoded.dictionary.to_pylist()]
    return pa.array(distinct, field.type).take(encoded.indices)


def statistics(maps: pa.Array, wanted: frozenset[int] | None) -> Iterator[tuple[int, pa.Array]]:
    """The values of a map of each row by its keys, sorted by key: a list of pairs a row becomes an array a key, as long
    as there are rows. wanted: keys; None: all. Of a key that a row has twice, the last value counts. Raises ValueError
    for a pair without a key."""
    pairs = maps.flatten()
    keys, values = pairs.field("key"), pairs.field("value")
    if keys.null_count:
        raise ValueError("a statistic has no column")
    width = _common_width(maps, keys)
    if width is None:
        found = _scattered(keys, values, pc.list_parent_indices(maps), len(maps), wanted)
    else:
        found = _aligned(keys, values, width, wanted)
        if maps.null_count:
            found = _at_valid(found, maps)
    for column_id, each in found:
        if each.null_count < len(each):
            yield column_id, each


def _common_width(maps: pa.Array, keys: pa.Array) -> int | None:
    """How many keys each row has, if all that have any have the same ones in the same order: most manifests are so."""
    lengths = pc.min_max(pc.list_value_length(maps))
    width: int = lengths["min"].as_py() or 0
    if width != (lengths["max"].as_py() or 0):
        return None
    return width if keys.slice(width).equals(keys.slice(0, max(0, len(keys) - width))) else None


def _aligned(
    keys: pa.Array, values: pa.Array, width: int, wanted: frozenset[int] | None
) -> Iterator[tuple[int, pa.Array]]:
    places = {key: place for place, key in enumerate(keys.slice(0, width).to_pylist())}
    firsts = pc.multiply(_numbers(len(keys) // width), width) if width else None
    for key in sorted(places if wanted is None else wanted & places.keys()):
        yield key, values.take(pc.add(firsts, places[key]))


def _at_valid(found: Iterator[tuple[int, pa.Array]], maps: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Arrays with a value for each map that is not null, as arrays with a value for each."""
    is_there = maps.is_valid()
    before = pc.subtract(pc.cumulative_sum(is_there.cast(pa.int64())), 1)
    places = pc.if_else(is_there, before, pa.scalar(None, pa.int64()))
    for key, values in found:
        yield key, values.take(places)


def _scattered(
    keys: pa.Array, values: pa.Array, rows: pa.Array, count: int, wanted: frozenset[int] | None
) -> Iterator[tuple[int, pa.Array]]:
    """rows: the row of each pair. count: of rows."""
    if wanted is not None:
        for key in sorted(wanted):
            mine = pc.equal(keys, pa.scalar(key, keys.type))
            yield key, _by_row(rows.filter(mine), values.filter(mine), count)
        return
    # Sorting keeps the order of rows for each key.
    order = pc.sort_indices(keys)
    at = 0
    for found in pc.value_counts(keys.take(order)):
        pairs = found["counts"].as_py()
        mine = order.slice(at, pairs)
        at += pairs
        yield found["values"].as_py(), _by_row(rows.take(mine), values.take(mine), count)


def _by_row(rows: pa.Array, values: pa.Array, count: int) -> pa.Array:
    """An array of so many rows with each value in its row. rows: ascending."""
    twice = pc.equal(rows.slice(1), rows.slice(0, max(0, len(rows) - 1)))
    if pc.any(twice).as_py():
        last = pa.concat_arrays([pc.invert(twice), pa.array([True])])
        rows, values = rows.filter(last), values.filter(last)
    return values if len(rows) == count else values.take(pc.index_in(_numbers(count), value_set=rows))


def _numbers(count: int) -> pa.Array:
    """The numbers from 0."""
    return _power_of_numbers(count.bit_length()).slice(0, count)


@lru_cache(maxsize=4)
def _power_of_numbers(bits: int) -> pa.Array:
    return pa.array(range(1 << bits), pa.int64())
