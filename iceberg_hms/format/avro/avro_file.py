"""The Avro object container file: header, blocks, codecs. Records are coded by fastavro.

This module, not fastavro, handles the container, for three reasons: it detects a truncated file, whatever the codec; it
decodes records with a schema whose fields are named by field id (`manifest_schemas.relabel`); and a writer knows its
size as it grows, so that manifests can be rolled. The format: https://avro.apache.org/docs/1.12.0/specification/
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
from operator import itemgetter
from typing import Any, Final

import fastavro
import orjson
from fastavro.schema import SchemaParseException, UnknownType

from iceberg_hms.errors import CorruptFile, InvalidInput
from iceberg_hms.format.avro import inflate
from iceberg_hms.format.avro.schema_cost import check_cost
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, FEW_RECORDS, RECORDS_PER_BYTE, FileBounds, Limit
from iceberg_hms.work import stop_if_caller_left

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
#: What the keys begin with that are not the writer's own.
_OF_AVRO: Final = b"avro."
#: The longest encoding of a 64-bit number.
_LONG_BYTES: Final = 10
#: A block ends when its records have this many bytes before compression; Java's default.
BLOCK_BYTES: Final = 64_000
#: The longest schema: one of a thousand partition fields has a third of it. Those of 64 files are kept.
MAX_SCHEMA_BYTES: Final = 256 * 1024
_MAX_HEADER_ENTRIES: Final = 1_000
#: Writers that give each record a block of its own need more for each; the frame alone has 18.
_BYTES_PER_BLOCK: Final = 64
_FEW_BLOCKS: Final = 1_000
#: After so many records a reader looks whether its caller is still there.
_RECORDS_AT_A_TIME: Final = 1_024
#: The memory that xz may take for what it has seen; its highest level takes half of this.
_XZ_BYTES: Final = 128 << 20
#: What is written.
_CODEC: Final = b"deflate"
_DEFLATE_LEVEL: Final = 6
#: Blocks of up to this many bytes are stored uncompressed (as a stored deflate block): compressing them would take
#: longer than the rest of writing a small file, and save little.
_STORED_MAX: Final = 1_000
# Errors of fastavro, zlib, isal, bz2, lzma and pyarrow for bytes that do not match the schema or the codec.
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
    *inflate.ERRORS,
    lzma.LZMAError,
    SchemaParseException,
    UnknownType,
    RecursionError,
)


#: The number of records in a block, and their compressed bytes.
AvroBlock = tuple[int, bytes]


@dataclass(frozen=True)
class Container:
    """An Avro file with a valid frame: header read, every block complete, every sync marker in place.

    metadata: the key-value metadata without `avro.*` keys. schema: the writer's schema as JSON.
    schema_text: the same, as in the file. bounds: what may come out of it. size: of the file, in bytes.
    record_count: the sum of the blocks' counts. `records` decompresses and decodes the blocks.
    """

    location: str
    metadata: Mapping[str, str]
    schema: Any
    codec: str
    blocks: tuple[AvroBlock, ...]
    schema_text: bytes
    bounds: FileBounds
    size: int
    record_count: int

    def records(self, schema: Any = None, wanted: Any = None) -> Iterator[dict[str, Any]]:
        """Decode the records one by one, with the writer's schema, or with one of the same layout and other names.
        wanted: a schema with some of its fields, to skip the others. Both may be parsed already. Raises CorruptFile."""
        return map(itemgetter(0), self.encoded_records(schema, wanted, encoded=False))

    def encoded_records(
        self, schema: Any = None, wanted: Any = None, *, encoded: bool = True
    ) -> Iterator[tuple[dict[str, Any], bytes]]:
        """As `records`, each with its bytes. encoded: False leaves them out."""
        try:
            parsed = fastavro.parse_schema(self.schema if schema is None else schema)
            projection = None if wanted is None else fastavro.parse_schema(wanted)
        except _DECODE_ERRORS as error:
            raise CorruptFile(self.location, f"its Avro schema cannot be used: {error!r}") from error
        for number, (count, raw) in enumerate(self.raw_blocks(), 1):
            try:
                yield from self._decode_block(raw, count, parsed, projection, encoded=encoded)
            except _DECODE_ERRORS as error:
                raise CorruptFile(self.location, f"block {number} cannot be decoded: {error!r}") from error

    def raw_blocks(self) -> Iterator[AvroBlock]:
        """The blocks, decompressed. Raises CorruptFile."""
        left = self.bounds.inflated_bytes(self.size)
        for number, (count, block) in enumerate(self.blocks, 1):
            try:
                raw = self._inflated(number, block, left)
                size = len(raw)
                left -= size
                if count > size:
                    raise ValueError(f"{count} records in {size} bytes")
            except _DECODE_ERRORS as error:
                raise CorruptFile(self.location, f"block {number} cannot be decoded: {error!r}") from error
            yield count, raw

    def _inflated(self, number: int, block: bytes, left: int) -> bytes:
        """left: how many bytes the file may inflate to."""
        largest, ratio = self.bounds.manifest_bytes, self.bounds.inflate_ratio
        try:
            return decompress(self.codec, block, min(left, largest.value))
        except _TooLargeError:
            if left < largest.value:
                what = f"with block {number} it inflates to more than {ratio.value} times its size"
                raise ratio.exceeded(self.location, what) from None
            raise largest.exceeded(self.location, f"block {number} has more than {largest.value} bytes") from None

    def _decode_block(
        self, raw: bytes, count: int, schema: Any, wanted: Any, *, encoded: bool
    ) -> Iterator[tuple[dict[str, Any], bytes]]:
        """The records of a block, with their bytes if `encoded`. They are read from a window of one byte more than the
        largest record has, so that no larger one is decoded."""
        limit = self.bounds.record_bytes
        width, size = limit.value + 1, len(raw)
        # Of the window in the block, and of the next record in the window.
        start = at = 0
        window = raw[:width]
        length, source = len(window), io.BytesIO(window)
        for number in range(count):
            if not number % _RECORDS_AT_A_TIME:
                stop_if_caller_left()
            while True:
                is_last = start + length == size
                try:
                    record = fastavro.schemaless_reader(source, schema, wanted)
                    end = source.tell()
                    if end < length or (is_last and end - at < width):
                        break
                except _DECODE_ERRORS:
                    if is_last:
                        raise
                # It may go on behind the window.
                if not at:
                    raise limit.exceeded(self.location, f"an entry has more than {limit.value} bytes")
                start, at = start + at, 0
                window = raw[start : start + width]
                length, source = len(window), io.BytesIO(window)
            yield record, window[at:end] if encoded else b""
            at = end
        if start + at != size:
            raise ValueError(f"{size - start - at} bytes are left after {count} records")


def decode(data: bytes, location: str, bounds: FileBounds = DEFAULT_BOUNDS) -> Container:
    """Read a container file's header and check its frame. `location` is for messages.
    Raises CorruptFile unless it is a complete Avro file with a schema and blocks that a reader can afford."""
    reader = _Reader(data, location)
    if reader.take("header", len(_MAGIC)) != _MAGIC:
        raise CorruptFile(location, "it is not an Avro file")
    header = reader.header()
    sync = reader.take("header", _SYNC_BYTES)
    try:
        text = header[b"avro.schema"]
        if len(text) > MAX_SCHEMA_BYTES:
            raise CorruptFile(location, f"its Avro schema has more than {MAX_SCHEMA_BYTES} bytes")
        schema = _schema(text)
        metadata = {
            key.decode("utf-8", "replace"): value.decode("utf-8")
            for key, value in header.items()
            if key[: len(_OF_AVRO)] != _OF_AVRO
        }
        codec = header.get(b"avro.codec", b"null").decode("utf-8")
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFile(location, f"its Avro header cannot be read: {error!r}") from error
    blocks: list[AvroBlock] = []
    number = record_count = 0
    while reader.position < reader.end:
        number += 1
        what = f"block {number}"
        count, size = reader.long(what), reader.long(what)
        if count < 0 or size < 0:
            raise CorruptFile(location, f"{what} has a negative size")
        blocks.append((count, reader.take(what, size)))
        if number > _FEW_BLOCKS and number * _BYTES_PER_BLOCK > reader.end:
            raise CorruptFile(location, f"it has more than {number - 1} blocks in {reader.end} bytes")
        if reader.take(what, _SYNC_BYTES) != sync:
            raise CorruptFile(location, f"the sync marker after {what} is wrong")
        record_count += count
    return Container(location, metadata, schema, codec, tuple(blocks), text, bounds, reader.end, record_count)


@lru_cache(maxsize=64)
def _schema(text: bytes) -> Any:
    """A schema's JSON; never change it. Cached, since a table's files have few schemas. Raises as `check_cost`."""
    schema = orjson.loads(text)
    check_cost(schema)
    return schema


def parse(schema: Any) -> Any:
    """A parsed schema for `AvroFileWriter` and `encode_record`. Keep it: parsing costs more than coding a record."""
    return fastavro.parse_schema(schema)


def check_count(container: Container, limit: Limit) -> None:
    """Raises CorruptFile for more records than the limit, or than a file of this size has."""
    count = container.record_count
    if count > limit.value:
        raise limit.exceeded(container.location, f"it has {count} records, more than {limit.value}")
    if count > FEW_RECORDS:
        check_proportion(container, count)


def check_proportion(container: Container, values: int) -> None:
    """Raises CorruptFile for more values than a file of this size has."""
    if values > RECORDS_PER_BYTE * container.size:
        raise CorruptFile(container.location, f"it has {values} records in {container.size} bytes")


def parsed_if_possible(schema: Any) -> Any:
    """A schema, parsed if it can be; for `Container.records`, which reports what is wrong with any other."""
    try:
        return fastavro.parse_schema(schema)
    except _DECODE_ERRORS:
        return schema


def encode_record(parsed: Any, record: Mapping[str, Any]) -> bytes:
    """Encode one record. Raises InvalidInput if it does not fit the schema."""
    target = io.BytesIO()
    _encode(target, parsed, record)
    return target.getvalue()


def check_record_size(size: int, limit: Limit) -> None:
    """Raises InvalidInput for a record of so many bytes that readers refuse."""
    if size > limit.value:
        raise limit.refused(
            f"an entry would have {size} bytes, more than {limit.value}",
            "keep fewer or shorter bounds of columns (`write.metadata.metrics.*`) and shorter partition values",
        )


def _encode(target: io.BytesIO, parsed: Any, record: Mapping[str, Any]) -> None:
    try:
        fastavro.schemaless_writer(target, parsed, record)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, struct.error) as error:
        raise InvalidInput(f"A record cannot be written as Avro: {error}") from error


def compress(raw: bytes, bounds: FileBounds = DEFAULT_BOUNDS) -> bytes:
    """The bytes of a block's records by the codec that is written, but compressed no further than a reader with these
    bounds inflates them."""
    # Avro uses raw deflate, without zlib's header and checksum.
    if len(raw) <= _STORED_MAX:
        return struct.pack("<BHH", 1, len(raw), len(raw) ^ 0xFFFF) + raw
    deflated = _deflated(raw, _DEFLATE_LEVEL)
    return deflated if len(raw) <= bounds.inflate_ratio.value * len(deflated) else _deflated(raw, 0)


def _deflated(raw: bytes, level: int) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(raw) + compressor.flush()


def join_blocks(blocks: Sequence[AvroBlock], bounds: FileBounds) -> AvroBlock:
    """Merge blocks that we wrote into one, with their records in the same order."""
    raw = b"".join([zlib.decompress(data, -zlib.MAX_WBITS) for _, data in blocks])
    return sum([count for count, _ in blocks]), compress(raw, bounds)


def plain_file(schema: Any, count: int, records: Sequence[bytes]) -> list[bytes]:
    """A container file of one block without a codec, in parts: so many encoded records, in parts as well."""
    header = _header({"avro.schema": orjson.dumps(schema), "avro.codec": b"null"})
    sync = hashlib.blake2b(header, digest_size=_SYNC_BYTES).digest()
    size = sum(map(len, records))
    return [header, sync, encode_long(count), encode_long(size), *records, sync]


class AvroFileWriter:
    """Makes one container file in memory.

    schema: the Avro schema for the header, or its JSON. coding_schema: one of the same layout with the field names of
    the records; it may be parsed already. bounds: those of its readers.
    """

    def __init__(
        self,
        schema: Any,
        metadata: Mapping[str, str],
        *,
        coding_schema: Any = None,
        bounds: FileBounds = DEFAULT_BOUNDS,
    ):
        self._parsed = fastavro.parse_schema(schema if coding_schema is None else coding_schema)
        self._bounds = bounds
        text = schema if isinstance(schema, bytes) else orjson.dumps(schema)
        entries = {"avro.schema": text, "avro.codec": _CODEC}
        for key, value in metadata.items():
            entries[key] = value.encode("utf-8")
        header = _header(entries)
        # Any 16 bytes will do. Derived from the header, so that equal content gives equal files.
        self._sync = hashlib.blake2b(header, digest_size=_SYNC_BYTES).digest()
        self._finished = [header, self._sync]
        self._finished_bytes = len(header) + _SYNC_BYTES
        self._block = io.BytesIO()
        self._block_count = 0

    @property
    def size(self) -> int:
        """Bytes so far; records that are not yet in a block count uncompressed."""
        return self._finished_bytes + self._block.tell()

    def add(self, record: Mapping[str, Any]) -> None:
        """Append a record. Raises InvalidInput, with the file unchanged, if it does not fit the schema, or is larger
        than readers allow."""
        start = self._block.tell()
        try:
            _encode(self._block, self._parsed, record)
            check_record_size(self._block.tell() - start, self._bounds.record_bytes)
        except InvalidInput:
            self._block.seek(start)
            self._block.truncate()
            raise
        self._added()

    def add_encoded(self, record: bytes) -> None:
        """Append a record that is encoded already, by the schema of this file. Raises InvalidInput as `add`."""
        check_record_size(len(record), self._bounds.record_bytes)
        self._block.write(record)
        self._added()

    def add_blocks(self, blocks: Sequence[AvroBlock]) -> None:
        """Append blocks of other files with the same schema and codec."""
        self._flush()
        self._put(blocks)

    def finish(self) -> bytes:
        """The whole file. Raises InvalidInput for one that is larger than readers allow."""
        self._flush()
        largest = self._bounds.manifest_bytes
        if self._finished_bytes > largest.value:
            raise largest.refused(
                f"A manifest or a manifest list would have {self._finished_bytes} bytes, more than {largest.value}",
                "commit fewer files at once, or call rewrite_manifests() first",
            )
        return b"".join(self._finished)

    def _added(self) -> None:
        self._block_count += 1
        if self._block.tell() >= BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._block_count:
            return
        self._put([(self._block_count, compress(self._block.getvalue(), self._bounds))])
        self._block = io.BytesIO()
        self._block_count = 0

    def _put(self, blocks: Sequence[AvroBlock]) -> None:
        framed: list[bytes] = []
        for count, data in blocks:
            framed += (encode_long(count), encode_long(len(data)), data, self._sync)
        self._finished += framed
        self._finished_bytes += sum(map(len, framed))


class _Reader:
    """Reads a file's bytes in order. Raises CorruptFile at the end of the file.

    position: of the next byte. end: of the last one."""

    def __init__(self, data: bytes, location: str) -> None:
        self.position = 0
        self.end = len(data)
        self._data = data
        self._location = location

    def take(self, what: str, size: int | None = None) -> bytes:
        """So many bytes; None: as many as a number in front of them says."""
        start = self.position
        if size is None and start < self.end and (first := self._data[start]) < 0x80:
            # Nearly all of these numbers fit one byte, and a header has twenty.
            start, size = start + 1, first >> 1 ^ -(first & 1)
        elif size is None:
            size, start = self.long(what), self.position
        end = start + size
        if size < 0 or end > self.end:
            raise self._cut_off(what)
        self.position = end
        return self._data[start:end]

    def long(self, what: str) -> int:
        value = shift = 0
        for byte in self._data[self.position : self.position + _LONG_BYTES]:
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
            shift += 7
        if self.position == self.end:
            raise self._cut_off(what)
        raise CorruptFile(self._location, f"a number in its {what} is too long")

    def _cut_off(self, what: str) -> CorruptFile:
        return CorruptFile(self._location, f"it ends inside its {what}, at byte {self.end}; it was cut off")

    def header(self) -> dict[bytes, bytes]:
        entries: dict[bytes, bytes] = {}
        while count := self.long("header"):
            if count < 0:
                # After a negative count comes the size in bytes, for readers that skip the block.
                self.long("header")
                count = -count
            if len(entries) + count > _MAX_HEADER_ENTRIES:
                raise CorruptFile(self._location, f"its header has more than {_MAX_HEADER_ENTRIES} entries")
            for _ in range(count):
                key = self.take("header")
                entries[key] = self.take("header")
        return entries


def _header(entries: Mapping[str, bytes]) -> bytes:
    parts = [_MAGIC, encode_long(len(entries))]
    for key, value in entries.items():
        parts += (_header_key(key), encode_long(len(value)), value)
    parts.append(encode_long(0))
    return b"".join(parts)


@lru_cache(maxsize=64)
def _header_key(key: str) -> bytes:
    name = key.encode("utf-8")
    return encode_long(len(name)) + name


@lru_cache(maxsize=4_096)
def encode_long(value: int) -> bytes:
    """A number as Avro encodes an int or a long."""
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class _TooLargeError(Exception):
    """A block inflates to more than it may."""


def _snappy(block: bytes, limit: int) -> bytes:
    import pyarrow  # only rare codecs need it

    body, checksum = block[:-4], block[-4:]
    size = shift = 0
    for byte in body[:_LONG_BYTES]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit:
        raise _TooLargeError
    raw = bytes(pyarrow.decompress(body, size, codec="snappy", asbytes=True))
    if zlib.crc32(raw) != int.from_bytes(checksum, "big"):
        raise ValueError("the checksum is wrong")
    return raw


def _zstandard(block: bytes, limit: int) -> bytes:
    import pyarrow  # only rare codecs need it

    with pyarrow.CompressedInputStream(pyarrow.BufferReader(block), "zstd") as stream:
        return bytes(stream.read(limit + 1))


def _bounded(decompressor: Any, block: bytes, limit: int) -> bytes:
    raw = bytes(decompressor.decompress(block, limit + 1))
    if len(raw) <= limit and not decompressor.eof:
        raise ValueError("the compressed stream is not complete")
    return raw


#: They give one byte more than the limit, if there are more.
_CODECS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    "null": lambda block, _: bytes(block),
    # fastavro leaves three bytes of zlib's checksum after the stream, so extra bytes are no sign of damage.
    "deflate": lambda block, limit: _bounded(inflate.decompressor(), block, limit),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": lambda block, limit: _bounded(bz2.BZ2Decompressor(), block, limit),
    "xz": lambda block, limit: _bounded(lzma.LZMADecompressor(memlimit=_XZ_BYTES), block, limit),
}


def decompress(codec: str, block: bytes, limit: int) -> bytes:
    """The bytes of a block's records. Raises _TooLargeError for more than `limit`, and _DECODE_ERRORS."""
    if codec not in _CODECS:
        raise ValueError(f"unknown codec {codec!r}")
    raw = _CODECS[codec](block, limit)
    if len(raw) > limit:
        raise _TooLargeError
    return raw
