"""Which manifests and files a filter is about: judged on partition values, bounds and counts, without reading data.

Each file is judged by the partition spec that it was written with. A predicate holds for a file if its partition or its
bounds prove it, each predicate by itself (Java: ResidualEvaluator, then the metrics evaluators).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from iceberg_hms.expressions import projection
from iceberg_hms.expressions.binding import Bound, BoundAnd, BoundOr, BoundPredicate, bind, value_matches
from iceberg_hms.expressions.bounds import UNKNOWN_RANGE, ValueRange, bound_decoder, bound_value, may_match, must_match
from iceberg_hms.expressions.expression import Expression
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.manifests.manifest_list import FieldSummary, ManifestFile
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import Type

_Test = Callable[[DataFile], bool]
_FLOATING: Final = frozenset({"float", "double"})


class FileFilter:
    """A filter bound to a table.

    where: the filter. schema: the table's, or a branch's. specs: all partition specs that files may have.
    Raises InvalidInput as `bind`.
    """

    def __init__(
        self,
        where: Expression,
        schema: Schema,
        specs: Mapping[int, PartitionSpec] | Iterable[PartitionSpec],
        *,
        case_sensitive: bool = True,
    ) -> None:
        self._prepare(bind(where, schema, case_sensitive=case_sensitive), specs)

    @classmethod
    def of_bound(cls, bound: Bound, specs: Mapping[int, PartitionSpec] | Iterable[PartitionSpec]) -> FileFilter:
        """For a filter that is bound already."""
        made = cls.__new__(cls)
        made._prepare(bound, specs)
        return made

    def _prepare(self, bound: Bound, specs: Mapping[int, PartitionSpec] | Iterable[PartitionSpec]) -> None:
        self._bound = bound
        listed = specs.values() if isinstance(specs, Mapping) else specs
        self._specs = {spec.spec_id: spec for spec in listed}
        self._may: dict[int, _Test] = {}
        self._must: dict[int, _Test] = {}
        self._may_manifest: dict[int, Callable[[Sequence[FieldSummary]], bool]] = {}

    def may_match_manifest(self, manifest: ManifestFile) -> bool:
        """False only if no file of a manifest has a matching row, by the partitions that its list entry sums up."""
        spec_id = manifest.partition_spec_id
        spec = self._specs.get(spec_id)
        if manifest.partitions is None or spec is None or len(manifest.partitions) != len(spec.fields):
            return self._bound is not False
        if spec_id not in self._may_manifest:
            self._may_manifest[spec_id] = _combined(self._bound, lambda each: _manifest_test(each, spec))
        return self._may_manifest[spec_id](manifest.partitions)

    def may_match(self, data_file: DataFile) -> bool:
        """False only if no row of a file matches; of a delete file: if it deletes no matching row."""
        spec_id = data_file.spec_id
        if spec_id not in self._may:
            fields = self._fields(spec_id)
            self._may[spec_id] = _combined(self._bound, lambda each: _may_test(each, fields(each)))
        return self._may[spec_id](data_file)

    def must_match(self, data_file: DataFile) -> bool:
        """True only if every row of a file matches; of a delete file: if every row that it deletes does."""
        spec_id = data_file.spec_id
        if spec_id not in self._must:
            fields = self._fields(spec_id)
            self._must[spec_id] = _combined(self._bound, lambda each: _must_test(each, fields(each)))
        return self._must[spec_id](data_file)

    def _fields(self, spec_id: int) -> Callable[[BoundPredicate], Sequence[PartitionField]]:
        """The partition fields of a predicate's column."""
        spec = self._specs.get(spec_id)
        listed = () if spec is None else spec.fields
        return lambda predicate: [each for each in listed if each.source_id == predicate.field_id]


def _combined(bound: Bound, leaf: Callable[[BoundPredicate], Callable[[Any], bool]]) -> Callable[[Any], bool]:
    """The filter's test, of the tests of its predicates."""
    match bound:
        case bool():
            return lambda _: bound
        case BoundAnd():
            first, second = _combined(bound.left, leaf), _combined(bound.right, leaf)
            return lambda item: first(item) and second(item)
        case BoundOr():
            one, other = _combined(bound.left, leaf), _combined(bound.right, leaf)
            return lambda item: one(item) or other(item)
        case BoundPredicate():
            return leaf(bound)


