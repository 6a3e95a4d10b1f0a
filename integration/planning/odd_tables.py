"""Tables of all kinds for planners to agree on, each with filters: partition types, evolved specs and schemas, deletes.

They are metadata in a folder; their catalog is in memory. Values are as `format.schema.values` has them.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.changes.operations.manifests.delete_index import PATH_COLUMN
from iceberg_hms.expressions import Expression, as_expression, col, parse
from iceberg_hms.expressions.binding import Bound, BoundAnd, BoundOr, BoundPredicate, bind, value_matches
from iceberg_hms.expressions.expression import Operator, Predicate
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import Bucket, Day, Hour, Month, Truncate, Year, parse_transform
from iceberg_hms.format.schema.types import Type, parse_type
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from integration.planning.described_files import described

NAMESPACE: Final = "odd"
_DAY: Final = 86_400_000_000
NAN: Final = float("nan")
LONG_TEXT: Final = "a text that is longer than bounds are"
#: Of each type that may be partitioned by, in order.
VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "boolean": (False, True),
    "int": (-5, 0, 7, 2_000_000),
    "long": (-(2**40), 0, 7, 2**40),
    "float": (-1.5, 0.0, 0.25, 2.0**33),
    "double": (-1.5, 0.0, 0.25, 1e100),
    "decimal(9, 2)": (Decimal("-12.50"), Decimal("0.00"), Decimal("12.34"), Decimal("1234567.89")),
    "decimal(38, 10)": (Decimal("-1.0000000001"), Decimal("0.0000000000"), Decimal("900000000000000000000.0000000001")),
    "date": (-400, -1, 0, 19_000, 19_001),
    "time": (0, 1, 86_399_999_999),
    "timestamp": (-_DAY - 1, 0, 19_000 * _DAY, 19_000 * _DAY + 3_600_000_001),
    "timestamptz": (-_DAY - 1, 0, 19_000 * _DAY, 19_000 * _DAY + 3_600_000_001),
    "timestamp_ns": (-_DAY * 1_000 - 1, 0, 19_000 * _DAY * 1_000 + 1),
    "timestamptz_ns": (-_DAY * 1_000 - 1, 0, 19_000 * _DAY * 1_000 + 1),
    "string": ("", "apple", "apricot", "Zürich", "日本", LONG_TEXT),
    "uuid": (uuid.UUID(int=1), uuid.UUID("7" * 32)),
    "binary": (b"", b"\x00\x01", b"\x7f" * 20, b"\xff\xfe"),
}
#: Which are written by version 3 alone.
_NEWER: Final = ("timestamp_ns", "timestamptz_ns")
_BUCKETED: Final = frozenset(VALUES) - {"boolean", "float", "double"}
_TRUNCATED: Final = {"int": 10, "long": 10, "decimal(9, 2)": 50, "string": 2, "binary": 2}
_DATES: Final = ("year", "month", "day")


@dataclass(frozen=True)
class Lake:
    """Where tables are made. rows: a data file's path -> by column id the values of its rows."""

    catalog: Catalog
    rows: dict[str, Mapping[int, Sequence[Any]]] = field(default_factory=dict)

    def create(
        self, name: str, columns: Sequence[Any], spec: Sequence[str], version: int = 2, **properties: str
    ) -> Table:
        """columns: pairs of name and type, by the specification's JSON."""
        fields = [
            {"id": at, "name": column, "type": kind, "required": False} for at, (column, kind) in enumerate(columns, 1)
        ]
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        settings = {"format-version": str(version), **properties}
        return self.catalog.create_table(f"{NAMESPACE}.{name}", schema, partition_spec=list(spec), properties=settings)

    def file(self, table: Table, columns: Mapping[str, Sequence[Any]], **others: Any) -> DataFile:
        """A new data file, as `described` says."""
        made = described(table.metadata, columns, **others)
        self.rows[made.file_path] = {
            found.id: columns[name] for name in columns if (found := table.schema().find(name))
        }
        return made

    def has_match(self, schema: Schema) -> Callable[[str, Expression], bool]:
        """Whether a row of a file matches a filter. A column that the file lacks is null."""

        def found(path: str, where: Expression) -> bool:
            bound, columns = bind(where, schema), self.rows[path]
            count = max(map(len, columns.values()))
            return any(_matches(bound, {id_: each[at] for id_, each in columns.items()}) for at in range(count))

        return found


