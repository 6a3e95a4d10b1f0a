"""Predicates judged on the columns of partition fields: `expressions.binding.value_matches` for all values at once.

Arrow's kernels compare where their rules are Python's; else each distinct value goes to that function.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.changes.partition_set import schema_of_spec
from iceberg_hms.expressions.binding import BoundPredicate, value_matches
from iceberg_hms.expressions.expression import Operator
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import uuid_order, values
from iceberg_hms.format.schema.types import NestedField, Type
from iceberg_hms.planning import layout
from iceberg_hms.planning.bound_columns import comparable_type

_O = Operator
#: What Arrow and Python say to a value that an Arrow type does not hold.
UNFIT: Final = (ValueError, OverflowError, TypeError, pa.ArrowException)
_COMPARISONS: Final = {
    _O.LT: pc.less,
    _O.LT_EQ: pc.less_equal,
    _O.GT: pc.greater,
    _O.GT_EQ: pc.greater_equal,
    _O.EQ: pc.equal,
    _O.NOT_EQ: pc.not_equal,
}
#: In place of the value of a field that a manifest's tuples lack.
ABSENT: Final = object()
#: Columns of manifests from before a promotion, whose numbers Arrow widens.
_WIDENED: Final = ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


def partition_test(predicate: BoundPredicate) -> Callable[[pa.Array], pa.BooleanArray]:
    """Which values of a partition field's column match a predicate on that field; none of the answers is null."""
    operator, wanted = predicate.operator, comparable_type(predicate.type)
    compare = value_kernel(operator, predicate)

    def test(column: pa.Array) -> pa.BooleanArray:
        if operator is _O.IS_NULL:
            return column.is_null()
        if operator is _O.NOT_NULL:
            return column.is_valid()
        if compare is not None and (column.type == wanted or (column.type, wanted) in _WIDENED):
            return pc.fill_null(compare(column if column.type == wanted else column.cast(wanted)), False)
        encoded = column.dictionary_encode(null_encoding="encode")
        answers = [value_matches(predicate, each) for each in partition_values(encoded.dictionary, predicate.type)]
        return pa.array(answers, pa.bool_()).take(encoded.indices)

    return test


def partition_values(column: pa.Array, of: Type) -> list[Any]:
    """The values of a partition field's column, as `format.schema.values` has them."""
    found: list[Any] = column.to_pylist()
    if values.kind_of(of) == uuid_order.KIND:
        return [uuid.UUID(bytes=each) if isinstance(each, bytes) else each for each in found]
    return found


def value_kernel(operator: Operator, predicate: BoundPredicate) -> Callable[[pa.Array], pa.BooleanArray] | None:
    """Which values of a column of `comparable_type` match an operator with a predicate's values; null for null. None
    where Arrow's rules differ from Python's, and for values that Arrow has no room for."""
    of = comparable_type(predicate.type)
    if of is None or pa.types.is_decimal(of) or pa.types.is_boolean(of):
        return None
    try:
        if operator in _COMPARISONS:
            kernel, scalar = _COMPARISONS[operator], pa.scalar(predicate.value, of)
            return lambda column: kernel(column, scalar)
        # Arrow's sets tell 0.0 from -0.0.
        if operator.is_set and not pa.types.is_floating(of):
            found = pa.array(list(predicate.values), of)
            if operator is _O.IN:
                return lambda column: pc.is_in(column, value_set=found)
            return lambda column: pc.and_(column.is_valid(), pc.invert(pc.is_in(column, value_set=found)))
        if operator in (_O.STARTS_WITH, _O.NOT_STARTS_WITH):
            prefix = pa.scalar(predicate.value, of).as_py()
            if operator is _O.STARTS_WITH:
                return lambda column: pc.starts_with(column, prefix)
            return lambda column: pc.invert(pc.starts_with(column, prefix))
    except UNFIT:
        pass
    return None


def distinct_values(
    columns: Sequence[pa.Array | None], types: Sequence[Type]
) -> tuple[list[tuple[Any, ...]], pa.Array | None]:
    """The distinct tuples of the values of some columns, and for each row the place of its own; None: all have the only
    one."""
    tuples: list[tuple[Any, ...]] = [()]
    places = None
    for column, of in zip(columns, types, strict=True):
        if column is None:
            tuples = [(*each, ABSENT) for each in tuples]
            continue
        encoded = column.dictionary_encode(null_encoding="encode")
        found = partition_values(encoded.dictionary, of)
        if places is None:
            places = encoded.indices
            tuples = [(*tuples[0], each) for each in found]
            continue
        pairs = pc.add(pc.multiply(places.cast(pa.int64()), len(found)), encoded.indices.cast(pa.int64()))
        encoded = pairs.dictionary_encode()
        places = encoded.indices
        tuples = [(*tuples[each // len(found)], found[each % len(found)]) for each in encoded.dictionary.to_pylist()]
    return tuples, places


def partitions_of(
    columns: pa.RecordBatch, fields: Sequence[NestedField]
) -> tuple[list[tuple[Any, ...]], Sequence[int]]:
    """The partitions of files, as the values of these partition fields; and for each file the position of its own."""
    stored = [layout.column(columns, layout.partition(each.id)) for each in fields]
    tuples, places = distinct_values(stored, [each.type for each in fields])
    return tuples, [0] * columns.num_rows if places is None else places.to_pylist()


def named_partition(fields: Sequence[NestedField], values: Sequence[Any]) -> dict[str, Any]:
    """A partition as `DataFile` has it, of the values of its fields; null for those that a manifest's tuples lack."""
    return {field.name: None if value is ABSENT else value for field, value in zip(fields, values, strict=True)}


def partition_fields(metadata: TableMetadata, spec_id: int) -> Sequence[NestedField]:
    """The fields of the partition tuples of a spec; none for a spec that the table does not have."""
    spec = metadata.spec_by_id(spec_id)
    return () if spec is None else spec.partition_type(schema_of_spec(metadata, spec)).fields
