"""The Avro object container file: header, blocks, codecs. Records are coded by fastavro.

The container is handled here, not by fastavro, for three reasons: a file that was cut off is always noticed, whatever
the codec; a record is decoded with a schema whose fields are named by field id (`avro_schemas.relabel`); and a writer
knows its size while it grows, which is what rolls manifests. The format: https://avro.apache.org/docs/1.12.0/specification/
"""

from __future__ import annotations

import bz2
import hashlib
import io
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import fastavro
import orjson
from fastavro.schema import SchemaParseException, UnknownType

from iceberg_hms.errors import CorruptFile, InvalidInput

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
#: What a 64-bit number takes at most.
_LONG_BYTES: Final = 10
#: Records are flushed to a block at this many bytes before compression; Java's default.
BLOCK_BYTES: Final = 64_000
#: A block that would grow beyond this is refused, so that a damaged or hostile file cannot use up the memory.
MAX_BLOCK_BYTES: Final = 1 << 30
_DEFLATE_LEVEL: Final = 6
#: Up to so many bytes are stored in a deflate block as they are: compressing them takes longer than all else that is
#: done to write a small file, and saves little.
_STORED_MAX: Final = 1_000
# What fastavro, zlib, bz2, lzma and pyarrow raise on bytes that are not what the schema or the codec says.
_DECODE_ERRORS: Final = (
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    MemoryError,
    OSError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    SchemaParseException,
    UnknownType,
)


#: How many records a block has, and their bytes, compressed.
Block = tuple[int, bytes]


@dataclass(frozen=True)
class Container:
    """An Avro file whose frame was checked: header read, every block complete, every sync marker in place.

    metadata: the key-value metadata without `avro.*` keys. schema: the writer's schema as JSON.
    schema_text: the same as it stands in the file. record_count: what the blocks say. Blocks are decompressed and
    decoded by `records`.
    """

    location: str
    metadata: Mapping[str, str]
    schema: Any
    codec: str
    blocks: tuple[Block, ...]
    schema_text: bytes = b""

    @property
    def record_count(self) -> int:
        return sum(count for count, _ in self.blocks)

    def records(self, schema: Any = None, wanted: Any = None) -> Iterator[dict[str, Any]]:
        """Decode, one after the other, with the writer's schema, or with one of the same layout and other names.
        wanted: a schema with some of its fields, if the others need not be decoded. Both may be parsed already.
        Raises CorruptFile."""
        try:
            parsed = fastavro.parse_schema(self.schema if schema is None else schema)
            part = None if wanted is None else fastavro.parse_schema(wanted)
        except _DECODE_ERRORS as error:
            raise CorruptFile(self.location, f"its Avro schema cannot be used: {error!r}") from error
        for number, (count, block) in enumerate(self.blocks, 1):
            yield from self._decode_block(parsed, part, number, count, block)

    def _decode_block(
        self, schema: Any, wanted: Any, number: int, count: int, block: bytes
    ) -> Iterator[dict[str, Any]]:
        try:
            raw = _decompress(self.codec, block)
            if count > len(raw):
                raise ValueError(f"{count} records in {len(raw)} bytes")
            source = io.BytesIO(raw)
            for _ in range(count):
                yield fastavro.schemaless_reader(source, schema, wanted)
            if source.tell() != len(raw):
                raise ValueError(f"{len(raw) - source.tell()} bytes are left after {count} records")
        except _DECODE_ERRORS as error:
            raise CorruptFile(self.location, f"block {number} cannot be decoded: {error!r}") from error


def decode(data: bytes, location: str) -> Container:
    """Read a container file's header and check its frame. `location` is for messages.
    Raises CorruptFile for anything that is not a complete Avro file."""
    reader = _Reader(data, location)
    if reader.take(len(_MAGIC), "header") != _MAGIC:
        raise CorruptFile(location, "it is not an Avro file")
    header = reader.header()
    sync = reader.take(_SYNC_BYTES, "header")
    try:
        schema = _schema(header["avro.schema"])
        metadata = {key: value.decode("utf-8") for key, value in header.items() if not key.startswith("avro.")}
        codec = header.get("avro.codec", b"null").decode("utf-8")
    except (KeyError, ValueError) as error:
        raise CorruptFile(location, f"its Avro header cannot be read: {error!r}") from error
    blocks: list[Block] = []
    while not reader.at_end:
        what = f"block {len(blocks) + 1}"
        count, size = reader.long(what), reader.long(what)
        if count < 0 or size < 0:
            raise CorruptFile(location, f"{what} has a negative size")
        blocks.append((count, reader.take(size, what)))
        if reader.take(_SYNC_BYTES, what) != sync:
            raise CorruptFile(location, f"the sync marker after {what} is wrong")
    return Container(location, metadata, schema, codec, tuple(blocks), header["avro.schema"])


