"""Shapes of Parquet columns that parquet-java writes: logical types that pyarrow has not, decimals in bytes, and lists
and maps as older writers store them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.file_matrix.shapes import Layout, Shape

#: 2024-02-29 12:34:56 and 2031-07-01 01:02:03 in UTC, in seconds.
_EARLIER, _LATER = 1_709_210_096, 1_940_634_123
_TIMESTAMPS = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")


def java(
    name: str, group: str, column: str, low: Any, high: Any, *types: str, given: tuple[Any, Any] | None = None
) -> Shape:
    """A shape that parquet-java writes. column: as in a message type of Parquet, without its repetition; it is called
    c. given: the bytes of low and high."""
    return Shape(name, group, low, high, types, partial(write_java, column, given or (low, high)), by_java=True)


def write_java(column: str, given: tuple[Any, Any], path: Path, layout: Layout, jvm: Any) -> None:
    field = f"optional {column};"
    if layout == "flat":
        body = field
    else:
        element, value = (field.replace(" c", f" {name}", 1) for name in ("element", "value"))
        body = (
            f"optional group s {{ {field} }} "
            f"optional group l (LIST) {{ repeated group list {{ {element} }} }} "
            f"optional group m (MAP) {{ repeated group key_value {{ required binary key (STRING); {value} }} }}"
        )
    rows: list[dict[str, Any]] = []
    for number, each in enumerate((*given, None)):
        inner = {} if each is None else {"c": each}
        row: dict[str, Any] = {"id": number}
        if layout == "flat":
            row |= inner
        else:
            row["s"] = inner
            row["l"] = {"list": [{} if each is None else {"element": each}]}
            row["m"] = {"key_value": [{"key": b"k"} | ({} if each is None else {"value": each})]}
        rows.append(row)
    write_message(f"message m {{ required int32 id; {body} }}", rows, path, jvm)


def write_message(message: str, rows: Sequence[dict[str, Any]], path: Path, jvm: Any) -> None:
    """A file by parquet-java. rows: of each field its value, a list of values, or for groups a dictionary."""
    hadoop, parquet = jvm.org.apache.hadoop, jvm.org.apache.parquet
    schema = parquet.schema.MessageTypeParser.parseMessageType(message)
    builder = parquet.hadoop.example.ExampleParquetWriter.builder(hadoop.fs.Path(f"file:{path}"))
    writer = builder.withType(schema).withConf(hadoop.conf.Configuration()).build()
    for row in rows:
        group = parquet.example.data.simple.SimpleGroup(schema)
        _fill(group, row, jvm)
        writer.write(group)
    writer.close()


def _fill(group: Any, row: dict[str, Any], jvm: Any) -> None:
    for name, given in row.items():
        for value in given if isinstance(given, list) else [given]:
            if isinstance(value, dict):
                _fill(group.addGroup(name), value, jvm)
            elif isinstance(value, bytes):
                group.add(name, jvm.org.apache.parquet.io.api.Binary.fromConstantByteArray(value))
            else:
                group.add(name, value)


def nested_java(
    name: str,
    column: str,
    low: Any,
    high: Any,
    type_: str,
    *,
    given: tuple[Any, Any] | None = None,
    nothing: Any = None,
) -> Shape:
    """column: a whole field, called c. given: what is written for it. nothing: what a row without it means."""
    write = partial(_write_nested, column, given or (low, high))
    group = "Lists, maps and structs by Java"
    return Shape(name, group, low, high, (type_,), write, by_java=True, layouts=("flat",), nothing=nothing)


def _write_nested(column: str, given: tuple[Any, Any], path: Path, _layout: Layout, jvm: Any) -> None:
    last: dict[str, Any] = {"id": 2}
    rows = [{"id": 0, "c": given[0]}, {"id": 1, "c": given[1]}, last]
    write_message(f"message m {{ required int32 id; {column} }}", rows, path, jvm)


def _numbers() -> Iterator[Shape]:
    group = "Numbers by Java"
    yield java("INTEGER(32, true)", group, "int32 c (INTEGER(32,true))", -5, 77, "int", "long")
    yield java("INTEGER(64, true)", group, "int64 c (INTEGER(64,true))", -(2**40), 2**40, "long")


def _by_java() -> Iterator[Shape]:
    text = "Text and bytes"
    apple, pear = b"apple", b"pear"
    yield java("ENUM", text, "binary c (ENUM)", "apple", "pear", "string", "binary", given=(apple, pear))
    yield java("JSON by Java", text, "binary c (JSON)", "{}", "{}", "string", given=(b"{}", b"{}"))
    yield java("BSON", text, "binary c (BSON)", apple, pear, "binary", "string")
    yield java("STRING by Java", text, "binary c (STRING)", "apple", "pear", "string", given=(apple, pear))
    yield java("bytes by Java", text, "binary c", apple, pear, "binary")
    yield java("bytes of text by Java", text, "binary c", "apple", "pear", "string", given=(apple, pear))
    one, two = uuid.UUID(int=77), uuid.UUID(int=2**126 + 5)
    given = (one.bytes, two.bytes)
    yield java("UUID by Java", text, "fixed_len_byte_array(16) c (UUID)", one, two, "uuid", "fixed[16]", given=given)
    yield java("fixed(16) by Java", text, "fixed_len_byte_array(16) c", one, two, "uuid", given=given)
    lapse = (b"\x01\0\0\0" * 3, b"\x02\0\0\0" * 3)
    yield java("INTERVAL", "Dates and times", "fixed_len_byte_array(12) c (INTERVAL)", *lapse, "fixed[12]", "binary")
    yield java(
        "FLOAT16 by Java",
        "Numbers",
        "fixed_len_byte_array(2) c (FLOAT16)",
        1.0,
        2.0,
        "float",
        given=(b"\0\x3c", b"\0\x40"),
    )
    for precision, scale, low, high in (
        (7, 2, -1_234_567, 1_234_567),
        (15, 2, -(10**14), 10**14),
        (30, 5, -(10**27), 10**27),
    ):
        of = f"decimal({precision}, {scale})"
        wider = f"decimal({precision + 3}, {scale})"
        meant = Decimal(low).scaleb(-scale), Decimal(high).scaleb(-scale)
        annotated = f"(DECIMAL({precision},{scale}))"
        length = (high.bit_length() + 8) // 8
        given_ = (low.to_bytes(length, "big", signed=True), high.to_bytes(length, "big", signed=True))
        wide = (low.to_bytes(16, "big", signed=True), high.to_bytes(16, "big", signed=True))
        yield java(f"{of} in binary", "Decimals", f"binary c {annotated}", *meant, of, wider, given=given_)
        yield java(
            f"{of} in fixed(16)", "Decimals", f"fixed_len_byte_array(16) c {annotated}", *meant, of, wider, given=wide
        )
    small = (Decimal("-123.45"), Decimal("123.45"))
    yield java(
        "INT96 by Java",
        "Timestamps",
        "int96 c",
        _EARLIER * 10**9,
        _LATER * 10**9,
        *_TIMESTAMPS,
        given=(_int96(_EARLIER), _int96(_LATER)),
    )
    yield java(
        "decimal(5, 2) in int32 by Java",
        "Decimals",
        "int32 c (DECIMAL(5,2))",
        *small,
        "decimal(5, 2)",
        given=(-12_345, 12_345),
    )


def _int96(seconds: int) -> bytes:
    days, rest = divmod(seconds, 86_400)
    return (rest * 10**9).to_bytes(8, "little") + (days + 2_440_588).to_bytes(4, "little")


_NUMBERS: Final = ([1, 2], [3])
_ROWS: Final = ([{"x": 1}], [{"x": 2}])
_ENTRIES: Final = ([{"key": b"a", "value": 1}], [{"key": b"b", "value": 2}])
_ENTRY: Final = "required binary key (STRING); optional int32 value;"


def _lists() -> Iterator[Shape]:
    def of_groups(name: str, outer: str, inner: str, element: str) -> Shape:
        column = f"optional group c {outer} {{ repeated group {inner} {{ optional int32 {element}; }} }}"
        low, high = ({inner: [{element: value} for value in each]} for each in _NUMBERS)
        return nested_java(name, column, *_NUMBERS, "list<int>", given=(low, high))

    yield of_groups("list in three levels", "(LIST)", "list", "element")
    yield of_groups("list by Hive", "(LIST)", "bag", "array_element")
    yield of_groups("list of array", "(LIST)", "array", "item")
    yield of_groups("list without LIST", "", "list", "element")
    for by, inner in (("", "element"), (" by Avro", "array"), (" by Thrift", "c_tuple")):
        column = f"optional group c (LIST) {{ repeated int32 {inner}; }}"
        low, high = ({inner: each} for each in _NUMBERS)
        yield nested_java(f"list in two levels{by}", column, *_NUMBERS, "list<int>", given=(low, high))
    made: Any
    for fields, columns in (("one field", "optional int32 x;"), ("two fields", "optional int32 x; optional int32 y;")):
        for inner in ("element", "array", "c_tuple"):
            column = f"optional group c (LIST) {{ repeated group {inner} {{ {columns} }} }}"
            name = f"list in two levels of structs of {fields} called {inner}"
            made = [{inner: each} for each in _ROWS]
            yield nested_java(name, column, *_ROWS, "list<struct<x: int>>", given=(made[0], made[1]))
    yield nested_java("repeated field", "repeated int32 c;", *_NUMBERS, "list<int>", nothing=[])
    yield nested_java(
        "repeated group", "repeated group c { optional int32 x; }", *_ROWS, "list<struct<x: int>>", nothing=[]
    )
    column = "optional group c { repeated group list { optional int32 element; } }"
    made = [{"list": [{"element": value} for value in each]} for each in _NUMBERS]
    yield nested_java(
        "struct with a repeated group", column, made[0], made[1], "struct<list: list<struct<element: int>>>"
    )


def _maps() -> Iterator[Shape]:
    def of(name: str, outer: str, inner: str, annotation: str = "", entry: str = _ENTRY) -> Shape:
        column = f"optional group c ({outer}) {{ repeated group {inner} {annotation} {{ {entry} }} }}"
        low, high = ({inner: each} for each in _ENTRIES)
        return nested_java(name, column, {"a": 1}, {"b": 2}, "map<string, int>", given=(low, high))

    yield of("map by Java", "MAP", "key_value")
    yield of("map of map", "MAP", "map")
    yield of("map of entries", "MAP", "entries")
    yield of("MAP_KEY_VALUE", "MAP_KEY_VALUE", "map")
    yield of("MAP_KEY_VALUE of key_value", "MAP_KEY_VALUE", "key_value")
    yield of("map of MAP_KEY_VALUE", "MAP", "map", "(MAP_KEY_VALUE)")
    yield of("map with optional keys", "MAP", "key_value", entry=_ENTRY.replace("required", "optional"))
    column = "optional group c (MAP) { repeated group key_value { required binary k (STRING); optional int32 v; } }"
    low, high = ({"key_value": [{"k": key, "v": value}]} for key, value in ((b"a", 1), (b"b", 2)))
    yield nested_java("map with other names", column, {"a": 1}, {"b": 2}, "map<string, int>", given=(low, high))


MAKERS: Final = (_numbers, _by_java, _lists, _maps)
