"""The footer of an ORC file: types, statistics, stripes (https://orc.apache.org/specification/ORCv1/).

A reader of our own: pyarrow shows no statistics of columns, and pyorc gives wrong ones for timestamps before 1970, and
not the bytes on disk. Nothing here trusts a length before it is compared with the bytes that are there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from iceberg_hms.errors import CorruptFile, StorageError, UnsupportedFormat

MAGIC: Final = b"ORC"
#: What is read first; the footers of most files fit.
_TAIL_BYTES: Final = 16 * 1024
#: Compressed or not; that of 10,000 columns has about one megabyte.
_MAX_FOOTER_BYTES: Final = 16 << 20
_MAX_TYPES: Final = 100_000
_MAX_STRIPES: Final = 100_000
_MAX_ATTRIBUTES: Final = 100
_COMPRESSIONS: Final = ("none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli")
_CHUNK_HEADER: Final = 3
_VARINT_BYTES: Final = 10
#: The header of an LZ4 frame with blocks of up to 4 MiB, and its end. ORC has the blocks without a frame.
_LZ4_FRAME: Final = bytes.fromhex("04224d18607073")
_LZ4_END: Final = bytes(4)

#: Kinds of types, by their numbers in the footer.
KINDS: Final = (
    *("boolean", "byte", "short", "int", "long", "float", "double", "string", "binary", "timestamp"),
    *("list", "map", "struct", "union", "decimal", "date", "varchar", "char", "timestamp_instant"),
)
_PROLEPTIC_GREGORIAN: Final = 2

#: A message's fields by number, each with its values in order: int for numbers, bytes for all else.
Message = Mapping[int, list[Any]]


@dataclass(frozen=True, slots=True)
class OrcType:
    """A type of the file; its position in the footer is its column's. subtypes: positions. attributes: such as
    `iceberg.id`."""

    kind: str
    subtypes: tuple[int, ...]
    names: tuple[str, ...]
    precision: int = 0
    scale: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OrcFooter:
    """size: of the file, in bytes. statistics: of the columns, by position, as messages; empty if the writer wrote
    none. stripe_offsets: where stripes start. proleptic: whether dates before October 15, 1582 surely count as
    Iceberg's do."""

    size: int
    rows: int
    types: tuple[OrcType, ...]
    statistics: tuple[Message, ...]
    stripe_offsets: tuple[int, ...]
    proleptic: bool


def read_orc_footer(location: str, open_input: Callable[[str], Any]) -> OrcFooter:
    """Read the footer, mostly in one request. open_input: opens a location as a pyarrow file; raises MissingFile,
    StorageError. Raises CorruptFile, UnsupportedFormat (encryption, LZO)."""
    try:
        with open_input(location) as file:
            return _Tail(location, file).footer()
    except OSError as error:
        raise StorageError(f"Cannot read the footer of {location}: {error}") from error


