"""Plans of several planners in one shape, and what one has otherwise than the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

import orjson
from py4j.protocol import Py4JJavaError
from pyiceberg.table import StaticTable

from iceberg_hms.expressions.expression import Always, And, Expression, Operator, Or, Predicate, both, either, operands
from iceberg_hms.expressions.json_form import from_json, to_json
from iceberg_hms.expressions.literals import to_type
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.schema import Schema
from integration.planning.java_plans import JavaPlanner, JavaTask

#: Differences that are shown.
_SHOWN_MAX: Final = 5
#: The protocol's operators that match null, which this package's do not.
_NEGATIVE: Final = (Operator.NOT_EQ, Operator.NOT_IN, Operator.NOT_STARTS_WITH, Operator.NOT_NAN)
_MATCH_NULL: Final = frozenset(each.value for each in _NEGATIVE)

#: A residual in a form that is equal for equal ones, however they are nested and their values are written.
Residual = Any


@dataclass(frozen=True)
class Planned:
    """A file of a plan. residual: canonical. deletes: locations, with the offsets of deletion vectors."""

    residual: Residual
    deletes: frozenset[tuple[str, int | None]] = frozenset()


Plan = Mapping[str, Planned]


def canonical(expression: Expression, schema: Schema, *, case_sensitive: bool = True) -> Residual:
    """Columns by their ids, values as columns store them, operands without order."""
    match expression:
        case Always(value):
            return value
        case And() | Or():
            parts = frozenset(canonical(each, schema, case_sensitive=case_sensitive) for each in operands(expression))
            return _without_nulls(parts) if isinstance(expression, And) else _either(parts)
        case Predicate(operator, column, given, transform):
            field = schema.find(column) if case_sensitive else schema.find_ignoring_case(column)
            assert field is not None, f"there is no column {column}"
            of = field.type if transform is None else transform.result_type(field.type)
            stored = frozenset(_stored(each, of, column) for each in given)
            single = {Operator.IN: Operator.EQ, Operator.NOT_IN: Operator.NOT_EQ}
            if len(stored) == 1:
                operator = single.get(operator, operator)
            return operator.value, (field.id, transform and str(transform)), stored
    raise AssertionError(f"not a filter: {expression!r}")


def _without_nulls(parts: frozenset[Residual]) -> Residual:
    """The protocol writes `a <> 1` as `a is not null and (a is null or a <> 1)`, in terms of SQL."""
    nulls: frozenset[Residual] = frozenset(
        (Operator.NOT_NULL.value, part[1], frozenset()) for part in parts if part[0] in _MATCH_NULL
    )
    kept = parts - nulls
    return next(iter(kept)) if len(kept) == 1 else ("and", kept)


def _either(parts: frozenset[Residual]) -> Residual:
    """Where a partition proves that `a` is not null, Java leaves `a is null or a <> 1` of it."""
    if len(parts) == 2:
        one, other = sorted(parts, key=lambda part: part[0] in _MATCH_NULL)
        if other[0] in _MATCH_NULL and one == (Operator.IS_NULL.value, other[1], frozenset()):
            return other
    return "or", parts


def _stored(value: Any, of: Any, column: str) -> Any:
    # Java writes dates and times of filters as numbers, and some floats as texts.
    kind = values.kind_of(of)
    if isinstance(value, int) and not isinstance(value, bool) and kind.startswith(("date", "time")):
        return value
    if isinstance(value, str) and kind in ("float", "double"):
        value = float(value)
    return to_type(value, of, column)


def of_java(plan: Mapping[str, JavaTask], schema: Schema, *, case_sensitive: bool = True) -> Plan:
    """A plan of Java's."""
    known: dict[int, Planned] = {}
    found = {}
    for path, task in plan.items():
        # Thousands of files share one.
        if id(task) not in known:
            residual = canonical(from_json(task.residual), schema, case_sensitive=case_sensitive)
            known[id(task)] = Planned(residual, task.deletes)
        found[path] = known[id(task)]
    return found


def of_ours(residuals: Iterable[Expression], schema: Schema, *, case_sensitive: bool = True) -> list[Residual]:
    """Our residuals, as Java's: both went through JSON."""
    return [canonical(from_json(to_json(each)), schema, case_sensitive=case_sensitive) for each in residuals]


def branches(where: Expression) -> Iterator[Expression]:
    """The operands of an `or` that equals a filter: each is a predicate, or an `and` of predicates; none is `in`."""
    match where:
        case Or():
            for each in operands(where):
                yield from branches(each)
        case And():
            for chosen in itertools.product(*(list(branches(each)) for each in operands(where))):
                yield reduce(both, chosen)
        case Predicate(Operator.IN):
            for value in where.values:
                yield replace(where, operator=Operator.EQ, values=(value,))
        case _:
            yield where


def may_be_narrower(where: Expression) -> bool:
    """Whether a filter may leave out more files by our rules than by Java's."""
    match where:
        case Or():
            return True
        case And():
            return any(map(may_be_narrower, operands(where)))
        case Predicate():
            # Java keeps files with nulls, which its own operators match, and asks no bounds how a transform's results
            # start.
            is_beginning = where.operator is Operator.STARTS_WITH and where.transform is not None
            return where.operator in _NEGATIVE or is_beginning
    return False