def _may_test(predicate: BoundPredicate, fields: Sequence[PartitionField]) -> _Test:
    projected = _tests(fields, predicate, projection.inclusive)
    ranges = _ranges(predicate)

    def test(data_file: DataFile) -> bool:
        partition = data_file.partition
        for name, on_value in projected:
            if name in partition and not on_value(partition[name]):
                return False
        return may_match(predicate, ranges(data_file))

    return test


def _must_test(predicate: BoundPredicate, fields: Sequence[PartitionField]) -> _Test:
    projected = _tests(fields, predicate, projection.strict)
    ranges = _ranges(predicate)

    def test(data_file: DataFile) -> bool:
        partition = data_file.partition
        for name, on_value in projected:
            if name in partition and on_value(partition[name]):
                return True
        return must_match(predicate, ranges(data_file))

    return test


def _tests(
    fields: Sequence[PartitionField],
    predicate: BoundPredicate,
    project: Callable[[BoundPredicate, PartitionField], BoundPredicate | None],
) -> list[tuple[str, Callable[[Any], bool]]]:
    """Tests of a partition's values, by the names of their fields. A table has far fewer values than files, so each is
    judged once."""
    found = []
    for field in fields:
        projected = project(predicate, field)
        if projected is not None:
            found.append((field.name, _remembered(projected)))
    return found


#: How many partition values a test remembers.
_REMEMBERED_MAX: Final = 100_000


def _remembered(predicate: BoundPredicate) -> Callable[[Any], bool]:
    known: dict[Any, bool] = {}

    def test(value: Any) -> bool:
        answer = known.get(value)
        if answer is None:
            answer = value_matches(predicate, value)
            if len(known) < _REMEMBERED_MAX:
                known[value] = answer
        return answer

    return test


def _ranges(predicate: BoundPredicate) -> Callable[[DataFile], ValueRange]:
    """What files' metrics say of a column.

    Writers count the rows of a struct that is null, or leave them out: a count of zero nulls proves that a column in a
    struct has none only if the values are as many as the rows.
    """
    field_id, decode = predicate.field_id, bound_decoder(predicate.type)
    is_nested = len(predicate.path) > 1
    is_floating = values.kind_of(predicate.type) in _FLOATING

    def of_file(data_file: DataFile) -> ValueRange:
        counts, nulls = data_file.value_counts, data_file.null_value_counts
        count = None if counts is None else counts.get(field_id)
        null = None if nulls is None else nulls.get(field_id)
        lowers, uppers = data_file.lower_bounds, data_file.upper_bounds
        lower = None if lowers is None else lowers.get(field_id)
        upper = None if uppers is None else uppers.get(field_id)
        if count is None and null is None and lower is None and upper is None:
            return UNKNOWN_RANGE
        low = None if lower is None else decode(lower)
        high = None if upper is None else decode(upper)
        may_be_null = null != 0 or (is_nested and count != data_file.record_count)
        only_nulls = count is not None and count == null
        if not is_floating:
            return ValueRange(low, high, may_be_null, False, only_nulls)
        if (lower is not None and low is None) or (upper is not None and high is None):
            # One is NaN: the writer took NaN for a number, so that the other one proves nothing.
            low = high = None
        nans = data_file.nan_value_counts
        nan = None if nans is None else nans.get(field_id)
        only_nans = nan is not None and nan > 0 and nan == count
        return ValueRange(low, high, may_be_null, nan != 0, only_nulls, only_nans)

    return of_file


def _manifest_test(predicate: BoundPredicate, spec: PartitionSpec) -> Callable[[Sequence[FieldSummary]], bool]:
    tests = []
    for position, field in enumerate(spec.fields):
        if field.source_id == predicate.field_id:
            projected = projection.inclusive(predicate, field)
            if projected is not None:
                tests.append((position, projected))

    def test(summaries: Sequence[FieldSummary]) -> bool:
        return all(may_match(each, _summary_range(summaries[at], each.type)) for at, each in tests)

    return test


def _summary_range(summary: FieldSummary, of: Type) -> ValueRange:
    """What a manifest's list entry says of a partition field. Without bounds and NaNs all its values are null."""
    is_floating = values.kind_of(of) in _FLOATING
    has_nan = summary.contains_nan if is_floating else False
    empty = summary.lower_bound is None and summary.upper_bound is None
    return ValueRange(
        lower=bound_value(of, summary.lower_bound),
        upper=bound_value(of, summary.upper_bound),
        may_be_null=summary.contains_null,
        may_be_nan=has_nan is not False,
        only_nulls=empty and summary.contains_null and has_nan is False,
        only_nans=empty and not summary.contains_null and has_nan is True,
    )
