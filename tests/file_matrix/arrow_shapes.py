"""Shapes of Parquet columns that pyarrow writes: each of its types, with and without its own schema in the footer."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.file_matrix.shapes import Days, Layout, Shape

_DAY = 86_400_000_000_000
#: 2024-02-29 12:34:56 and 2031-07-01 01:02:03 in UTC, in seconds.
_EARLIER, _LATER = 1_709_210_096, 1_940_634_123
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_TIMESTAMPS = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")


def write_arrow(make: Callable[[], pa.Array], options: dict[str, Any], path: Path, layout: Layout, _jvm: Any) -> None:
    column = make()
    columns: dict[str, pa.Array] = {"id": pa.array([0, 1, 2], pa.int32())}
    if layout == "flat":
        columns["c"] = column
    else:
        offsets = pa.array([0, 1, 2, 3], pa.int32())
        columns["s"] = pa.StructArray.from_arrays([column], fields=[pa.field("c", column.type)])
        columns["l"] = pa.ListArray.from_arrays(offsets, column)
        columns["m"] = pa.MapArray.from_arrays(offsets, pa.array(["k"] * 3), column)
    pq.write_table(pa.table(columns), path, **options)


def arrow(
    name: str,
    group: str,
    make: pa.DataType | Callable[[], pa.Array],
    low: Any,
    high: Any,
    *types: str,
    given: tuple[Any, Any] | None = None,
    **options: Any,
) -> Shape:
    """A shape that pyarrow writes. make: the column's type, of which `given` (low and high) are values; or a call that
    makes the column."""
    if isinstance(make, pa.DataType):
        first, second = given or (low, high)
        make = partial(_array, make, [first, second, None])
    # Readers of nested columns have no code of their own for a kind of page.
    layouts: tuple[Layout, ...] = ("flat",) if options.keys() & _OF_PAGES else ("flat", "nested")
    return Shape(name, group, low, high, types, partial(write_arrow, make, options), layouts=layouts)


def _array(of: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(of, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(of, _array(of.storage_type, values))
    if pa.types.is_temporal(of):
        wide = pa.types.is_timestamp(of) or pa.types.is_duration(of) or pa.types.is_time64(of) or pa.types.is_date64(of)
        return (
            pa.array(values, pa.int64() if wide else pa.int32()).cast(of)
            if not pa.types.is_duration(of)
            else (pa.array(values, pa.int64()).cast(of))
        )
    if pa.types.is_dictionary(of):
        return pa.array(values, of.value_type).dictionary_encode().cast(of)
    if pa.types.is_large_list(of) or pa.types.is_list(of):
        return pa.array(values, of)
    return pa.array(values, of)


_OF_PAGES: Final = {"use_dictionary", "column_encoding", "data_page_version", "compression"}
PLAIN: Final[dict[str, Any]] = {"use_dictionary": False}
BARE: Final[dict[str, Any]] = {"store_schema": False}


def _numbers() -> Iterator[Shape]:
    group = "Numbers"
    yield arrow("boolean", group, pa.bool_(), False, True, "boolean", "int")
    for bits in (8, 16, 32, 64):
        low, high = -(2 ** (bits - 2)), 2 ** (bits - 1) - 1
        types = ("int", "long", "double", "decimal(20, 0)", "date", "timestamp")
        yield arrow(f"int{bits}", group, getattr(pa, f"int{bits}")(), low, high, *types)
        yield arrow(f"int{bits}, bare", group, getattr(pa, f"int{bits}")(), low, high, "int", "long", **BARE)
        large = 2**bits - 3
        unsigned = getattr(pa, f"uint{bits}")()
        yield arrow(f"uint{bits}", group, unsigned, 5, large, "int", "long", "decimal(20, 0)")
        yield arrow(f"uint{bits}, plain pages", group, unsigned, 5, large, "int", "long", **PLAIN)
        yield arrow(f"uint{bits}, bare", group, unsigned, 5, large, "int", "long", **BARE)
    yield arrow("uint64 of small values", group, pa.uint64(), 5, 7, "long", "decimal(20, 0)")
    yield arrow("uint32, version 1.0", group, pa.uint32(), 5, 2**32 - 3, "int", "long", version="1.0")
    yield arrow("float16", group, pa.float16(), -1.5, 2.25, "float", "double")
    yield arrow("float16, bare", group, pa.float16(), -1.5, 2.25, "float", "double", **BARE)
    yield arrow("float", group, pa.float32(), -1.5, 2.25, "float", "double", "int")
    yield arrow("float, plain pages", group, pa.float32(), -1.5, 2.25, "float", "double", **PLAIN)
    yield arrow("double", group, pa.float64(), -1.5, 2.1, "double", "float")


def _decimals() -> Iterator[Shape]:
    group = "Decimals"
    small, medium, large = (Decimal(each) for each in ("12345.67", "1234567890123.45", "12345678901234567890123.45678"))
    of = "decimal({}, {})".format
    as_int: dict[str, Any] = {"store_decimal_as_integer": True}
    for low, high, precision, scale in (
        (-small, small, 7, 2),
        (-medium, medium, 15, 2),
        (-large, large, 30, 5),
    ):
        types = (of(precision, scale), of(precision + 3, scale), of(38, scale), of(precision + 3, scale + 1), "double")
        yield arrow(f"decimal128({precision}, {scale})", group, pa.decimal128(precision, scale), low, high, *types)
        own = types[:3]
        kind = pa.decimal128(precision, scale)
        yield arrow(f"decimal128({precision}, {scale}), bare", group, kind, low, high, *own, **BARE)
        yield arrow(f"decimal128({precision}, {scale}), plain pages", group, kind, low, high, *own, **PLAIN)
        if precision <= 18:
            name = f"decimal128({precision}, {scale}) as integer"
            yield arrow(name, group, kind, low, high, *own, **as_int)
            yield arrow(f"{name}, plain pages", group, kind, low, high, *own, **as_int, **PLAIN)
            yield arrow(f"{name}, bare", group, kind, low, high, *own, **as_int, **BARE)
            narrow = pa.decimal32(precision, scale) if precision < 10 else pa.decimal64(precision, scale)
            yield arrow(str(narrow), group, narrow, low, high, *own)
            yield arrow(f"{narrow} as integer", group, narrow, low, high, *own, **as_int)
    yield arrow("decimal256(30, 5)", group, pa.decimal256(30, 5), -large, large, of(30, 5))
    yield arrow("decimal256(50, 5)", group, pa.decimal256(50, 5), -large, large, of(38, 5))
    yield arrow("decimal128(7, 0)", group, pa.decimal128(7, 0), Decimal(-77), Decimal(88), of(7, 0), "long")


def _times() -> Iterator[Shape]:
    group = "Dates and times"
    yield arrow("date32", group, pa.date32(), Days(-3), Days(19_000), "date", *_TIMESTAMPS, "int")
    yield arrow("date32, bare", group, pa.date32(), Days(-3), Days(19_000), "date", *_TIMESTAMPS, **BARE)
    given = (-3 * 86_400_000, 19_000 * 86_400_000)
    yield arrow("date64", group, pa.date64(), Days(-3), Days(19_000), "date", "timestamp", given=given)
    morning, evening = 3_600, 80_000
    for unit, kind in (
        ("s", pa.time32("s")),
        ("ms", pa.time32("ms")),
        ("us", pa.time64("us")),
        ("ns", pa.time64("ns")),
    ):
        stored = (morning * _PER_SECOND[unit], evening * _PER_SECOND[unit])
        nanos = (morning * 10**9, evening * 10**9)
        for name, options in (
            ("", {}),
            (", bare", BARE),
            (", plain pages", PLAIN),
            (", adjusted to UTC", {"write_time_adjusted_to_utc": True}),
        ):
            yield arrow(f"time of {unit}{name}", group, kind, *nanos, "time", given=stored, **options)


def _timestamps() -> Iterator[Shape]:
    for zone in (None, "UTC"):
        for unit in ("s", "ms", "us", "ns"):
            kind = pa.timestamp(unit, tz=zone)
            shown = f"timestamp of {unit}" + (f" in {zone}" if zone else "")
            for name, options in (("", {}), (", bare", BARE), (", plain pages", PLAIN)):
                yield _timestamp(shown + name, kind, **options)
    for zone in ("Europe/Berlin", "+02:00", "Etc/UTC", "GMT", "Z", "+00:00"):
        yield _timestamp(f"timestamp of us in {zone}", pa.timestamp("us", tz=zone))
        yield _timestamp(f"timestamp of us in {zone}, bare", pa.timestamp("us", tz=zone), **BARE)
    yield _timestamp("timestamp of ms in Europe/Berlin", pa.timestamp("ms", tz="Europe/Berlin"))
    yield _timestamp("timestamp of ns in Europe/Berlin", pa.timestamp("ns", tz="Europe/Berlin"))
    for zone in (None, "UTC", "Europe/Berlin"):
        for name, options in (("", {}), (", bare", BARE), (", plain pages", PLAIN)):
            shown = "INT96" + (f" of {zone}" if zone else "") + name
            kind = pa.timestamp("ns", tz=zone)
            yield _timestamp(shown, kind, use_deprecated_int96_timestamps=True, **options)
    yield _timestamp("timestamp of ms, version 1.0", pa.timestamp("ms"), version="1.0")
    yield _timestamp("timestamp of us, version 1.0", pa.timestamp("us"), version="1.0")
    yield _timestamp("timestamp of us in UTC, version 1.0", pa.timestamp("us", tz="UTC"), version="1.0")


def _timestamp(name: str, kind: pa.TimestampType, **options: Any) -> Shape:
    given = (_EARLIER * _PER_SECOND[kind.unit], _LATER * _PER_SECOND[kind.unit])
    return arrow(
        name, "Timestamps", kind, _EARLIER * 10**9, _LATER * 10**9, *_TIMESTAMPS, "long", given=given, **options
    )


def _texts() -> Iterator[Shape]:
    group = "Text and bytes"
    low, high = "apple", "żółw"
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield arrow(str(kind), group, kind, low, high, "string", "binary")
    yield arrow("string, bare", group, pa.string(), low, high, "string", "binary", **BARE)
    yield arrow("string, plain pages", group, pa.string(), low, high, "string", **PLAIN)
    for index in (pa.int8(), pa.int32()):
        kind = pa.dictionary(index, pa.string())
        yield arrow(f"dictionary of strings, {index}", group, kind, low, high, "string")
    yield arrow(
        "dictionary of strings, plain pages",
        group,
        pa.dictionary(pa.int32(), pa.string()),
        low,
        high,
        "string",
        **PLAIN,
    )
    yield arrow(
        "dictionary of strings, bare", group, pa.dictionary(pa.int32(), pa.string()), low, high, "string", **BARE
    )
    yield arrow("dictionary of large strings", group, pa.dictionary(pa.int32(), pa.large_string()), low, high, "string")
    yield arrow("dictionary of bytes", group, pa.dictionary(pa.int32(), pa.binary()), b"\x01", b"\xfe\xff", "binary")
    yield arrow("dictionary of longs", group, pa.dictionary(pa.int32(), pa.int64()), 5, 77, "long")
    yield arrow("dictionary of doubles", group, pa.dictionary(pa.int32(), pa.float64()), 1.5, 2.5, "double")
    zoned = pa.timestamp("us", tz="UTC")
    make = partial(_dictionary, zoned, [_EARLIER * 10**6, _LATER * 10**6, None])
    yield arrow("dictionary of timestamps", group, make, _EARLIER * 10**9, _LATER * 10**9, "timestamptz")
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield arrow(str(kind), group, kind, b"\x01", b"\xfe\xff", "binary", "string", "geometry")
    yield arrow("binary of text", group, pa.binary(), "apple", "pear", "string", given=(b"apple", b"pear"))
    yield arrow(
        "binary of text, bare", group, pa.binary(), "apple", "pear", "string", given=(b"apple", b"pear"), **BARE
    )
    yield arrow("binary, plain pages", group, pa.binary(), b"\x01", b"\xfe\xff", "binary", **PLAIN)
    yield arrow("fixed(3)", group, pa.binary(3), b"\x01\x02\x03", b"\xfe\xff\x00", "fixed[3]", "binary", "fixed[4]")
    yield arrow("fixed(3), plain pages", group, pa.binary(3), b"\x01\x02\x03", b"\xfe\xff\x00", "fixed[3]", **PLAIN)
    one, two = uuid.UUID(int=77), uuid.UUID(int=2**126 + 5)
    given = (one.bytes, two.bytes)
    yield arrow("fixed(16)", group, pa.binary(16), *given, "fixed[16]", "binary")
    yield arrow("fixed(16) of uuids", group, pa.binary(16), one, two, "uuid", given=given)
    yield arrow("fixed(16) of uuids, bare", group, pa.binary(16), one, two, "uuid", given=given, **BARE)
    yield arrow("uuid", group, pa.uuid(), one, two, "uuid", "fixed[16]", "string", given=given)
    yield arrow("uuid, bare", group, pa.uuid(), one, two, "uuid", "fixed[16]", given=given, **BARE)
    yield arrow("uuid, plain pages", group, pa.uuid(), one, two, "uuid", given=given, **PLAIN)
    texts = (str(one), str(two))
    yield arrow("string of uuids", group, pa.string(), one, two, "uuid", given=texts)


def _dictionary(of: pa.DataType, values: list[Any]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(of).dictionary_encode()


class Unregistered(pa.ExtensionType):  # type: ignore[misc]
    """An extension type that no reader registered."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "tests.unregistered")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Unregistered:
        return cls(storage_type)


