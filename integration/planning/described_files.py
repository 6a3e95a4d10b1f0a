"""Data files as records: what writers say of the values in them. There are no files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.types import NestedField, StructType, Type

#: Characters and bytes of bounds that writers shorten (Java: write.metadata.metrics.default, truncate(16)).
TRUNCATED_TO: Final = 16
_numbers = itertools.count(1)


def described(
    metadata: TableMetadata, columns: Mapping[str, Sequence[Any]], spec: PartitionSpec | None = None, **others: Any
) -> DataFile:
    """A new data file. columns: by dotted name the values of each, as `format.schema.values` has them; the first value
    gives the partition. A column that is left out has no metrics, as one that the writer did not know. spec: by default
    the table's own. others: what the record says besides, or instead."""
    spec = spec or metadata.spec
    rows = max((len(each) for each in columns.values()), default=1)
    counts, nulls, nans, lower, upper = {}, {}, {}, {}, {}
    for name, stored in columns.items():
        field = metadata.schema.find(name)
        assert field is not None, name
        assert len(stored) == rows
        counts[field.id] = rows
        known = [each for each in stored if each is not None]
        nulls[field.id] = rows - len(known)
        numbers = [each for each in known if not _is_nan(each)]
        if values.kind_of(field.type) in ("float", "double"):
            nans[field.id] = len(known) - len(numbers)
        if numbers:
            lower[field.id], upper[field.id] = _bounds(field.type, min(numbers), max(numbers))
            if upper[field.id] is None:
                del upper[field.id]
    record = {
        "file_path": f"{metadata.location}/data/{next(_numbers):06d}.parquet",
        "file_format": "PARQUET",
        "record_count": rows,
        "file_size_in_bytes": 1_000 * rows,
        "partition": _partition(metadata, spec, columns),
        "spec_id": spec.spec_id,
        "value_counts": counts,
        "null_value_counts": nulls,
        "nan_value_counts": nans,
        "lower_bounds": lower,
        "upper_bounds": upper,
    }
    return DataFile(**{**record, **others})


def _partition(metadata: TableMetadata, spec: PartitionSpec, columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    found = {}
    for each in spec.fields:
        source = _source(metadata, each.source_id)
        name = metadata.schema.name_of(each.source_id)
        value = None if name is None or name not in columns else columns[name][0]
        found[each.name] = each.transform.apply(value, source.type)
    return found


def _source(metadata: TableMetadata, field_id: int) -> NestedField:
    field = metadata.schema.field(field_id)
    assert field is not None
    return field


def _bounds(of: Type, low: Any, high: Any) -> tuple[bytes, Any]:
    """Lower and upper, shortened as Java shortens them; None: there is no upper one so short."""
    assert not isinstance(of, StructType)
    if values.kind_of(of) == "string":
        return low[:TRUNCATED_TO].encode(), _upper_text(high)
    if values.kind_of(of) == "binary":
        return low[:TRUNCATED_TO], _upper_bytes(high)
    return values.to_bytes(of, low), values.to_bytes(of, high)


def _upper_text(text: str) -> bytes | None:
    if len(text) <= TRUNCATED_TO:
        return text.encode()
    for length in range(TRUNCATED_TO, 0, -1):
        following = ord(text[length - 1]) + 1
        if following <= 0x10FFFF and not 0xD800 <= following <= 0xDFFF:
            return (text[: length - 1] + chr(following)).encode()
    return None


def _upper_bytes(data: bytes) -> bytes | None:
    if len(data) <= TRUNCATED_TO:
        return data
    kept = data[:TRUNCATED_TO].rstrip(b"\xff")
    return None if not kept else kept[:-1] + bytes([kept[-1] + 1])


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
