"""Which manifests and files a filter is about: judged on partition values, bounds and counts, without reading data.

Each file is judged by the partition spec that it was written with. A predicate holds for a file if its partition or its
bounds prove it, each predicate by itself (Java: ResidualEvaluator, then the metrics evaluators).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from iceberg_hms.expressions import projection
from iceberg_hms.expressions.binding import Bound, BoundAnd, BoundOr, BoundPredicate, value_matches
from iceberg_hms.expressions.bounds import UNKNOWN_RANGE, ValueRange, bound_decoder, bound_value, may_match, must_match
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.manifests.manifest_list import FieldSummary, ManifestFile
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.types import FLOATING, Type

_Test = Callable[[DataFile], bool]


class FileFilter:
    """A filter bound to a table.

    bound: the filter. specs: all partition specs that files may have, by id. text: the filter, for messages.
    """

    def __init__(self, bound: Bound, specs: Mapping[int, PartitionSpec], text: str) -> None:
        self.text = text
        self._bound = bound
        self._specs = specs
        #: By partition spec; of files also by whether all rows must match.
        self._tests: dict[tuple[int, bool], _Test] = {}
        self._manifest_tests: dict[int, Callable[[Sequence[FieldSummary]], bool]] = {}

    def __str__(self) -> str:
        return f"the rows where {self.text}"

    def may_match_manifest(self, manifest: ManifestFile) -> bool:
        """False only if no file of a manifest has a matching row, by the partitions that its list entry sums up."""
        spec_id = manifest.partition_spec_id
        spec = self._specs.get(spec_id)
        if manifest.partitions is None or spec is None or len(manifest.partitions) != len(spec.fields):
            return self._bound is not False
        if spec_id not in self._manifest_tests:
            self._manifest_tests[spec_id] = _combined(self._bound, lambda each: _manifest_test(each, spec))
        return self._manifest_tests[spec_id](manifest.partitions)

    def may_match(self, data_file: DataFile) -> bool:
        """False only if no row of a file matches; of a delete file: if it deletes no matching row."""
        return self._test(data_file.spec_id, must=False)(data_file)

    def must_match(self, data_file: DataFile) -> bool:
        """True only if every row of a file matches; of a delete file: if every row that it deletes does."""
        return self._test(data_file.spec_id, must=True)(data_file)

    def _test(self, spec_id: int, *, must: bool) -> _Test:
        found = self._tests.get((spec_id, must))
        if found is None:
            spec = self._specs.get(spec_id)
            fields = () if spec is None else spec.fields
            found = _combined(self._bound, lambda each: _file_test(each, fields, must=must))
            self._tests[spec_id, must] = found
        return found


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


def _file_test(predicate: BoundPredicate, fields: Iterable[PartitionField], *, must: bool) -> _Test:
    """Whether rows of a file may match a predicate, or all of them must. fields: of the file's partition spec."""
    project, judge = (projection.strict, must_match) if must else (projection.inclusive, may_match)
    # A table has far fewer partition values than files, so each value is judged once.
    projected = [
        (field.name, _remembered(found))
        for field in fields
        if field.source_id == predicate.field_id and (found := project(predicate, field)) is not None
    ]
    ranges = metrics_range(predicate)

    def test(data_file: DataFile) -> bool:
        partition = data_file.partition
        for name, on_value in projected:
            if name in partition and on_value(partition[name]) is must:
                return must
        return judge(predicate, ranges(data_file))

    return test


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


def metrics_range(predicate: BoundPredicate) -> Callable[[DataFile], ValueRange]:
    """What files' metrics say of a column.

    Writers count the rows of a struct that is null, or leave them out: a count of zero nulls proves that a column in a
    struct has none only if the values are as many as the rows.
    """
    field_id, decode = predicate.field_id, _decoder(predicate)
    is_nested = len(predicate.path) > 1
    is_floating, is_transformed = values.kind_of(predicate.type) in FLOATING, predicate.transform is not None

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
        if (is_floating or is_transformed) and (
            (lower is not None and low is None) or (upper is not None and high is None)
        ):
            # One is NaN: the writer took NaN for a number, so that the other one proves nothing. Or the transform
            # gives some values a place above greater ones.
            low = high = None
        if not is_floating:
            return ValueRange(low, high, may_be_null, False, only_nulls)
        nans = data_file.nan_value_counts
        nan = None if nans is None else nans.get(field_id)
        only_nans = nan is not None and nan > 0 and nan == count
        return ValueRange(low, high, may_be_null, nan != 0, only_nulls, only_nans)

    return of_file


def _decoder(predicate: BoundPredicate) -> Callable[[bytes], Any]:
    """Reads a bound of the column as one of what is compared. It is none of what a transform makes that has another
    order than its values."""
    transform, of = predicate.transform, predicate.source or predicate.type
    decode = bound_decoder(of)
    if transform is None:
        return decode
    return lambda data: transform.apply_in_order(decode(data), of)


def _manifest_test(predicate: BoundPredicate, spec: PartitionSpec) -> Callable[[Sequence[FieldSummary]], bool]:
    tests = [
        (position, found)
        for position, field in enumerate(spec.fields)
        if field.source_id == predicate.field_id and (found := projection.inclusive(predicate, field)) is not None
    ]

    def test(summaries: Sequence[FieldSummary]) -> bool:
        return all(may_match(each, _summary_range(summaries[at], each.type)) for at, each in tests)

    return test


def _summary_range(summary: FieldSummary, of: Type) -> ValueRange:
    """What a manifest's list entry says of a partition field. Without bounds and NaNs all its values are null."""
    is_floating = values.kind_of(of) in FLOATING
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