def _others() -> Iterator[Shape]:
    group = "Other types of Arrow"
    for unit in ("s", "ms", "us", "ns"):
        yield arrow(f"duration of {unit}", group, pa.duration(unit), 5, 77, "long")
        yield arrow(f"duration of {unit}, bare", group, pa.duration(unit), 5, 77, "long", **BARE)
    yield arrow("null", group, pa.null(), None, None, "unknown", "int", "string", "timestamptz")
    yield arrow("null, bare", group, pa.null(), None, None, "unknown", "int", "string", "timestamptz", **BARE)
    yield arrow("json", group, pa.json_(), '{"a":1}', '{"b":2}', "string")
    yield arrow("json, bare", group, pa.json_(), '{"a":1}', '{"b":2}', "string", **BARE)
    yield arrow("json of large strings", group, pa.json_(pa.large_string()), '{"a":1}', '{"b":2}', "string")
    yield arrow("bool8", group, pa.bool8(), False, True, "boolean", "int", given=(0, 1))
    yield arrow("opaque", group, pa.opaque(pa.binary(), "t", "v"), b"\x01", b"\x02", "binary")
    yield arrow("unregistered extension of strings", group, Unregistered(pa.string()), "a", "b", "string")
    yield arrow("unregistered extension of longs", group, Unregistered(pa.int64()), 5, 77, "long")
    yield arrow("pandas' periods", group, _periods, 50, 60, "long")
    yield arrow("pandas' categories", group, _categories, "a", "b", "string")


