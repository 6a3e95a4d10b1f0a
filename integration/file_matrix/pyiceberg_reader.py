"""What PyIceberg makes of a table of one file."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import expressions
from pyiceberg.table import StaticTable

from integration.file_matrix.judging import Filter, column_of, filters_of, judged
from integration.file_matrix.moments import literal
from integration.file_matrix.tables import MadeTable
from tests.file_matrix.shapes import PLACES, SELECTED, Place


def read_by_pyiceberg(table: MadeTable) -> dict[Place, str]:
    return {place: _judged_by_pyiceberg(table, place) for place in PLACES[table.case.layout]}


def _judged_by_pyiceberg(table: MadeTable, place: Place) -> str:
    filters = filters_of(table.case, place)
    if table.case.type.endswith("_ns"):
        # PyIceberg has no literals of nanoseconds.
        filters = [each for each in filters if each.value is None]
    return judged(table.case, place, partial(_by_pyiceberg, table, place), filters)


def _by_pyiceberg(made: MadeTable, place: Place, given: Filter | None) -> dict[int, Any]:
    table = StaticTable.from_metadata(made.metadata)
    kinds = {
        "equal": expressions.EqualTo,
        "greaterThanOrEqual": expressions.GreaterThanOrEqual,
        "lessThan": expressions.LessThan,
        "greaterThan": expressions.GreaterThan,
    }
    where: Any = expressions.AlwaysTrue()
    if given is not None and given.value is None:
        is_null: Any = expressions.IsNull
        where = is_null(column_of(place))
    elif given is not None:
        where = kinds[given.name](column_of(place), literal(made.case.type, given.value))
    rows = table.scan(row_filter=where, selected_fields=("id", SELECTED[place])).to_arrow()
    values = _leaf_of_arrow(rows[SELECTED[place]], place)
    return dict(zip(rows["id"].to_pylist(), (_of_python(made.case.type, each) for each in values), strict=True))


def _leaf_of_arrow(column: Any, place: Place) -> list[Any]:
    if column.num_chunks == 0:
        return []
    column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    match place:
        case "struct":
            column = pc.struct_field(column, "c")
        case "list":
            column = column.flatten()
        case "map":
            column = column.items
    if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        scale = 1 if column.type.unit == "ns" else 1_000
        return [None if each is None else each * scale for each in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_date32(column.type):
        return list(column.cast(pa.int32()).to_pylist())
    return list(column.to_pylist())


def _of_python(type_: str, value: Any) -> Any:
    if type_ == "list<struct<x: int>>" and value == []:
        # PyIceberg gives an empty list of structs for null, in files of any shape.
        return None
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    if type_ == "uuid" and isinstance(value, bytes):
        return uuid.UUID(bytes=value)
    return value