#: Whether a row of a file matches, by what is in the file.
HasMatch = Callable[[str, Expression], bool]


#: Plans a scan with a filter; None: the planner fails, by a defect of its own.
Planning = Callable[[Expression], Plan | None]


def java_planning(java: JavaPlanner, metadata_location: str, schema: Schema) -> Planning:
    """Java's plans of the current snapshot of a table, whose schema is `schema`."""
    scan = java.scan(java.load(metadata_location))

    def plan(where: Expression) -> Plan | None:
        try:
            return of_java(java.plan(java.filtered(scan, _with_floats(where, schema))), schema)
        except Py4JJavaError as error:
            # Java 1.11 asks a set of texts whether it contains the null of a partition.
            if "java.lang.NullPointerException: Invalid object: null" not in str(error):
                raise
            return None

    return plan


def _with_floats(where: Expression, schema: Schema) -> Expression:
    """A filter with floats in place of decimals, which JSON has as texts: Java takes none of those for a float."""
    match where:
        case And():
            return reduce(both, [_with_floats(each, schema) for each in operands(where)])
        case Or():
            return reduce(either, [_with_floats(each, schema) for each in operands(where)])
        case Predicate(operator, column, given):
            field = schema.find(column)
            if field is not None and values.kind_of(field.type) in ("float", "double"):
                return Predicate(operator, column, tuple(map(float, given)))
    return where


def pyiceberg_planning(metadata_location: str, schema: Schema) -> Planning:
    """PyIceberg's plans of the current snapshot of a table, whose schema is `schema`."""
    table = StaticTable.from_metadata(metadata_location)

    def plan(where: Expression) -> Plan:
        found = {}
        for task in table.scan(row_filter=str(where)).plan_files():
            residual = canonical(from_json(orjson.loads(task.residual.model_dump_json())), schema)
            deletes = frozenset((each.file_path, None) for each in task.delete_files)
            found[task.file.file_path] = Planned(residual, deletes)
        return found

    return plan


@dataclass(frozen=True)
class Judge:
    """Compares plans of ours with those of another planner of one table: Java's, or PyIceberg's, which judges as Java
    does. has_match: None: nobody knows what is in the files. ignores_bounds: whether they trust bounds that we do not,
    so that they may plan fewer files. path_bounds: of position delete files, which they do not look at."""

    plan: Planning
    has_match: HasMatch | None = None
    ignores_bounds: bool = False
    path_bounds: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def check(self, ours: Plan, where: Expression) -> None:
        """Both have the same files, with the same residuals and deletes.

        We judge a file by its partition and its bounds in each predicate; they judge the whole filter by the partition,
        and then by the bounds. So they may plan more files for an `or`. None of ours may be missing there, and each
        file that only they plan must be without a match: by what is in it, or since they plan it themselves for none of
        the operands of the `or` (and both judge those alike). Raises AssertionError."""
        theirs = self.plan(where)
        if theirs is None:
            self._check_files(ours, where)
            return
        shared, extra = ours.keys() & theirs.keys(), theirs.keys() - ours.keys()
        if not self.ignores_bounds:
            assert shared == ours.keys(), f"{where}: only ours has {_some(ours.keys() - shared)}"
        applying = {path: self._applying(path, theirs[path]) for path in shared}
        assert_equal({path: ours[path] for path in shared}, applying, where)
        if not extra:
            return
        assert may_be_narrower(where), f"{where}: only theirs has {_some(extra)}"
        if self.has_match is None:
            self._check_files(ours, where)
        else:
            lost = [path for path in extra if self.has_match(path, where)]
            assert not lost, f"{where}: rows match in {_some(lost)}, which we leave out"

    def _applying(self, path: str, planned: Planned) -> Planned:
        """Theirs, without the position deletes whose bounds say that they are of other files."""
        if not self.path_bounds:
            return planned
        anywhere = ("", "\U0010ffff")
        kept = [each for each in planned.deletes if _within(path, self.path_bounds.get(each[0], anywhere))]
        return Planned(planned.residual, frozenset(kept))

    def _check_files(self, ours: Plan, where: Expression) -> None:
        needed: set[str] = set()
        for each in branches(where):
            found = self.plan(each)
            assert found is not None, f"{each} cannot be planned"
            needed |= found.keys()
        assert ours.keys() == needed, (
            f"{where}: {_some(ours.keys() ^ needed)} are not in both of ours and the branches'"
        )


def _within(path: str, bounds: tuple[str, str]) -> bool:
    return bounds[0] <= path <= bounds[1]


def assert_equal(ours: Plan, theirs: Plan, where: Expression) -> None:
    """Raises AssertionError that names files and says what differs."""
    assert ours.keys() == theirs.keys(), (
        f"{where}: only ours {_some(ours.keys() - theirs.keys())}, only theirs {_some(theirs.keys() - ours.keys())}"
    )
    differing = [(path, ours[path], theirs[path]) for path in ours if ours[path] != theirs[path]]
    assert not differing, f"{where}: {differing[:_SHOWN_MAX]}"


def _some(paths: Iterable[str]) -> list[str]:
    found = sorted(paths)
    return [f"{len(found)} files", *found[:_SHOWN_MAX]]