def _periods() -> pa.Array:
    pd: Any = importlib.import_module("pandas")
    return pa.array(pd.array([pd.Period(ordinal=50, freq="D"), pd.Period(ordinal=60, freq="D"), pd.NaT], "period[D]"))


def _categories() -> pa.Array:
    pd: Any = importlib.import_module("pandas")
    return pa.array(pd.Categorical(["a", "b", None]))


def nested_arrow(name: str, kind: pa.DataType, low: Any, high: Any, type_: str, **options: Any) -> Shape:
    make = partial(_array, kind, [low, high, None])
    write = partial(write_arrow, make, options)
    return Shape(name, "Lists, maps and structs", _plain(low), _plain(high), (type_,), write, layouts=("flat",))


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value


def _nested() -> Iterator[Shape]:
    number = pa.int32()
    for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view):
        yield nested_arrow(str(kind(number)), kind(number), [1, 2], [3, None], "list<int>")
    yield nested_arrow("list, bare", pa.list_(number), [1, 2], [3, None], "list<int>", **BARE)
    yield nested_arrow(
        "list of item", pa.list_(number), [1, 2], [3, None], "list<int>", use_compliant_nested_type=False
    )
    yield nested_arrow("fixed size list", pa.list_(number, 2), [1, 2], [3, None], "list<int>")
    x = pa.struct([("x", number)])
    yield nested_arrow("list of structs", pa.list_(x), [{"x": 1}], [{"x": 2}], "list<struct<x: int>>")
    yield nested_arrow("list view of structs", pa.list_view(x), [{"x": 1}], [{"x": 2}], "list<struct<x: int>>")
    yield nested_arrow("map", pa.map_(pa.string(), number), [("a", 1)], [("b", 2)], "map<string, int>")
    yield nested_arrow("map, bare", pa.map_(pa.string(), number), [("a", 1)], [("b", 2)], "map<string, int>", **BARE)
    ordered = pa.map_(pa.string(), number, keys_sorted=True)
    yield nested_arrow("map with keys in order", ordered, [("a", 1)], [("b", 2)], "map<string, int>")
    yield nested_arrow("struct", x, {"x": 1}, {"x": 2}, "struct<x: int>")


