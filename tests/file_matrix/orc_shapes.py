"""Shapes of ORC columns, by ORC's own writer: pyarrow has no `char`, no `varchar` and no attributes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import get_field, set_field

from tests.file_matrix.shapes import Days, Layout, Shape

_UUID: Final = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
_OTHER: Final = uuid.UUID("0f112233-4455-6677-8899-aabbccddeeff")
#: 2024-02-29 12:34:56.123456 and 2031-07-01 01:02:03.5 in UTC, in nanoseconds.
_MOMENTS: Final = 1_709_210_096_123_456_000, 1_940_634_123_500_000_000


def orc(
    name: str,
    kind: str,
    meant: tuple[Any, Any],
    *types: str,
    given: tuple[Any, Any] | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Shape:
    """kind: as ORC spells a type. given: what is written for what is meant. attributes: Iceberg's, of the type."""
    write = partial(write_orc, kind, given or meant, attributes or {})
    return Shape(name, "", *meant, types, write, format="orc", by_java=True)


def write_orc(
    kind: str, given: tuple[Any, Any], attributes: Mapping[str, str], path: Path, layout: Layout, jvm: Any
) -> None:
    orc_, hadoop = jvm.org.apache.orc, jvm.org.apache.hadoop
    columns = f"c:{kind}" if layout == "flat" else f"s:struct<c:{kind}>,l:array<{kind}>,m:map<string,{kind}>"
    schema = orc_.TypeDescription.fromString(f"struct<id:int,{columns}>")
    for column in list(schema.getChildren())[1:]:
        leaf = column if layout == "flat" else list(column.getChildren())[-1]
        for key, text in attributes.items():
            leaf.setAttribute(f"iceberg.{key}", text)
    options = orc_.OrcFile.writerOptions(hadoop.conf.Configuration()).setSchema(schema).useUTCTimestamp(True)
    writer = orc_.OrcFile.createWriter(hadoop.fs.Path(f"file:{path}"), options)
    batch = schema.createRowBatch()
    for number, each in enumerate((*given, None)):
        values = [each] if layout == "flat" else [[each], [each], {"k": each}]
        for of, vector, value in zip(schema.getChildren(), get_field(batch, "cols"), [number, *values], strict=True):
            _fill(jvm, of, vector, number, value)
    set_field(batch, "size", 3)
    writer.addRowBatch(batch)
    writer.close()


def _fill(jvm: Any, of: Any, vector: Any, row: int, value: Any) -> None:
    """Put a value into a column's vector."""
    if value is None:
        set_field(vector, "noNulls", False)
        get_field(vector, "isNull")[row] = True
        return
    match of.getCategory().getName():
        case "float" | "double":
            get_field(vector, "vector")[row] = float(value)
        case "string" | "char" | "varchar" | "binary":
            vector.setVal(row, value if isinstance(value, bytes) else value.encode())
        case "decimal":
            vector.set(row, jvm.org.apache.hadoop.hive.common.type.HiveDecimal.create(str(value)))
        case "timestamp" | "timestamp with local time zone":
            moment = jvm.java.sql.Timestamp(value // 10**6)
            moment.setNanos(value % 10**9)
            vector.set(row, moment)
        case "struct":
            for child, inner, each in zip(of.getChildren(), get_field(vector, "fields"), value, strict=True):
                _fill(jvm, child, inner, row, each)
        case "array":
            _fill(jvm, of.getChildren()[0], get_field(vector, "child"), _next(vector, row), value[0])
        case "map":
            (entry,) = value.items()
            at = _next(vector, row)
            for child, name, each in zip(of.getChildren(), ("keys", "values"), entry, strict=True):
                _fill(jvm, child, get_field(vector, name), at, each)
        case "uniontype":
            get_field(vector, "tags")[row] = 0
            _fill(jvm, of.getChildren()[0], get_field(vector, "fields")[0], row, value)
        case _:
            get_field(vector, "vector")[row] = int(value)


def _next(vector: Any, row: int) -> int:
    """Where the only element of a list or map is."""
    at = int(get_field(vector, "childCount"))
    get_field(vector, "offsets")[row] = at
    get_field(vector, "lengths")[row] = 1
    set_field(vector, "childCount", at + 1)
    return at


def _shapes() -> Iterator[Shape]:
    yield orc("boolean", "boolean", (False, True), "boolean")
    yield orc("tinyint", "tinyint", (-7, 5), "int", "long")
    yield orc("smallint", "smallint", (-7, 5), "int", "long")
    yield orc("int", "int", (-7, 5), "int", "long")
    yield orc("bigint", "bigint", (-7, 5), "long", "int")
    times = (1_000_000, 2_000_000)
    yield orc("time", "bigint", times, "time", given=(1_000, 2_000), attributes={"long-type": "TIME"})
    yield orc("float", "float", (-2.5, 1.5), "float", "double")
    yield orc("double", "double", (-2.5, 1.5), "double", "float")
    yield orc("string", "string", ("ab", "cd"), "string", "binary")
    yield orc("char", "char(5)", ("ab", "cd"), "string")
    yield orc("varchar", "varchar(5)", ("ab", "cd"), "string")
    yield orc("binary", "binary", (b"ab", b"cd"), "binary", "fixed[2]", "string")
    yield orc("fixed", "binary", (b"ab", b"cd"), "fixed[2]", attributes={"binary-type": "FIXED", "length": "2"})
    ids = (_UUID.bytes, _OTHER.bytes)
    yield orc("uuid", "binary", (_UUID, _OTHER), "uuid", given=ids, attributes={"binary-type": "UUID"})
    yield orc("date", "date", (Days(10), Days(20)), "date", "timestamp", given=(10, 20))
    digits = (Decimal("-3.50"), Decimal("1.25"))
    yield orc("decimal of 9 digits", "decimal(9,2)", digits, "decimal(9, 2)", "decimal(20, 2)")
    yield orc("decimal of 38 digits", "decimal(38,2)", digits, "decimal(38, 2)")
    for name, kind, type_ in (
        ("timestamp", "timestamp", "timestamp"),
        ("timestamp with local time zone", "timestamp with local time zone", "timestamptz"),
    ):
        yield orc(name, kind, _MOMENTS, "timestamp", "timestamptz", f"{type_}_ns")
        yield orc(f"{name} of Iceberg", kind, _MOMENTS, type_, attributes={"timestamp-unit": "MICROS"})
        yield orc(f"{name} of nanoseconds", kind, _MOMENTS, f"{type_}_ns", attributes={"timestamp-unit": "NANOS"})
    yield orc("union", "uniontype<int,string>", (5, 7), "int")


SHAPES: Final = tuple(_shapes())