def _matches(bound: Bound, row: Mapping[int, Any]) -> bool:
    match bound:
        case bool():
            return bound
        case BoundAnd(left, right):
            return _matches(left, row) and _matches(right, row)
        case BoundOr(left, right):
            return _matches(left, row) or _matches(right, row)
        case BoundPredicate():
            value = row.get(bound.field_id)
            if bound.transform is not None and bound.source is not None:
                value = bound.transform.apply(value, bound.source)
            return value_matches(bound, value)


def lake(folder: Path) -> Lake:
    """An empty one, in a folder."""
    catalog = memory_catalog(files=RoutedFiles(fsync=False), warehouse=f"file:{folder}/warehouse")  # type: ignore[arg-type]
    catalog.create_namespace(NAMESPACE)
    return Lake(catalog)


# Every type and transform


def transforms(kind: str) -> Iterator[str]:
    """Each transform that takes a type, with {} in the place of the column; "": no partition."""
    yield from ("", "{}", "void({})")
    if kind in _BUCKETED:
        yield "bucket(3, {})"
    if kind in _TRUNCATED:
        yield f"truncate({_TRUNCATED[kind]}, {{}})"
    if kind.startswith(("timestamp", "date")):
        yield from (f"{each}({{}})" for each in _DATES)
    if kind.startswith("timestamp"):
        yield "hour({})"


def typed_table(lake: Lake, kind: str, transform: str, version: int) -> tuple[Table, list[Expression]]:
    """A file for each value, one for each pair of values in the same partition, one of nulls, one with nulls and the
    largest value, one of NaN."""
    name = "".join(each if each.isalnum() else "_" for each in f"t_{kind}_{transform}_{version}")
    table = lake.create(name, [("c", kind), ("other", "int")], [transform.format("c")] if transform else [], version)
    of, known = _type(table, "c"), VALUES[kind]
    columns = [[each, each] for each in known]
    columns += [list(pair) for pair in itertools.combinations(known, 2)]
    columns += [[None, None], [known[-1], None]]
    if kind in ("float", "double"):
        columns += [[NAN, NAN], [known[0], NAN], [NAN, None]]
    fields = table.spec().fields
    shared = [
        each
        for each in columns
        if all(_same(field.transform.apply(each[0], of), field.transform.apply(each[1], of)) for field in fields)
    ]
    assert len(shared) > len(known)
    files = [lake.file(table, {"c": each, "other": [1, 2]}) for each in shared]
    files.append(lake.file(table, {"c": [known[0]], "other": [5]}, lower_bounds=None, upper_bounds=None))
    files.append(lake.file(table, {"c": [known[-1]]}, value_counts=None, null_value_counts=None))
    table.append(files)
    return table.refresh(), list(_filters(kind, of, known))


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or (one != one and other != other)


def _type(table: Table, column: str) -> Type:
    field = table.schema().find(column)
    assert field is not None
    return field.type