def _pages() -> Iterator[Shape]:
    group = "Encodings and compression"
    numbers: tuple[tuple[Any, Any, Any, str], ...] = (
        (pa.int32(), 5, 77, "int"),
        (pa.int64(), 5, 77, "long"),
        (pa.float32(), 0.5, 1.5, "float"),
        (pa.float64(), 0.5, 1.5, "double"),
        (pa.string(), "apple", "pear", "string"),
        (pa.binary(), b"\x01", b"\xfe\xff", "binary"),
        (pa.binary(3), b"\x01\x02\x03", b"\xfe\xff\x00", "fixed[3]"),
        (pa.decimal128(7, 2), Decimal("-12345.67"), Decimal("12345.67"), "decimal(7, 2)"),
        (pa.bool_(), False, True, "boolean"),
        (pa.date32(), Days(-3), Days(19_000), "date"),
    )
    for kind, low, high, type_ in numbers:
        for encoding in _ENCODINGS.get(type_.partition("(")[0].partition("[")[0], ()):
            yield arrow(
                f"{kind} in {encoding}", group, kind, low, high, type_, column_encoding={"c": encoding}, **PLAIN
            )
        yield arrow(f"{kind} in pages of version 2", group, kind, low, high, type_, data_page_version="2.0")
        yield arrow(
            f"{kind} in plain pages of version 2", group, kind, low, high, type_, data_page_version="2.0", **PLAIN
        )
    for codec in ("none", "snappy", "gzip", "zstd", "lz4", "brotli"):
        yield arrow(f"int64 compressed by {codec}", group, pa.int64(), 5, 77, "long", compression=codec)


_NUMBERS: Final = ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT")
_ENCODINGS: Final = {
    "int": _NUMBERS,
    "long": _NUMBERS,
    "date": _NUMBERS,
    "float": ("BYTE_STREAM_SPLIT",),
    "double": ("BYTE_STREAM_SPLIT",),
    "string": ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    "binary": ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    "fixed": ("DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"),
    "decimal": ("DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"),
    "boolean": ("RLE",),
}

MAKERS: Final = (_numbers, _decimals, _times, _timestamps, _texts, _others, _nested, _pages)