class _Tail:
    """The end of a file: the footer, the postscript, and a byte with the postscript's length."""

    def __init__(self, location: str, file: Any) -> None:
        self._location = location
        self._file = file
        self._size = int(file.size())

    def footer(self) -> OrcFooter:
        if self._size < len(MAGIC) + 1:
            raise self._corrupt(f"it has {self._size} bytes and is no ORC file")
        tail = self._last(min(self._size, _TAIL_BYTES))
        end = len(tail) - 1 - tail[-1]
        if end < 0:
            raise self._corrupt("it does not end with an ORC postscript")
        postscript = self._message(tail[end:-1], "postscript")
        self._check_magic(postscript)
        length = _number(postscript, 1)
        if length > self._size - tail[-1] - 1 - len(MAGIC):
            raise self._corrupt("its footer is longer than the file")
        if length > _MAX_FOOTER_BYTES:
            raise self._corrupt(f"its footer has {length} bytes, more than {_MAX_FOOTER_BYTES}")
        if length > end:
            tail = self._last(length + 1 + tail[-1])
            end = len(tail) - 1 - tail[-1]
        raw = self._inflated(tail[end - length : end], _number(postscript, 2))
        message = self._message(raw, "footer")
        if message.get(10):
            raise UnsupportedFormat(f"{self._location} has encrypted columns", next_step="write it without encryption")
        try:
            return self._parsed(message)
        except (ValueError, struct.error, UnicodeDecodeError) as error:
            raise self._corrupt(f"its footer cannot be read: {error}") from error

    def _last(self, count: int) -> bytes:
        self._file.seek(self._size - count)
        data = bytes(self._file.read(count))
        if len(data) != count:
            raise self._corrupt(f"only {len(data)} of its last {count} bytes could be read")
        return data

    def _check_magic(self, postscript: Message) -> None:
        magic = postscript.get(8000, [b""])[-1]
        if magic != MAGIC:
            # Hive's first files have it at the beginning alone.
            self._file.seek(0)
            if magic or bytes(self._file.read(len(MAGIC))) != MAGIC:
                raise self._corrupt("it does not end with an ORC postscript")

    def _message(self, data: bytes, what: str) -> Message:
        try:
            return parse_message(data)
        except ValueError as error:
            raise self._corrupt(f"its {what} cannot be read: {error}") from error

    def _inflated(self, data: bytes, compression: int) -> bytes:
        if compression >= len(_COMPRESSIONS):
            what = f"{self._location} is compressed in a way that is not known ({compression})"
            raise UnsupportedFormat(what, next_step="write it with zstd or zlib")
        name = _COMPRESSIONS[compression]
        if name == "none":
            return data
        if name == "lzo":
            raise UnsupportedFormat(f"{self._location} is compressed with LZO", next_step="write it with zstd or zlib")
        try:
            return _inflate(data, name)
        except (ValueError, OSError, zlib.error, pa.ArrowException) as error:
            raise self._corrupt(f"its footer cannot be decompressed: {error}") from error

    def _parsed(self, message: Message) -> OrcFooter:
        found, stripes, statistics = (_parts(message, at) for at in (4, 3, 7))
        if len(found) > _MAX_TYPES or len(statistics) > _MAX_TYPES or len(stripes) > _MAX_STRIPES:
            raise ValueError(f"{len(found)} types and {len(stripes)} stripes are too many")
        if statistics and len(statistics) != len(found):
            raise ValueError(f"statistics of {len(statistics)} columns of {len(found)}")
        types = tuple(_type(parse_message(each)) for each in found)
        _check_tree(types)
        offsets = [_number(parse_message(each), 1) for each in stripes]
        rows = _number(message, 6)
        if rows >= 1 << 63:
            raise ValueError(f"{rows} rows")
        return OrcFooter(
            size=self._size,
            rows=rows,
            types=types,
            statistics=tuple(parse_message(each) for each in statistics),
            stripe_offsets=tuple(offsets),
            proleptic=_number(message, 11) == _PROLEPTIC_GREGORIAN,
        )

    def _corrupt(self, why: str) -> CorruptFile:
        return CorruptFile(self._location, why)


def _type(message: Message) -> OrcType:
    number = _number(message, 1)
    attributes = _parts(message, 7)
    if len(attributes) > _MAX_ATTRIBUTES:
        raise ValueError(f"a type has {len(attributes)} attributes")
    pairs = [parse_message(each) for each in attributes]
    return OrcType(
        kind=KINDS[number] if number < len(KINDS) else f"type {number}",
        subtypes=tuple(numbers_of(message, 2)),
        names=tuple(each.decode("utf-8") for each in _parts(message, 3)),
        precision=_number(message, 5),
        scale=_number(message, 6),
        attributes={text_of(each, 1) or "": text_of(each, 2) or "" for each in pairs},
    )


def _check_tree(types: tuple[OrcType, ...]) -> None:
    """Raises ValueError unless the types are a tree whose root is a struct, in the order of a walk from the root."""
    if not types or types[0].kind != "struct":
        raise ValueError("the root of its types is no struct")
    parents = [0] * len(types)
    for at, each in enumerate(types):
        if each.kind == "struct" and len(each.names) != len(each.subtypes):
            raise ValueError(f"a struct has {len(each.subtypes)} fields and {len(each.names)} names")
        wanted = {"list": 1, "map": 2}.get(each.kind)
        if wanted is not None and len(each.subtypes) != wanted:
            raise ValueError(f"a {each.kind} has {len(each.subtypes)} types")
        for child in each.subtypes:
            if not at < child < len(types) or parents[child]:
                raise ValueError(f"type {child} is out of place")
            parents[child] += 1
    if not all(parents[1:]):
        raise ValueError("a type belongs to no other")


