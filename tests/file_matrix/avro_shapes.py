"""Shapes of Avro columns."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import fastavro

from tests.file_matrix.shapes import Days, Layout, Shape

_UUID: Final = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
_OTHER: Final = uuid.UUID("0f112233-4455-6677-8899-aabbccddeeff")
#: 2024-02-29 12:34:56.123 and 2031-07-01 01:02:03.5 in UTC, in milliseconds.
_MOMENTS: Final = 1_709_210_096_123, 1_940_634_123_500
_NANOS_PER: Final = {"millis": 10**6, "micros": 10**3, "nanos": 1}


def avro(name: str, of: Any, meant: tuple[Any, Any], *types: str, given: tuple[Any, Any] | None = None) -> Shape:
    """of: the type in the schema. given: what is written for what is meant."""
    return Shape(name, "", *meant, types, partial(write_avro, of, given or meant), format="avro")


def write_avro(of: Any, given: tuple[Any, Any], path: Path, layout: Layout, _jvm: Any) -> None:
    column = of if of == "null" or isinstance(of, list) else ["null", of]
    # A named type is described once.
    again = of["name"] if isinstance(of, dict) and "name" in of else of
    other = again if again == "null" or isinstance(again, list) else ["null", again]
    fields: list[dict[str, Any]] = [{"name": "id", "type": "int"}]
    if layout == "flat":
        fields.append({"name": "c", "type": column})
        rows = [{"id": number, "c": each} for number, each in enumerate((*given, None))]
    else:
        fields.append({"name": "s", "type": {"type": "record", "name": "s", "fields": [{"name": "c", "type": column}]}})
        fields.append({"name": "l", "type": {"type": "array", "items": other}})
        fields.append({"name": "m", "type": {"type": "map", "values": other}})
        rows = [
            {"id": number, "s": {"c": each}, "l": [each], "m": {"k": each}}
            for number, each in enumerate((*given, None))
        ]
    with path.open("wb") as target:
        fastavro.writer(target, {"type": "record", "name": "r", "fields": fields}, rows)


def _logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def _fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": f"f{size}", "size": size, **more}


def _plain() -> Iterator[Shape]:
    yield avro("null", "null", (None, None), "int", "string", "timestamptz")
    yield avro("boolean", "boolean", (False, True), "boolean")
    yield avro("int", "int", (5, 7), "int", "long")
    yield avro("long", "long", (5, 7), "long", "int")
    yield avro("float", "float", (1.5, 2.5), "float", "double")
    yield avro("double", "double", (1.5, 2.5), "double", "float")
    yield avro("bytes", "bytes", (b"ab", b"cd"), "binary", "fixed[2]")
    yield avro("string", "string", ("ab", "cd"), "string")
    yield avro("string of Java", {"type": "string", "avro.java.string": "String"}, ("ab", "cd"), "string")
    yield avro("varchar of Hive", _logical("string", "varchar", maxLength=5), ("ab", "cd"), "string")
    yield avro("enum", {"type": "enum", "name": "e", "symbols": ["A", "B"]}, ("A", "B"), "string")
    yield avro("fixed", _fixed(4), (b"abcd", b"efgh"), "fixed[4]", "binary")
    yield avro("null at the end", ["int", "null"], (5, 7), "int", "long")
    yield avro("union of three", ["null", "int", "string"], (5, 7), "int")


def _logical_types() -> Iterator[Shape]:
    ids = (_UUID.bytes, _OTHER.bytes)
    yield avro("uuid", _fixed(16, logicalType="uuid"), (_UUID, _OTHER), "uuid", given=ids)
    yield avro("uuid without a logical type", _fixed(16), (_UUID, _OTHER), "uuid", given=ids)
    yield avro("uuid as string", _logical("string", "uuid"), (_UUID, _OTHER), "uuid")
    yield avro("uuid as string, for text", _logical("string", "uuid"), (str(_UUID), str(_OTHER)), "string")
    yield avro("date", _logical("int", "date"), (Days(10), Days(20)), "date", "timestamp", given=(10, 20))
    yield avro("time-millis", _logical("int", "time-millis"), (10**9, 2 * 10**9), "time", given=(1000, 2000))
    yield avro("time-micros", _logical("long", "time-micros"), (10**6, 2 * 10**6), "time", given=(1000, 2000))
    yield avro("duration", _fixed(12, logicalType="duration"), (b"a" * 12, b"b" * 12), "fixed[12]")
    digits = (Decimal("-3.50"), Decimal("1.25"))
    fixed = _fixed(4, logicalType="decimal", precision=9, scale=2)
    for name, of in (("bytes", _logical("bytes", "decimal", precision=9, scale=2)), ("fixed", fixed)):
        yield avro(f"decimal as {name}", of, digits, "decimal(9, 2)", "decimal(20, 2)")
    for unit, nanos in _NANOS_PER.items():
        moments = tuple(each * 10**6 for each in _MOMENTS)
        given = (moments[0] // nanos, moments[1] // nanos)
        kinds = ("timestamp_ns", "timestamptz_ns") if unit == "nanos" else ("timestamp", "timestamptz")
        for what, more in (
            ("", {}),
            (", true", {"adjust-to-utc": True}),
            (", false", {"adjust-to-utc": False}),
            (', "true"', {"adjust-to-utc": "true"}),
            (', "false"', {"adjust-to-utc": "false"}),
        ):
            of = _logical("long", f"timestamp-{unit}", **more)
            yield avro(f"timestamp-{unit}{what}", of, (moments[0], moments[1]), *kinds, given=given)
        local = _logical("long", f"local-timestamp-{unit}")
        yield avro(f"local-timestamp-{unit}", local, (moments[0], moments[1]), kinds[0], given=given)


SHAPES: Final = (*_plain(), *_logical_types())
