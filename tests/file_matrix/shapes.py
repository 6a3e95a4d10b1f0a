"""A shape of a column in a data file, whatever the file's format: how to write it, and what its writer meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

#: Where in a file the column is: alone at the top level, as s.c in a struct, as the elements of the list l, or as the
#: values of the map m.
Place = Literal["top", "struct", "list", "map"]
#: A file has the column at the top level, or in all three nested places.
Layout = Literal["flat", "nested"]
PLACES: Final[Mapping[Layout, tuple[Place, ...]]] = {"flat": ("top",), "nested": ("struct", "list", "map")}
#: The column of each place that a reader selects.
SELECTED: Final[Mapping[Place, str]] = {"top": "c", "struct": "s", "list": "l", "map": "m"}

#: Types that tables have from format version 3 on.
_OF_VERSION_3: Final = ("timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography")

NANOS_PER_DAY: Final = 86_400_000_000_000


@dataclass(frozen=True)
class Shape:
    """Three rows, with id 0, 1 and 2: low, high and nothing, which is null but in repeated fields.

    low, high: what the writer meant, in one form for all readers: numbers, text, bytes, days since 1970, and
    nanoseconds since midnight or 1970. types: the table's types, as the specification spells them, that a file of this
    shape is tried with. write: writes it in a layout; jvm: Spark's, for files that only Java writes. group: what it is
    about, for the page. layouts: nested types are tried at the top level alone.
    """

    name: str
    group: str
    low: Any
    high: Any
    types: tuple[str, ...]
    write: Callable[[Path, Layout, Any], None]
    format: Literal["parquet", "avro", "orc"] = "parquet"
    by_java: bool = False
    layouts: tuple[Layout, ...] = ("flat", "nested")
    nothing: Any = None


@dataclass(frozen=True)
class Case:
    """A shape in a layout, in a table of a format version with a column of one type."""

    shape: Shape
    type: str
    version: int
    layout: Layout

    @property
    def name(self) -> str:
        return f"{self.shape.name} | {self.type} | version {self.version} | {self.layout}"

    @property
    def values(self) -> tuple[Any, Any]:
        """low and high, as the table's type has them: a reader of timestamps takes a day for its midnight."""
        if self.type.startswith("timestamp") and isinstance(self.shape.low, Days):
            return self.shape.low * NANOS_PER_DAY, self.shape.high * NANOS_PER_DAY
        return self.shape.low, self.shape.high

    def schema(self) -> dict[str, Any]:
        """The table's schema, as the specification's JSON."""
        return table_schema(self.type, self.layout)


class Days(int):
    """Days since 1970."""


def cases_of(shapes: Sequence[Shape]) -> Iterator[Case]:
    for shape in shapes:
        for type_ in shape.types:
            for layout in shape.layouts:
                yield from (Case(shape, type_, version, layout) for version in _versions(shape, type_))


def _versions(shape: Shape, type_: str) -> tuple[int, ...]:
    """PyIceberg reads timestamps and nulls of tables of version 3 in other ways."""
    if type_ in _OF_VERSION_3:
        return (3,)
    return (2, 3) if type_ in ("timestamp", "timestamptz") or shape.low is None else (2,)


def table_schema(type_: str, layout: Layout) -> dict[str, Any]:
    of = NESTED.get(type_, type_)
    fields: list[dict[str, Any]] = [{"id": 1, "name": "id", "required": False, "type": "int"}]
    if layout == "flat":
        fields.append({"id": 2, "name": "c", "required": False, "type": of})
    else:
        inner = {"id": 4, "name": "c", "required": False, "type": of}
        struct = {"type": "struct", "fields": [inner]}
        list_ = {"type": "list", "element-id": 6, "element-required": False, "element": of}
        map_ = {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value-required": False, "value": of}
        fields.append({"id": 3, "name": "s", "required": False, "type": struct})
        fields.append({"id": 5, "name": "l", "required": False, "type": list_})
        fields.append({"id": 7, "name": "m", "required": False, "type": map_})
    return {"type": "struct", "fields": fields}


#: Nested types of tables, by the names that shapes give them.
NESTED: Final[Mapping[str, Any]] = {
    "list<int>": {"type": "list", "element-id": 20, "element-required": False, "element": "int"},
    "list<struct<x: int>>": {
        "type": "list",
        "element-id": 20,
        "element-required": False,
        "element": {"type": "struct", "fields": [{"id": 21, "name": "x", "required": False, "type": "int"}]},
    },
    "map<string, int>": {
        "type": "map",
        "key-id": 20,
        "key": "string",
        "value-id": 21,
        "value-required": False,
        "value": "int",
    },
    "struct<x: int>": {"type": "struct", "fields": [{"id": 20, "name": "x", "required": False, "type": "int"}]},
    "struct<list: list<struct<element: int>>>": {
        "type": "struct",
        "fields": [
            {
                "id": 20,
                "name": "list",
                "required": False,
                "type": {
                    "type": "list",
                    "element-id": 21,
                    "element-required": False,
                    "element": {
                        "type": "struct",
                        "fields": [{"id": 22, "name": "element", "required": False, "type": "int"}],
                    },
                },
            }
        ],
    },
}


def decimal(text: str) -> Decimal:
    return Decimal(text)
