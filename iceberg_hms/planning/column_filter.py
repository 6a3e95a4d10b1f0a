"""A filter judged on the columns of decoded manifests: `expressions.file_filter.FileFilter` for all files at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.expressions import projection
from iceberg_hms.expressions.binding import Bound, BoundAnd, BoundOr, BoundPredicate, bind
from iceberg_hms.expressions.expression import Expression
from iceberg_hms.expressions.file_filter import FileFilter
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.planning import layout
from iceberg_hms.planning.column_ranges import range_test
from iceberg_hms.planning.partition_columns import partition_test
from iceberg_hms.planning.residuals import Residuals

#: An answer for each row, none of them null; a bool: the same for all.
_Answer: TypeAlias = "bool | pa.BooleanArray"
_Test = Callable[[pa.RecordBatch], _Answer]


class ColumnFilter:
    """A filter bound to a table's schema. specs: all partition specs that files may have, by id.

    stats: ids of the columns whose bounds and counts it reads (`layout.STATISTICS`).
    Raises InvalidInput for a filter that does not fit the schema (`binding.bind`).
    """

    def __init__(
        self,
        expression: Expression,
        schema: Schema,
        specs: Mapping[int, PartitionSpec],
        *,
        case_sensitive: bool = True,
    ) -> None:
        self._bound = bind(expression, schema, case_sensitive=case_sensitive)
        self._specs = specs
        #: The same filter for manifests, and for files one by one.
        self.by_file = FileFilter(self._bound, specs, str(expression))
        self._residuals = Residuals(expression, schema, specs, case_sensitive=case_sensitive)
        self._tests: dict[int, _Test] = {}
        self.stats = frozenset(each.field_id for each in _predicates(self._bound))

    @property
    def residuals(self) -> list[Expression]:
        """The filters that `residual_of` refers to. It grows as partitions need others."""
        return self._residuals.expressions

    def matching(self, batch: pa.RecordBatch, spec_id: int) -> pa.BooleanArray | None:
        """For each row of a batch whether the file may have a matching row; None: all may. spec_id: of the manifest.

        A partition column that the batch lacks proves nothing, as one that a manifest's tuples lack."""
        test = self._tests.get(spec_id)
        if test is None:
            spec = self._specs.get(spec_id)
            test = self._tests[spec_id] = _combined(self._bound, spec)
        found = test(batch)
        if isinstance(found, bool):
            return None if found else pa.repeat(pa.scalar(False), batch.num_rows)
        return found

    def residual_of(self, batch: pa.RecordBatch, spec_id: int) -> pa.Int32Array:
        """For each row of a batch what is left of the filter for its file's rows: an index into `residuals`."""
        return self._residuals.of(batch, spec_id)


def _predicates(bound: Bound) -> Iterator[BoundPredicate]:
    match bound:
        case BoundAnd(left, right) | BoundOr(left, right):
            yield from _predicates(left)
            yield from _predicates(right)
        case BoundPredicate():
            yield bound


def _combined(bound: Bound, spec: PartitionSpec | None) -> _Test:
    """The filter's test, of the tests of its predicates."""
    match bound:
        case bool():
            return lambda _: bound
        case BoundAnd():
            first, second = _combined(bound.left, spec), _combined(bound.right, spec)
            return lambda batch: _both(first(batch), second, batch)
        case BoundOr():
            one, other = _combined(bound.left, spec), _combined(bound.right, spec)
            return lambda batch: _either(one(batch), other, batch)
        case BoundPredicate():
            return _predicate_test(bound, spec)


def _predicate_test(predicate: BoundPredicate, spec: PartitionSpec | None) -> _Test:
    """Which files may match a predicate, by partition values first: they are cheaper than bounds."""
    projected = [
        (layout.partition(field.field_id), partition_test(found))
        for field in (() if spec is None else spec.fields)
        if field.source_id == predicate.field_id
        and (found := projection.inclusive(predicate, field, as_stored=True)) is not None
    ]
    in_range = range_test(predicate)

    def test(batch: pa.RecordBatch) -> _Answer:
        answer: _Answer = True
        for name, matches in projected:
            column = layout.column(batch, name)
            if column is not None:
                found = matches(column)
                answer = found if answer is True else pc.and_(answer, found)
                if not answer.true_count:
                    return False
        found = in_range(batch)
        if found is None or answer is True:
            return answer if found is None else found
        return pc.and_(answer, found)

    return test


def _both(left: _Answer, right: _Test, batch: pa.RecordBatch) -> _Answer:
    if left is True:
        return right(batch)
    if left is False or not left.true_count:
        return False
    found = right(batch)
    if isinstance(found, bool):
        return left if found else False
    return pc.and_(left, found)


def _either(left: _Answer, right: _Test, batch: pa.RecordBatch) -> _Answer:
    if left is False:
        return right(batch)
    if left is True or left.true_count == len(left):
        return True
    found = right(batch)
    if isinstance(found, bool):
        return True if found else left
    return pc.or_(left, found)
