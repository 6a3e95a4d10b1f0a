"""What Spark makes of tables of one file each, in vectors and row by row."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Any, Final

from integration.file_matrix.judging import Filter, column_of, filters_of, judged
from integration.file_matrix.moments import instant, literal
from integration.file_matrix.tables import NAMESPACE, MadeTable
from tests.file_matrix.shapes import PLACES, Case, Place

_BATCH: Final = 12


def read_by_spark(
    spark: Any, catalog: str, tables: Sequence[MadeTable], is_good: Callable[[MadeTable, Place], bool]
) -> dict[tuple[str, Place], str]:
    """The outcomes by table and place. catalog: of Spark, whose namespace NAMESPACE has the tables. is_good: whether to
    expect that a column is read: those are read many at once."""
    wanted = [(each, place) for each in tables for place in PLACES[each.case.layout]]
    together = [each for each in wanted if is_good(*each)]
    outcomes: dict[tuple[str, Place], str] = {}
    for start in range(0, len(together), _BATCH):
        outcomes |= _batch(spark, catalog, together[start : start + _BATCH])
    for made, place in wanted:
        if (made.name, place) not in outcomes:
            outcomes[made.name, place] = judged(made.case, place, partial(_one, spark, catalog, made, place))
    return outcomes


@contextmanager
def vectorized(spark: Any, on: bool) -> Iterator[None]:
    """Spark reads columns at the top level in vectors, or not, until the block ends. Nested ones never are."""
    key = "spark.sql.iceberg.vectorization.enabled"
    spark.conf.set(key, str(on).lower())
    yield
    spark.conf.unset(key)


def _batch(spark: Any, catalog: str, tables: Sequence[tuple[MadeTable, Place]]) -> dict[tuple[str, Place], str]:
    """The outcomes of all; none if Spark fails at one of them."""
    parts = [
        _query(catalog, made, place, given, f"{number} AS table, {at} AS filter, ")
        for number, (made, place) in enumerate(tables)
        for at, given in enumerate(_filters(made.case, place))
    ]
    try:
        rows = spark.sql(" UNION ALL ".join(parts)).collect()
    except Exception:  # noqa: BLE001 - each is then read alone, and its error is the outcome
        return {}
    found: dict[tuple[int, int], dict[int, Any]] = {}
    for row in rows:
        type_ = tables[row["table"]][0].case.type
        found.setdefault((row["table"], row["filter"]), {})[row["id"]] = _of_text(type_, row["c"])
    return {
        (made.name, place): judged(made.case, place, partial(_of_batch, found, number, _filters(made.case, place)))
        for number, (made, place) in enumerate(tables)
    }


def _filters(case: Case, place: Place) -> list[Filter | None]:
    return [None, *filters_of(case, place)]


def _of_batch(
    found: dict[tuple[int, int], dict[int, Any]], number: int, filters: list[Filter | None], given: Filter | None
) -> dict[int, Any]:
    return found.get((number, filters.index(given)), {})


def _one(spark: Any, catalog: str, made: MadeTable, place: Place, given: Filter | None) -> dict[int, Any]:
    rows = spark.sql(_query(catalog, made, place, given)).collect()
    return {row["id"]: _of_text(made.case.type, row["c"]) for row in rows}


_LEAF: Final = {"top": "c", "struct": "s.c", "list": "l[0]", "map": "m['k']"}


def _query(catalog: str, made: MadeTable, place: Place, given: Filter | None, prefix: str = "") -> str:
    leaf, type_ = _LEAF[place], made.case.type
    match type_.partition("<")[0].partition("(")[0].partition("[")[0]:
        case "binary" | "fixed":
            text = f"hex({leaf})"
        case "timestamptz":
            text = f"CAST(unix_micros({leaf}) AS STRING)"
        case "timestamp":
            text = f"CAST(unix_micros(CAST({leaf} AS TIMESTAMP)) AS STRING)"
        case "date":
            text = f"CAST(unix_date({leaf}) AS STRING)"
        case "list" | "map" | "struct":
            text = f"to_json({leaf}, map('ignoreNullFields', 'false'))"
        case _:
            text = f"CAST({leaf} AS STRING)"
    where = (
        ""
        if given is None
        else f" WHERE {column_of(place)} {given.sign} {'' if given.value is None else _sql(type_, given.value)}"
    )
    return f"SELECT {prefix}id, {text} AS c FROM {catalog}.{NAMESPACE}.{made.name}{where}"


def _sql(type_: str, value: Any) -> str:
    match type_.partition("(")[0].partition("[")[0]:
        case "date":
            return f"DATE '{literal(type_, value)}'"
        case "timestamp":
            return f"TIMESTAMP_NTZ '{instant(value, 6)}'"
        case "timestamptz":
            return f"TIMESTAMP '{instant(value, 6)}Z'"
        case "decimal":
            return f"CAST('{value}' AS {type_})"
        case "float" | "double":
            return f"CAST('{value}' AS {type_})"
        case "binary" | "fixed":
            return f"X'{value.hex()}'"
        case "string" | "uuid":
            return f"'{value}'"
        case _:
            return str(value)


def _of_text(type_: str, text: str | None) -> Any:
    if text is None:
        return None
    match type_.partition("(")[0].partition("[")[0].partition("<")[0]:
        case "int" | "long" | "date":
            return int(text)
        case "timestamp" | "timestamptz":
            return int(text) * 1_000
        case "float" | "double":
            return float(text)
        case "decimal":
            return Decimal(text)
        case "binary" | "fixed":
            return bytes.fromhex(text)
        case "boolean":
            return text == "true"
        case "uuid":
            return uuid.UUID(text)
        case "list" | "map" | "struct":
            return json.loads(text)
        case _:
            return text
