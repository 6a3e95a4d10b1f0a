"""Predicates judged on columns of bounds and counts: `expressions.bounds.may_match` for all files at once.

What a file's metrics say is decided by rules that each rule out files. What Arrow has no room for goes to that
definition, file by file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.expressions.binding import BoundPredicate
from iceberg_hms.expressions.bounds import may_match
from iceberg_hms.expressions.expression import Operator
from iceberg_hms.expressions.file_filter import metrics_range
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.types import FLOATING
from iceberg_hms.planning import layout
from iceberg_hms.planning.bound_columns import comparable_type, decoded_bounds
from iceberg_hms.planning.partition_columns import UNFIT, value_kernel

_O = Operator
#: With more values than this, `in` looks for the place of each lower bound among them.
_EACH_MAX: Final = 3


def range_test(predicate: BoundPredicate) -> Callable[[pa.RecordBatch], pa.BooleanArray | None]:
    """Which files may have a row that matches, by the bounds and counts of the predicate's column; none of the answers
    is null. None: all may."""
    ruled_out = _ruled_out(predicate)

    def test(batch: pa.RecordBatch) -> pa.BooleanArray | None:
        try:
            found = ruled_out(batch)
        except UNFIT:
            return _each_range(predicate, batch)
        return None if found is None else pc.invert(pc.fill_null(found, False))

    return test


#: Which files have no matching row, as far as a rule can tell: null where it cannot, None where it cannot for any.
_RuledOut = Callable[[pa.RecordBatch], "pa.BooleanArray | None"]


def _ruled_out(predicate: BoundPredicate) -> _RuledOut:
    operator, column_id = predicate.operator, predicate.field_id
    if operator is _O.IS_NULL:
        return _no_nulls(predicate)
    is_floating = values.kind_of(predicate.type) in FLOATING

    def only_nulls(batch: pa.RecordBatch) -> pa.BooleanArray | None:
        return _equal(
            _statistic(batch, layout.VALUE_COUNT, column_id), _statistic(batch, layout.NULL_VALUE_COUNT, column_id)
        )

    if predicate.transform is not None and not predicate.transform.keeps_order:
        # Bounds of a column are none of what such a transform makes of its values.
        return only_nulls
    rules: list[_RuledOut] = [only_nulls]
    if operator is _O.IS_NAN:
        rules.append(_no_nans(predicate))
    elif operator is _O.NOT_STARTS_WITH:
        rules.append(_all_start_with(predicate))
    elif operator in (_O.NOT_EQ, _O.NOT_IN):
        rules.append(_only_values_of(predicate))
    elif operator is not _O.NOT_NULL:
        if is_floating:
            rules.append(_only_nans(predicate))
        if operator is not _O.NOT_NAN:
            rules.append(_out_of_reach(predicate))
    return lambda batch: _any(rule(batch) for rule in rules)


def _no_nulls(predicate: BoundPredicate) -> _RuledOut:
    column_id = predicate.field_id
    is_nested = len(predicate.path) > 1

    def rule(batch: pa.RecordBatch) -> pa.BooleanArray | None:
        nulls = _statistic(batch, layout.NULL_VALUE_COUNT, column_id)
        none = None if nulls is None else pc.equal(nulls, 0)
        if none is None or not is_nested:
            return none
        # As `file_filter.metrics_range`: rows whose struct is null may be left out of the counts.
        whole = _equal(_statistic(batch, layout.VALUE_COUNT, column_id), batch.column(layout.RECORD_COUNT))
        return None if whole is None else pc.and_kleene(none, whole)

    return rule


def _no_nans(predicate: BoundPredicate) -> _RuledOut:
    """A count of NaNs counts only beside other metrics, as in `file_filter.metrics_range`."""
    column_id = predicate.field_id
    others = (layout.VALUE_COUNT, layout.NULL_VALUE_COUNT, layout.LOWER_BOUND, layout.UPPER_BOUND)

    def rule(batch: pa.RecordBatch) -> pa.BooleanArray | None:
        nans = _statistic(batch, layout.NAN_VALUE_COUNT, column_id)
        found = [_statistic(batch, name, column_id) for name in others]
        has_metrics = _any(each.is_valid() for each in found if each is not None)
        return None if nans is None or has_metrics is None else pc.and_kleene(pc.equal(nans, 0), has_metrics)

    return rule


def _only_nans(predicate: BoundPredicate) -> _RuledOut:
    column_id = predicate.field_id

    def rule(batch: pa.RecordBatch) -> pa.BooleanArray | None:
        nans = _statistic(batch, layout.NAN_VALUE_COUNT, column_id)
        all_values = _equal(nans, _statistic(batch, layout.VALUE_COUNT, column_id))
        return None if all_values is None else pc.and_kleene(all_values, pc.greater(nans, 0))

    return rule


def _all_start_with(predicate: BoundPredicate) -> _RuledOut:
    starts = value_kernel(_O.STARTS_WITH, predicate)

    def rule(batch: pa.RecordBatch) -> pa.BooleanArray | None:
        if starts is None:
            raise ValueError("a prefix that no column holds")
        low, high = decoded_bounds(batch, predicate)
        return None if low is None or high is None else pc.and_kleene(starts(low), starts(high))

    return rule


def _only_values_of(predicate: BoundPredicate) -> _RuledOut:
    """Files whose only value, but for nulls, is one that the predicate excludes."""
    of = comparable_type(predicate.type)
    if of is None:
        return lambda _: None
    beside = _reach(replace(predicate, operator=predicate.operator.negated), of)
    no_nans = _no_nans(predicate) if values.kind_of(predicate.type) in FLOATING else None

    def rule(batch: pa.RecordBatch) -> pa.BooleanArray | None:
        low, high = decoded_bounds(batch, predicate)
        others = beside(low, high)
        if low is None or high is None or others is None:
            return None
        found = pc.and_kleene(pc.equal(low, high), pc.invert(others))
        without_nans = found if no_nans is None else no_nans(batch)
        return None if without_nans is None else pc.and_kleene(found, without_nans)

    return rule


def _out_of_reach(predicate: BoundPredicate) -> _RuledOut:
    """Files whose values all lie beside those that the predicate looks for."""
    of = comparable_type(predicate.type)
    if of is None:
        return lambda _: None
    reaches = _reach(predicate, of)

    def rule(batch: pa.RecordBatch) -> pa.BooleanArray | None:
        return reaches(*decoded_bounds(batch, predicate))

    return rule


_Reach = Callable[["pa.Array | None", "pa.Array | None"], "pa.BooleanArray | None"]


def _reach(predicate: BoundPredicate, of: pa.DataType) -> _Reach:
    """Which ranges of a lower and an upper bound have no value that matches. Raises one of UNFIT for a value that
    Arrow has no room for."""
    operator = predicate.operator
    try:
        if operator.is_set:
            found = sorted(predicate.values)
            if len(found) > _EACH_MAX:
                return _none_between(pa.array(found, of))
            scalars = [pa.scalar(each, of) for each in found]
            return lambda low, high: _every(_beside(low, high, each, each) for each in scalars)
        value = pa.scalar(predicate.value, of)
        match operator:
            case _O.LT:
                return lambda low, _: None if low is None else pc.greater_equal(low, value)
            case _O.LT_EQ:
                return lambda low, _: _beside(low, None, value, value)
            case _O.GT:
                return lambda _, high: None if high is None else pc.less_equal(high, value)
            case _O.GT_EQ:
                return lambda _, high: _beside(None, high, value, value)
            case _O.STARTS_WITH:
                prefix = value.as_py()
                return lambda low, high: _beside_prefix(low, high, prefix)
        return lambda low, high: _beside(low, high, value, value)
    except UNFIT as error:
        message = str(error)

        def unfit(_low: pa.Array | None, _high: pa.Array | None) -> pa.BooleanArray | None:
            raise ValueError(message)

        return unfit


def _beside(low: pa.Array | None, high: pa.Array | None, greatest: Any, least: Any) -> pa.BooleanArray | None:
    return _either(None if low is None else pc.greater(low, greatest), None if high is None else pc.less(high, least))


def _beside_prefix(low: pa.Array | None, high: pa.Array | None, prefix: str) -> pa.BooleanArray | None:
    above = None
    if low is not None:
        above = pc.and_(pc.greater(low, prefix), pc.invert(pc.starts_with(low, prefix)))
    return _either(above, None if high is None else pc.less(high, prefix))


def _none_between(wanted: pa.Array) -> _Reach:
    """wanted: sorted, at least one."""
    count = len(wanted)
    rounds = count.bit_length()
    # What is looked up beyond the last one is null.
    padded = pa.concat_arrays([wanted, pa.nulls((1 << rounds) - count, wanted.type)])

    def test(low: pa.Array | None, high: pa.Array | None) -> pa.BooleanArray | None:
        coarse = _beside(low, high, wanted[-1], wanted[0])
        if low is None or high is None or pc.all(coarse, skip_nulls=False).as_py() is True:
            return coarse
        # How many of the wanted are less than each lower bound: a binary search of all at once.
        place = pa.repeat(pa.scalar(0, pa.int32()), len(low))
        for step in (1 << each for each in reversed(range(rounds))):
            further = pc.add(place, pa.scalar(step, pa.int32()))
            before = padded.take(pc.subtract(further, pa.scalar(1, pa.int32())))
            place = pc.if_else(pc.less(before, low).fill_null(False), further, place)
        beyond = pc.equal(place, pa.scalar(count, pa.int32()))
        return pc.or_kleene(beyond, pc.greater(padded.take(place), high))

    return test


#: Statistics of `DataFile` that ranges are made of.
_RANGE_STATISTICS: Final = (
    layout.VALUE_COUNT,
    layout.NULL_VALUE_COUNT,
    layout.NAN_VALUE_COUNT,
    layout.LOWER_BOUND,
    layout.UPPER_BOUND,
)


def _each_range(predicate: BoundPredicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    column_id, of_file = predicate.field_id, metrics_range(predicate)
    found = {layout.STATISTICS[name]: _statistic(batch, name, column_id) for name in _RANGE_STATISTICS}
    listed = {name: each.to_pylist() for name, each in found.items() if each is not None}
    answers = []
    for at, rows in enumerate(batch.column(layout.RECORD_COUNT).to_pylist()):
        metrics: dict[str, Any] = {name: {column_id: each[at]} for name, each in listed.items() if each[at] is not None}
        answers.append(may_match(predicate, of_file(DataFile("", "", rows, 0, **metrics))))
    return pa.array(answers, pa.bool_())


def _statistic(batch: pa.RecordBatch, name: str, column_id: int) -> pa.Array | None:
    return layout.column(batch, layout.statistic(name, column_id))


def _equal(left: pa.Array | None, right: pa.Array | None) -> pa.BooleanArray | None:
    return None if left is None or right is None else pc.equal(left, right)


def _either(left: pa.BooleanArray | None, right: pa.BooleanArray | None) -> pa.BooleanArray | None:
    if left is None or right is None:
        return right if left is None else left
    return pc.or_kleene(left, right)


def _any(rules: Iterable[pa.BooleanArray | None]) -> pa.BooleanArray | None:
    return reduce(_either, rules, None)


def _every(rules: Iterable[pa.BooleanArray | None]) -> pa.BooleanArray | None:
    found = list(rules)
    return None if any(each is None for each in found) else reduce(pc.and_kleene, found)