def _filters(kind: str, of: Type, known: Sequence[Any]) -> Iterator[Expression]:
    c = col("c")
    literals = [_literal(kind, of, each) for each in known]
    yield from (c.is_null(), c.is_not_null(), c.is_null() & (col("other") == 1))
    for each in literals:
        yield c == each
        yield c != each
        if kind != "boolean":
            yield from (c < each, c <= each, c > each, c >= each)
    if kind not in _NEWER:
        # Java 1.11 takes nanoseconds of a set for microseconds.
        yield c.is_in(literals[::2])
        yield c.not_in(literals[:2])
        yield c.is_in(literals[:2]) | (col("other") > 4)
    yield (c == literals[0]) & (col("other") > 4)
    yield ~((c == literals[-1]) | (col("other") < 2))
    if kind in ("float", "double"):
        yield from (c.is_nan(), ~c.is_nan(), c.is_nan() | (c > 0.1))
    if kind == "string":
        for prefix in ("a", "ap", "app", "日", "zz", LONG_TEXT, LONG_TEXT + "!"):
            yield from (c.starts_with(prefix), ~c.starts_with(prefix))


def transformed_filters(kind: str) -> list[Expression]:
    """Filters on each transform of a column `c`, as Spark sends them.

    None is on a time before 1970, where we allow for partitions that are one too high, or on nulls, which we know of a
    transform's result as of the column; Java does neither."""
    of = parse_type(kind)
    found: list[Expression] = []
    for text in transforms(kind):
        transform = parse_transform(re.sub(r"\((\d+), \{\}\)", r"[\1]", text).replace("({})", ""))
        if not isinstance(transform, Bucket | Truncate | Year | Month | Day | Hour):
            continue
        results = [transform.apply(each, of) for each in VALUES[kind]]
        if not isinstance(transform, Bucket | Truncate):
            results = [each for each in results if each > 0]
        for operator in Operator:
            if operator.is_set:
                found.append(Predicate(operator, "c", tuple(results[:2]), transform))
            elif "starts-with" in operator.value:
                prefixes = [each for each in results if isinstance(each, str) and each]
                found += [Predicate(operator, "c", (each,), transform) for each in prefixes]
            elif not operator.is_unary:
                found += [Predicate(operator, "c", (each,), transform) for each in results]
    return found


def _literal(kind: str, of: Type, value: Any) -> Any:
    """As users write it: texts for dates and times."""
    return values.human(of, value) if kind.startswith(("date", "time")) else value


# Tables with a history


