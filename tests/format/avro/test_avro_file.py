"""The Avro container: other readers read our files, we read theirs, and no damaged file is read as a shorter one."""

from __future__ import annotations

import contextlib
import io
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.errors import CorruptFile, InvalidInput
from iceberg_hms.format.avro import avro_file
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "a", "type": "long", "field-id": 1},
        {"name": "b", "type": ["null", "string"], "default": None, "field-id": 2},
    ],
}
RECORDS = [{"a": at, "b": None if at % 3 else f"text {at}"} for at in range(8_000)]
SYNC = bytes(range(16))


def written(records: list[dict[str, Any]]) -> bytes:
    writer = avro_file.AvroFileWriter(SCHEMA, {"key": "välue"})
    for record in records:
        writer.add(record)
    return writer.finish()


def avro_long(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


def foreign(codec: str, block: bytes, count: int) -> bytes:
    """A file with one block, as another writer would compress it."""
    empty = io.BytesIO()
    fastavro.writer(empty, SCHEMA, [], sync_marker=SYNC)
    header = empty.getvalue().replace(b"\x08null", avro_long(len(codec)) + codec.encode())
    return header + avro_long(count) + avro_long(len(block)) + block + SYNC


def raw(count: int) -> bytes:
    out = io.BytesIO()
    for record in RECORDS[:count]:
        fastavro.schemaless_writer(out, SCHEMA, record)
    return out.getvalue()


@pytest.mark.parametrize("count", [0, 1, 8_000])
def test_another_reader_reads_what_is_written(count: int) -> None:
    reader = fastavro.reader(io.BytesIO(written(RECORDS[:count])))
    assert list(reader) == RECORDS[:count]
    assert reader.metadata["key"] == "välue"
    assert reader.writer_schema["fields"][0]["field-id"] == 1


@pytest.mark.parametrize("codec", ["deflate", "null", "bzip2", "xz"])
def test_files_of_another_writer_are_read(codec: str) -> None:
    file = io.BytesIO()
    fastavro.writer(file, SCHEMA, RECORDS, codec=codec, metadata={"key": "välue"}, sync_interval=1_000)
    container = avro_file.decode(file.getvalue(), "x.avro")
    assert container.record_count == len(RECORDS)
    assert len(container.blocks) > 10
    assert list(container.records()) == RECORDS
    assert dict(container.metadata) == {"key": "välue"}
    assert container.codec == codec


def snappy(block: bytes) -> bytes:
    return bytes(pyarrow.compress(block, codec="snappy", asbytes=True)) + zlib.crc32(block).to_bytes(4, "big")


def zstandard(block: bytes) -> bytes:
    return bytes(pyarrow.compress(block, codec="zstd", asbytes=True))


@pytest.mark.parametrize("compress", [snappy, zstandard])
def test_codecs_of_other_writers_are_read(compress: Callable[[bytes], bytes]) -> None:
    block = raw(1_000)
    container = avro_file.decode(foreign(compress.__name__, compress(block), 1_000), "x.avro")
    assert list(container.records()) == RECORDS[:1_000]


@pytest.mark.parametrize(
    ("codec", "block", "why"),
    [
        ("snappy", snappy(raw(10))[:-1] + b"\x00", "checksum"),
        ("snappy", b"\xff" * 20, "block 1"),
        ("zstandard", zstandard(raw(10))[:-3], "block 1"),
        ("deflate", b"\xff\xff\xff", "block 1"),
        ("bzip2", b"BZh9", "block 1"),
        ("xz", b"", "block 1"),
        ("lz5", b"", "unknown codec 'lz5'"),
    ],
)
def test_damaged_blocks_are_errors(codec: str, block: bytes, why: str) -> None:
    container = avro_file.decode(foreign(codec, block, 10), "x.avro")
    with pytest.raises(CorruptFile, match=why):
        list(container.records())


@pytest.mark.parametrize("count", [9, 11, 1_000_000])
def test_a_block_with_another_number_of_records_is_damaged(count: int) -> None:
    with pytest.raises(CorruptFile, match="block 1"):
        list(avro_file.decode(foreign("null", raw(10), count), "x.avro").records())


def test_a_block_that_grows_too_large_is_refused() -> None:
    bounds = replace(DEFAULT_BOUNDS, manifest_bytes=Limit("storage.max-manifest-bytes", 1_000))
    for codec in ("deflate", "bzip2", "xz"):
        file = io.BytesIO()
        fastavro.writer(file, SCHEMA, RECORDS[:1_000], codec=codec)
        with pytest.raises(CorruptFile, match="block 1 has more than 1000 bytes"):
            list(avro_file.decode(file.getvalue(), "x.avro", bounds).records())
    for compress in (snappy, zstandard):
        with pytest.raises(CorruptFile, match="block 1 has more than 1000 bytes") as refused:
            list(avro_file.decode(foreign(compress.__name__, compress(raw(1_000)), 1_000), "x", bounds).records())
        assert "`storage.max-manifest-bytes`" in refused.value.next_step


def test_a_file_truncated_anywhere_is_damaged() -> None:
    data, header = written(RECORDS[:50]), len(written([]))
    for length in range(len(data)):
        if length == header:
            continue  # a header without blocks is an empty file; readers compare with the list's counts
        with pytest.raises(CorruptFile, match=r"x\.avro is damaged"):
            list(avro_file.decode(data[:length], "x.avro").records())


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_flipped_bit_raises_anything_but_corrupt_file(position: int, mask: int) -> None:
    data = bytearray(written(RECORDS[:200]))
    data[position % len(data)] ^= mask
    with contextlib.suppress(CorruptFile):
        list(avro_file.decode(bytes(data), "x.avro").records())


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_corrupt_file(data: bytes) -> None:
    for prefix in (b"", b"Obj\x01"):
        with pytest.raises(CorruptFile):
            list(avro_file.decode(prefix + data, "x.avro").records())


def test_a_record_that_does_not_fit_leaves_the_file_as_it_was() -> None:
    writer = avro_file.AvroFileWriter(SCHEMA, {})
    writer.add(RECORDS[0])
    size = writer.size
    for bad in ({"a": "text"}, {"a": 2**70}, {"a": 1, "b": 2}, {}, {"a": None}):
        with pytest.raises(InvalidInput):
            writer.add(bad)
        assert writer.size == size
    writer.add(RECORDS[1])
    assert list(avro_file.decode(writer.finish(), "x").records()) == RECORDS[:2]


def test_records_that_are_encoded_alone_make_the_same_file() -> None:
    parsed, writer = avro_file.parse(SCHEMA), avro_file.AvroFileWriter(SCHEMA, {"key": "välue"})
    block = b"".join(avro_file.encode_record(parsed, record) for record in RECORDS)
    writer.add_blocks([(len(RECORDS), avro_file.compress(block))])
    assert list(avro_file.decode(writer.finish(), "x").records()) == RECORDS
    with pytest.raises(InvalidInput):
        avro_file.encode_record(parsed, {"a": "no number"})


def test_the_same_content_gives_the_same_bytes() -> None:
    assert written(RECORDS[:10]) == written(RECORDS[:10])
    assert written(RECORDS[:10])[-16:] != avro_file.AvroFileWriter(SCHEMA, {"key": "other"}).finish()[-16:]


def test_the_size_grows_with_the_records() -> None:
    writer = avro_file.AvroFileWriter(SCHEMA, {})
    sizes = []
    for record in RECORDS:
        writer.add(record)
        sizes.append(writer.size)
    assert sizes[0] > 0
    assert writer.size >= len(writer.finish()) - 100


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_survive(number: int) -> None:
    record = {"a": number, "b": None}
    assert list(avro_file.decode(written([record]), "x").records()) == [record]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8_191, 8_192, 1 << 20, (1 << 20) + 1])
def test_sizes_of_any_length_survive_in_the_frame(size: int) -> None:
    file = avro_file.AvroFileWriter(SCHEMA, {"key": "x" * size}).finish()
    assert avro_file.decode(file, "x").metadata == {"key": "x" * size}
    assert fastavro.reader(io.BytesIO(file)).metadata["key"] == "x" * size


@pytest.mark.parametrize("count", [-1, -64, -65, -(2**63)])
def test_a_block_with_a_negative_count_is_damaged(count: int) -> None:
    with pytest.raises(CorruptFile, match="block 1 has a negative size"):
        avro_file.decode(foreign("null", raw(1), count), "x")