def parse_message(data: bytes) -> Message:
    """Split a protobuf message into its fields (https://protobuf.dev/programming-guides/encoding). Raises
    ValueError."""
    found: dict[int, list[Any]] = {}
    value: int | bytes
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
            case 1:
                value, at = _taken(data, at, 8)
            case 2:
                length, at = _varint(data, at)
                value, at = _taken(data, at, length)
            case 5:
                value, at = _taken(data, at, 4)
            case other:
                raise ValueError(f"wire type {other}")
        found.setdefault(key >> 3, []).append(value)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in data[at : at + _VARINT_BYTES]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise ValueError("a number does not end")


def _taken(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    if length > len(data) - at:
        raise ValueError(f"{length} bytes are wanted and {len(data) - at} are left")
    return data[at : at + length], at + length


def number_of(message: Message, at: int) -> int | None:
    """An unsigned number, or None. Raises ValueError if the field is of another type."""
    value = message[at][-1] if message.get(at) else None
    if value is not None and not isinstance(value, int):
        raise ValueError(f"field {at} is no number")
    return value


def int32_of(message: Message, at: int) -> int | None:
    """A number of 32 bits in two's complement, or None."""
    value = number_of(message, at)
    return None if value is None else (value + (1 << 31)) % (1 << 32) - (1 << 31)


def signed_of(message: Message, at: int) -> int | None:
    """A zigzag number, or None."""
    value = number_of(message, at)
    return None if value is None else value >> 1 ^ -(value & 1)


def bytes_of(message: Message, at: int) -> bytes | None:
    """Bytes, or None. Raises ValueError if the field is of another type."""
    value = message[at][-1] if message.get(at) else None
    if value is not None and not isinstance(value, bytes):
        raise ValueError(f"field {at} is a number")
    return value


def text_of(message: Message, at: int) -> str | None:
    """Text, or None. Raises ValueError if it is not UTF-8."""
    value = bytes_of(message, at)
    return None if value is None else value.decode("utf-8")


def double_of(message: Message, at: int) -> float | None:
    """A float of eight bytes, or None."""
    value = bytes_of(message, at)
    return None if value is None else float(struct.unpack("<d", value)[0])


def part_of(message: Message, at: int) -> Message | None:
    """A message within a message, or None."""
    value = bytes_of(message, at)
    return None if value is None else parse_message(value)


def _number(message: Message, at: int) -> int:
    return number_of(message, at) or 0


def numbers_of(message: Message, at: int) -> Iterator[int]:
    """Repeated unsigned numbers, packed or not."""
    for value in message.get(at, []):
        if isinstance(value, int):
            yield value
            continue
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            yield number


def _parts(message: Message, at: int) -> list[bytes]:
    """Repeated texts or messages."""
    values = message.get(at, [])
    if not all(isinstance(each, bytes) for each in values):
        raise ValueError(f"field {at} is a number")
    return values


def _inflate(data: bytes, codec: str) -> bytes:
    """Decompress ORC's chunks. Raises ValueError and the errors of the codecs."""
    parts: list[bytes] = []
    at, left = 0, _MAX_FOOTER_BYTES
    while at < len(data):
        header, at = _taken(data, at, _CHUNK_HEADER)
        described = int.from_bytes(header, "little")
        chunk, at = _taken(data, at, described >> 1)
        if not chunk:
            raise ValueError("a chunk is empty")
        raw = chunk if described & 1 else _chunk(chunk, codec, left)
        left -= len(raw)
        if left < 0:
            raise ValueError(f"it inflates to more than {_MAX_FOOTER_BYTES} bytes")
        parts.append(raw)
    return b"".join(parts)


def _chunk(chunk: bytes, codec: str, left: int) -> bytes:
    """One chunk, of which at most `left` + 1 bytes are made."""
    match codec:
        case "zlib":
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(chunk, left + 1)
        case "snappy":
            size, _ = _varint(chunk, 0)
            if size > left:
                raise ValueError(f"a chunk inflates to {size} bytes")
            return bytes(pa.decompress(chunk, size, codec="snappy", asbytes=True))
        case "lz4":
            chunk = _LZ4_FRAME + struct.pack("<I", len(chunk)) + chunk + _LZ4_END
    with pa.CompressedInputStream(pa.BufferReader(chunk), codec) as stream:
        return bytes(stream.read(left + 1))