def evolved_specs(lake: Lake, version: int) -> tuple[Table, list[Expression]]:
    """identity, then bucket, then days, then truncate, then none; the same rows are written by each spec."""
    columns = (("id", "long"), ("name", "string"), ("at", "timestamp"), ("region", "string"))
    table = lake.create(f"evolved_specs_{version}", columns, ["region"], version)
    steps: list[Callable[[Any], Any]] = [
        lambda spec: spec.add_field("id", "bucket[4]"),
        lambda spec: spec.remove_field("region").add_field("at", "day"),
        lambda spec: spec.add_field("name", "truncate[3]", "prefix"),
        lambda spec: spec.remove_field("id_bucket_4").rename_field("prefix", "start"),
        lambda spec: spec.remove_field("at_day").remove_field("start"),
    ]
    for step in (None, *steps):
        if step is not None:
            with table.update_spec() as spec:
                step(spec)
            table = table.refresh()
        table.append(
            [
                lake.file(
                    table,
                    {
                        "id": [id_, id_],
                        "name": [f"name-{id_ % 3}", f"name-{id_ % 3}"],
                        "at": [id_ * _DAY // 2, id_ * _DAY // 2 + 5],
                        "region": [region, region],
                    },
                )
                for id_, region in itertools.product(range(8), ("eu", "us", None))
            ]
        )
    filters = [
        "region = 'eu'",
        "region is null",
        "region <> 'eu' and id = 3",
        "id in (1, 2)",
        "id not in (1, 2) and at >= '1970-01-03T00:00:00'",
        "at < '1970-01-02T00:00:00'",
        "at = '1970-01-02T12:00:00'",
        "name like 'nam%'",
        "name like 'name-1%'",
        "name not like 'nam%'",
        "name = 'name-2' and region = 'us'",
        "id = 1 or region = 'us'",
        "id = 1 or (region = 'us' and at > '1970-01-04T00:00:00')",
        "not (id > 2 and region = 'eu')",
        "(id < 2 or name = 'name-0') and (region is null or at < '1970-01-02T00:00:00')",
    ]
    return table.refresh(), list(map(parse, filters))


def evolved_schema(lake: Lake, version: int) -> tuple[Table, list[Expression]]:
    """Columns are renamed, dropped, added again by the same name, promoted; files of each schema stay."""
    columns = (("id", "int"), ("price", "float"), ("amount", "decimal(5, 2)"), ("kind", "string"), ("gone", "int"))
    table = lake.create(f"evolved_schema_{version}", columns, ["id", "truncate(2, kind)"], version)

    def add(**more: Any) -> None:
        table.append(
            [
                lake.file(
                    table,
                    {
                        "id": [id_, id_],
                        **{key: [value(id_), value(id_)] for key, value in more.items()},
                    },
                )
                for id_ in (1, 2, None, 2_000_000_000)
            ]
        )

    def kind(id_: Any) -> str:
        return f"kind-{id_}"

    add(price=lambda _: 1.5, amount=lambda _: Decimal("1.25"), kind=kind, gone=lambda id_: id_)
    with table.update_schema() as schema:
        schema.rename_column("kind", "sort").delete_column("gone").update_column("id", "long")
        schema.update_column("price", "double").update_column("amount", "decimal(12, 2)")
    table = table.refresh()
    add(price=lambda _: 2.5, amount=lambda _: Decimal("1234567.25"), sort=kind)
    with table.update_schema() as schema:
        schema.add_column("gone", "string").add_column("place", {"type": "struct", "fields": [_LATITUDE]})
    table = table.refresh()
    add(price=lambda _: NAN, sort=kind, gone=lambda _: "again", **{"place.latitude": lambda _: 51.5})
    filters: list[str | Expression] = [
        "id = 1",
        "id > 2000000000",
        "id = 5000000000",
        "id is null",
        "price > 2",
        col("price") == 1.5,
        "price is nan",
        "amount < 2",
        "amount = 1234567.25 or price is nan",
        "sort = 'kind-2'",
        "sort like 'ki%'",
        "sort like 'kind-2%' and id = 2",
        "gone = 'again'",
        "gone is null",
        "gone is not null and id in (1, 2)",
        "place.latitude > 50",
        "place.latitude < 50",
        "place.latitude is null",
        "not (sort = 'kind-1' or gone = 'again')",
    ]
    return table.refresh(), list(map(as_expression, filters))


_LATITUDE: Final = {"id": 100, "name": "latitude", "type": "double", "required": False}


def with_deletes(lake: Lake, version: int) -> tuple[Table, list[Expression]]:
    """Files before, between and after deletes of each kind, of one file, of a partition and of the whole table."""
    table = lake.create(f"deletes_{version}", (("id", "long"), ("day", "date"), ("price", "double")), ["day"], version)

    def file(id_: int, day: int | None) -> DataFile:
        return lake.file(table, {"id": [id_, id_ + 9], "day": [day, day], "price": [id_ / 2, id_ + 1.0]})

    first = [file(id_, day) for id_ in (0, 10, 20) for day in (1, 2, None)]
    table.append(first)
    with table.update_spec() as spec:
        spec.remove_field("day")
    table = table.refresh()
    everywhere = [lake.file(table, {"id": [id_, id_ + 9]}) for id_ in (100, 110)]
    table.append(everywhere)
    by_day = table.metadata.specs_by_id[0]
    deletes = [
        _equality(table, {"id": [5, 15]}, day=[1, 1], spec=by_day),
        _equality(table, {"id": [105, 106]}),
        _equality(table, {"price": [NAN, 0.5]}, day=[2, 2], spec=by_day),
        _equality(table, {"id": [None, 25]}, day=[None, None], spec=by_day),
    ]
    table.row_delta(deletes=deletes)
    table = table.refresh()
    positions = [_vector(table, each, by_day, at) for at, each in enumerate(first[:4])]
    if version < 3:
        named = [_positions(table, each, by_day) for each in first[:2]]
        between = _positions(table, None, by_day, bounds=(first[0].file_path, first[4].file_path), day=first[4])
        positions = [*named, between, _positions(table, None, by_day, day=first[2])]
    table.row_delta(deletes=positions)
    table = table.refresh()
    late = lake.file(table, {"id": [0, 9], "day": [1, 1]}, spec=by_day)
    table.append([late])
    table = table.refresh()
    table.row_delta(deletes=[_equality(table, {"id": [5, 5]}, day=[1, 1], spec=by_day)])
    filters = [
        "true",
        "id = 5",
        "day = '1970-01-02'",
        "day is null",
        "day = '1970-01-03' and price > 9",
        "id > 100",
        "id < 10 or day is null",
        "price is nan",
    ]
    return table.refresh(), list(map(parse, filters))


def _equality(table: Table, columns: Mapping[str, Sequence[Any]], *, day: Any = None, spec: Any = None) -> DataFile:
    """Deletes by the columns; `day` gives its partition."""
    ids = [_found.id for name in columns if (_found := table.schema().find(name)) is not None]
    given = {**columns, "day": day} if day is not None else columns
    return described(
        table.metadata,
        given,
        spec,
        content=FileContent.EQUALITY_DELETES,
        equality_ids=tuple(ids),
    )


def _positions(
    table: Table, of: DataFile | None, spec: Any, *, bounds: tuple[str, str] | None = None, day: DataFile | None = None
) -> DataFile:
    """Of a data file, or of all of a partition, as that of `day`, between two paths."""
    partition = (of or day or DataFile("", "", 0, 0, {})).partition
    low, high = bounds or ("", "")
    return described(
        table.metadata,
        {},
        spec,
        content=FileContent.POSITION_DELETES,
        partition=dict(partition),
        referenced_data_file=None if of is None else of.file_path,
        lower_bounds={PATH_COLUMN: low.encode()} if bounds else None,
        upper_bounds={PATH_COLUMN: high.encode()} if bounds else None,
    )


def _vector(table: Table, of: DataFile, spec: Any, at: int) -> DataFile:
    return described(
        table.metadata,
        {},
        spec,
        content=FileContent.POSITION_DELETES,
        file_path=f"{table.location()}/data/vectors.puffin",
        file_format="PUFFIN",
        partition=dict(of.partition),
        referenced_data_file=of.file_path,
        content_offset=4 + 40 * at,
        content_size_in_bytes=40,
    )


def path_bounds(lake: Lake, table: Table) -> dict[str, tuple[str, str]]:
    """The least and the greatest path of each position delete file that has them."""
    manifests, found = lake.catalog.manifests(), {}
    snapshot = table.current_snapshot()
    assert snapshot is not None
    for entry in manifests.entries(manifests.list(snapshot)):
        bounds = [
            each.get(PATH_COLUMN) for each in (entry.data_file.lower_bounds or {}, entry.data_file.upper_bounds or {})
        ]
        if entry.data_file.content == FileContent.POSITION_DELETES and None not in bounds:
            low, high = (each.decode() for each in bounds if each is not None)
            found[entry.data_file.file_path] = (low, high)
    return found


#: By name: what makes the table, and the format versions that have it.
HISTORIES: Final[Mapping[str, tuple[Callable[[Lake, int], tuple[Table, list[Expression]]], Sequence[int]]]] = {
    "evolved specs": (evolved_specs, (1, 2, 3)),
    "evolved schema": (evolved_schema, (1, 2, 3)),
    "deletes": (with_deletes, (2, 3)),
}


def versions_of(kind: str) -> Sequence[int]:
    """Format versions in which a table may have a column of this type."""
    return (3,) if kind in _NEWER else (1, 2, 3)
