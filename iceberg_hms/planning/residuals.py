"""What is left of a filter for the rows of a partition (Java: ResidualEvaluator).

Each predicate that the partition's values prove or refute is decided, and the others stay as the caller wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from iceberg_hms.expressions import projection
from iceberg_hms.expressions.binding import Bound, BoundPredicate, bind, value_matches
from iceberg_hms.expressions.expression import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    Always,
    And,
    Expression,
    Or,
    Predicate,
    balanced,
    both,
    either,
    operands,
    predicates,
)
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import Type
from iceberg_hms.planning import layout
from iceberg_hms.planning.partition_columns import ABSENT, distinct_values

#: How many partitions' residuals are remembered.
_REMEMBERED_MAX: Final = 100_000


class Residuals:
    """The residuals of a filter for the files of a table, whose partition specs are `specs`, by id.

    expressions: all that were found so far, each once. Raises InvalidInput for a filter that does not fit the schema.
    """

    def __init__(
        self,
        expression: Expression,
        schema: Schema,
        specs: Mapping[int, PartitionSpec],
        *,
        case_sensitive: bool = True,
    ) -> None:
        self._expression = expression
        self._specs = specs
        #: By the identity of the predicate, whose values may have no hash.
        self._bound = {id(each): bind(each, schema, case_sensitive=case_sensitive) for each in predicates(expression)}
        self._partitionings: dict[int, _Partitioning] = {}
        self.expressions: list[Expression] = []

    def of(self, batch: pa.RecordBatch, spec_id: int) -> pa.Int32Array:
        """For each row of a batch the index of its residual in `expressions`. A partition column that the batch lacks
        decides nothing."""
        partitioning = self._partitionings.get(spec_id)
        if partitioning is None:
            partitioning = _Partitioning(self._expression, self._bound, self._specs.get(spec_id))
            self._partitionings[spec_id] = partitioning
        columns = [layout.column(batch, layout.partition(field_id)) for field_id in partitioning.types]
        partitions, places = distinct_values(columns, list(partitioning.types.values()))
        found = list(map(partitioning.indices.get, partitions))
        if None in found:
            found = [self._index(partitioning, each) for each in partitions]
        if places is None:
            return pa.repeat(pa.scalar(found[0], pa.int32()), batch.num_rows)
        return pa.array(found, pa.int32()).take(places)

    def _index(self, partitioning: _Partitioning, partition: tuple[Any, ...]) -> int:
        index = partitioning.indices.get(partition)
        if index is None:
            found = partitioning.residual(partition)
            if found not in self.expressions:
                self.expressions.append(found)
            index = self.expressions.index(found)
            if len(partitioning.indices) < _REMEMBERED_MAX:
                partitioning.indices[partition] = index
        return index


class _Partitioning:
    """What the partitions of one spec decide.

    types: of the partition fields that tell something of the filter, by field id. indices: of the residuals of
    partitions, by the values of these fields.
    """

    def __init__(self, expression: Expression, bound: Mapping[int, Bound], spec: PartitionSpec | None) -> None:
        self._expression = expression
        self._bound = bound
        self._is_partitioned = spec is not None and bool(spec.fields)
        #: For each predicate, what its partition fields prove: strictly, and inclusively.
        self._projected: dict[int, list[tuple[int, BoundPredicate | None, BoundPredicate]]] = {}
        self.types: dict[int, Type] = {}
        self.indices: dict[tuple[Any, ...], int] = {}
        for key, predicate in bound.items():
            found = self._projected[key] = []
            if not isinstance(predicate, BoundPredicate) or spec is None:
                continue
            for field in spec.fields:
                if field.source_id != predicate.field_id:
                    continue
                inclusive = projection.inclusive(predicate, field, as_stored=True)
                if inclusive is not None:
                    found.append((field.field_id, projection.strict(predicate, field, as_stored=True), inclusive))
                    self.types[field.field_id] = inclusive.type

    def residual(self, partition: tuple[Any, ...]) -> Expression:
        """partition: the values of the fields of `types`."""
        if not self._is_partitioned:
            return self._expression
        known = dict(zip(self.types, partition, strict=True))
        return _reduced(self._expression, lambda predicate: self._decided(predicate, known))

    def _decided(self, predicate: Predicate, known: Mapping[int, Any]) -> Expression:
        bound = self._bound[id(predicate)]
        if isinstance(bound, bool):
            return Always(bound)
        for field_id, strict, inclusive in self._projected[id(predicate)]:
            value = known[field_id]
            if value is ABSENT:
                continue
            if strict is not None and value_matches(strict, value):
                return ALWAYS_TRUE
            if not value_matches(inclusive, value):
                return ALWAYS_FALSE
        return predicate


def _reduced(expression: Expression, decide: Callable[[Predicate], Expression]) -> Expression:
    """A filter with some predicates decided; itself if none is."""
    match expression:
        case And() | Or():
            before = operands(expression)
            after = [_reduced(each, decide) for each in before]
            if all(new is old for new, old in zip(after, before, strict=True)):
                return expression
            return balanced(after, both if isinstance(expression, And) else either)
        case Predicate():
            return decide(expression)
    return expression
