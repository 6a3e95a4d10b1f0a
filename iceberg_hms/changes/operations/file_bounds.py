"""Whether the bounds of a data file can be those of its rows.

Readers leave a file out where its bounds or its partition rule out every row, so a file whose record contradicts itself
loses rows silently.
"""

from __future__ import annotations

from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.bounds import bound_value
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import Bucket, UnknownTransform, Void
from iceberg_hms.format.schema.types import PrimitiveType
from iceberg_hms.format.schema.values import kind_of

#: Types whose bounds writers cut (Java: write.metadata.metrics.default, truncate(16)): the rows may all have one value
#: even if the bounds differ.
_CUT: Final = frozenset({"string", "binary", "fixed"})
_NEXT: Final = "give the bounds that its writer counted, or none"


def check_bounds(data_file: DataFile, schema: Schema, spec: PartitionSpec) -> None:
    """Raises InvalidInput for bounds of a column that no value is within, and for bounds of the source column of a
    partition field by which some row is in another partition than the file's, which has a value for each field."""
    lower, upper = data_file.lower_bounds or {}, data_file.upper_bounds or {}
    for id_ in lower.keys() & upper.keys():
        of = _type(schema, id_)
        if of is None:
            continue
        least, greatest = bound_value(of, lower[id_]), bound_value(of, upper[id_])
        if least is not None and greatest is not None and least > greatest:
            raise InvalidInput(
                f"{data_file.file_path} has bounds of {schema.name_of(id_)} that no value is within: {least!r} to "
                f"{greatest!r}",
                next_step=_NEXT,
            )
    for field in spec.fields:
        of = _type(schema, field.source_id)
        if of is None or isinstance(field.transform, UnknownTransform | Void):
            continue
        least, greatest = bound_value(of, lower.get(field.source_id)), bound_value(of, upper.get(field.source_id))
        if not _may_be_in(data_file.partition[field.name], field, of, least, greatest):
            raise InvalidInput(
                f"{data_file.file_path} is in partition {field.name}={data_file.partition[field.name]!r}, and its "
                f"bounds of {schema.name_of(field.source_id)} are {least!r} to {greatest!r}",
                next_step=f"write one file for each partition, with its partition's value; or {_NEXT}",
            )


def _may_be_in(value: Any, field: PartitionField, of: PrimitiveType, least: Any, greatest: Any) -> bool:
    """Whether all rows between two bounds, of which each may be unknown, may have a partition value."""
    if least is None and greatest is None:
        return True
    if value is None:
        # A bound is of a row that has a value.
        return False
    if isinstance(field.transform, Bucket):
        return least != greatest or bool(field.transform.apply(least, of) == value)
    lowest, highest = field.transform.apply(least, of), field.transform.apply(greatest, of)
    if kind_of(of) in _CUT:
        return (lowest is None or lowest <= value) and (highest is None or value <= highest)
    return lowest in (None, value) and highest in (None, value)


def _type(schema: Schema, id_: int) -> PrimitiveType | None:
    field = schema.field(id_)
    return field.type if field is not None and isinstance(field.type, PrimitiveType) else None