@lru_cache(maxsize=64)
def _schema(text: bytes) -> Any:
    """A schema's JSON, never to be changed: a table's files have few."""
    return orjson.loads(text)


def parse(schema: Any) -> Any:
    """A parsed schema for `AvroFileWriter` and `encode_record`. Keep it: parsing costs more than coding a record."""
    return fastavro.parse_schema(schema)


def parsed_if_possible(schema: Any) -> Any:
    """The same for `Container.records`, which says what is wrong with one that cannot be parsed."""
    try:
        return fastavro.parse_schema(schema)
    except _DECODE_ERRORS:
        return schema


def encode_record(parsed: Any, record: Mapping[str, Any]) -> bytes:
    """One record. Raises InvalidInput for one that does not fit the schema."""
    target = io.BytesIO()
    _encode(target, parsed, record)
    return target.getvalue()


def _encode(target: io.BytesIO, parsed: Any, record: Mapping[str, Any]) -> None:
    try:
        fastavro.schemaless_writer(target, parsed, record)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, struct.error) as error:
        raise InvalidInput(f"A record cannot be written as Avro: {error}") from error


def compress(codec: str, raw: bytes) -> bytes:
    """What a block holds of the bytes of its records; codec is `deflate` or `null`."""
    if codec != "deflate":
        return raw
    # Raw deflate: the format leaves zlib's header and checksum out.
    if len(raw) <= _STORED_MAX:
        return struct.pack("<BHH", 1, len(raw), len(raw) ^ 0xFFFF) + raw
    compressor = zlib.compressobj(_DEFLATE_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(raw) + compressor.flush()


def join_blocks(codec: str, blocks: Sequence[Block]) -> Block:
    """One block of the records of several, in their order."""
    raw = b"".join(_decompress(codec, data) for _, data in blocks)
    return sum(count for count, _ in blocks), compress(codec, raw)


class AvroFileWriter:
    """Makes one container file in memory.

    schema: the Avro schema for the header, or its JSON. coding_schema: one of the same layout that names fields as
    records do; it may be parsed already.
    """

    def __init__(self, schema: Any, metadata: Mapping[str, str], *, coding_schema: Any = None, codec: str = "deflate"):
        if codec not in ("deflate", "null"):
            raise InvalidInput(f"Cannot write Avro with codec {codec}; use deflate or null")
        self._parsed = fastavro.parse_schema(schema if coding_schema is None else coding_schema)
        self._codec = codec
        text = schema if isinstance(schema, bytes) else orjson.dumps(schema)
        entries = {"avro.schema": text, "avro.codec": codec.encode()}
        entries |= {key: value.encode("utf-8") for key, value in metadata.items()}
        header = _MAGIC + _header(entries)
        # Any 16 bytes will do. Made from the header, the same content always gives the same file.
        self._sync = hashlib.blake2b(header, digest_size=_SYNC_BYTES).digest()
        self._done = [header, self._sync]
        self._done_bytes = len(header) + _SYNC_BYTES
        self._block = io.BytesIO()
        self._block_count = 0

    @property
    def size(self) -> int:
        """Bytes so far; what is not yet in a block counts uncompressed."""
        return self._done_bytes + self._block.tell()

    def add(self, record: Mapping[str, Any]) -> None:
        """Append a record. Raises InvalidInput for one that does not fit the schema; the file is as before then."""
        start = self._block.tell()
        try:
            _encode(self._block, self._parsed, record)
        except InvalidInput:
            self._block.seek(start)
            self._block.truncate()
            raise
        self._added()

    def add_block(self, block: Block) -> None:
        """Append a block of a file that was written with the same schema and codec."""
        self._flush()
        self._put(block)

    def finish(self) -> bytes:
        """The whole file."""
        self._flush()
        return b"".join(self._done)

    def _added(self) -> None:
        self._block_count += 1
        if self._block.tell() >= BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._block_count:
            return
        self._put((self._block_count, compress(self._codec, self._block.getvalue())))
        self._block = io.BytesIO()
        self._block_count = 0

    def _put(self, block: Block) -> None:
        count, data = block
        framed = _zigzag(count) + _zigzag(len(data)) + data + self._sync
        self._done.append(framed)
        self._done_bytes += len(framed)


class _Reader:
    """A position in a file's bytes; whatever goes beyond the end is a CorruptFile."""

    def __init__(self, data: bytes, location: str) -> None:
        self._data = data
        self._location = location
        self._position = 0

    @property
    def at_end(self) -> bool:
        return self._position == len(self._data)

    def take(self, size: int, what: str) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise CorruptFile(self._location, f"it ends inside its {what}, at byte {len(self._data)}; it was cut off")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def long(self, what: str) -> int:
        if not self.at_end and (first := self._data[self._position]) < 0x80:
            # Nearly all are that small.
            self._position += 1
            return first >> 1 ^ -(first & 1)
        value = shift = 0
        for byte in self._data[self._position : self._position + _LONG_BYTES]:
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
            shift += 7
        if self.at_end:
            self.take(1, what)
        raise CorruptFile(self._location, f"a number in its {what} is too long")

    def header(self) -> dict[str, bytes]:
        entries: dict[str, bytes] = {}
        while count := self.long("header"):
            if count < 0:
                # A negative count is followed by the size in bytes, for readers that skip.
                self.long("header")
            for _ in range(abs(count)):
                key = self.take(self.long("header"), "header").decode("utf-8", "replace")
                entries[key] = self.take(self.long("header"), "header")
        return entries


def _header(entries: Mapping[str, bytes]) -> bytes:
    parts = [_zigzag(len(entries))]
    for key, value in entries.items():
        name = key.encode("utf-8")
        parts += [_zigzag(len(name)), name, _zigzag(len(value)), value]
    return b"".join(parts) + _zigzag(0)


@lru_cache(maxsize=4_096)
def _zigzag(value: int) -> bytes:
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _inflate(block: bytes) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    raw = inflater.decompress(block, MAX_BLOCK_BYTES)
    # fastavro leaves three bytes of zlib's checksum behind the stream, so what follows it is no sign of damage.
    if not inflater.eof:
        raise ValueError("the deflate stream is not complete, or too large")
    return raw


def _snappy(block: bytes) -> bytes:
    import pyarrow  # not needed for the usual codecs

    body, checksum = block[:-4], block[-4:]
    size = shift = 0
    for byte in body:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > MAX_BLOCK_BYTES:
        raise ValueError("the block is too large")
    raw = bytes(pyarrow.decompress(body, size, codec="snappy", asbytes=True))
    if zlib.crc32(raw) != int.from_bytes(checksum, "big"):
        raise ValueError("the checksum is wrong")
    return raw


def _zstandard(block: bytes) -> bytes:
    import pyarrow  # not needed for the usual codecs

    with pyarrow.CompressedInputStream(pyarrow.BufferReader(block), "zstd") as stream:
        raw = bytes(stream.read(MAX_BLOCK_BYTES + 1))
    if len(raw) > MAX_BLOCK_BYTES:
        raise ValueError("the block is too large")
    return raw


def _bounded(decompressor: Any, block: bytes) -> bytes:
    raw = bytes(decompressor.decompress(block, MAX_BLOCK_BYTES))
    if not decompressor.eof:
        raise ValueError("the compressed stream is not complete, or too large")
    return raw


_CODECS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": _inflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": lambda block: _bounded(bz2.BZ2Decompressor(), block),
    "xz": lambda block: _bounded(lzma.LZMADecompressor(), block),
}


def _decompress(codec: str, block: bytes) -> bytes:
    if codec not in _CODECS:
        raise ValueError(f"unknown codec {codec!r}")
    return _CODECS[codec](block)
