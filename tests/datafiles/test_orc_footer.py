"""Footers of ORC files, as writers write them, damaged and hostile."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from iceberg_hms.datafiles.orc_footer import (
    OrcFooter,
    bytes_of,
    double_of,
    int32_of,
    number_of,
    numbers_of,
    parse_message,
    part_of,
    read_orc_footer,
    signed_of,
    text_of,
)
from iceberg_hms.errors import CorruptFile, MissingFile, StorageError, UnsupportedFormat
from tests.datafiles.orc_messages import file_of, footer_of, message, packed, varint, zigzag

ROOT = message((1, 12), (2, packed(1)), (3, "x"))
LONG = message((1, 4))


def read(data: bytes) -> OrcFooter:
    return read_orc_footer("file:/a.orc", lambda _: pa.BufferReader(data))


def written(rows: pa.Table, **options: Any) -> bytes:
    target = io.BytesIO()
    orc.write_table(rows, target, **options)
    return target.getvalue()


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_footers_are_read_whatever_their_compression(compression: str) -> None:
    rows = pa.table({f"column_{number}": [number, number + 7] for number in range(300)})
    data = written(rows, compression=compression)
    footer = read(data)
    assert (footer.size, footer.rows, footer.stripe_offsets) == (len(data), 2, (3,))
    assert footer.types[0].names == tuple(rows.schema.names)
    assert [each.kind for each in footer.types] == ["struct"] + ["long"] * 300
    last = part_of(footer.statistics[300], 2)
    assert last is not None
    assert (signed_of(last, 1), signed_of(last, 2)) == (299, 306)


def test_a_footer_longer_than_the_first_read_is_read_whole() -> None:
    rows = pa.table({f"{number:0100}": [1] for number in range(400)})
    assert len(read(written(rows, compression="uncompressed")).types) == 401


def test_stripes_are_found() -> None:
    rows = pa.table({"x": list(range(200_000))})
    data = written(rows, stripe_size=64 * 1024)
    offsets = read(data).stripe_offsets
    assert len(offsets) == orc.ORCFile(pa.BufferReader(data)).nstripes > 1
    assert offsets[0] == 3


def test_attributes_and_nested_types_are_kept() -> None:
    inner = pa.field("a", pa.string(), metadata={"iceberg.id": "7"})
    rows = pa.Table.from_pylist([{"n": {"a": "x"}}], schema=pa.schema([pa.field("n", pa.struct([inner]))]))
    root, struct_type, leaf = read(written(rows)).types
    assert (root.subtypes, struct_type.subtypes, leaf.attributes) == ((1,), (2,), {"iceberg.id": "7"})


def test_the_magic_of_hives_first_files_is_at_their_beginning() -> None:
    footer = footer_of([ROOT, LONG], [])
    assert read(file_of(footer, magic=None)).rows == 10
    with pytest.raises(CorruptFile, match="postscript"):
        read(file_of(footer, magic=None, start=b"abc"))
    with pytest.raises(CorruptFile, match="postscript"):
        read(file_of(footer, magic=b"XYZ"))


@pytest.mark.parametrize("cut", [0, 1, 3, 40, -1, -2, -4])
def test_a_truncated_file_is_damaged(cut: int) -> None:
    data = written(pa.table({"x": [1, 2, 3]}))
    with pytest.raises(CorruptFile, match=r"a\.orc is damaged"):
        read(data[:cut])


@given(st.data())
def test_flipped_bytes_are_read_or_damaged_and_never_anything_else(data: st.DataObject) -> None:
    whole = bytearray(written(pa.table({"x": [1, 2], "s": ["a", None]}), compression="uncompressed"))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        read(bytes(whole))
    except (CorruptFile, UnsupportedFormat):
        return


@given(st.binary(max_size=300))
def test_any_footer_is_read_or_damaged(footer: bytes) -> None:
    for compression in range(7):
        try:
            read(file_of(footer, compression=compression))
        except (CorruptFile, UnsupportedFormat):
            continue


@pytest.mark.parametrize(
    ("footer", "why"),
    [
        (footer_of([], []), "root of its types is no struct"),
        (footer_of([LONG], []), "root of its types is no struct"),
        (footer_of([ROOT], []), "type 1 is out of place"),
        (footer_of([message((1, 12), (2, packed(0)), (3, "x"))], []), "type 0 is out of place"),
        (footer_of([ROOT, LONG, LONG], []), "a type belongs to no other"),
        (footer_of([message((1, 12), (2, packed(1)))], []), "1 fields and 0 names"),
        (footer_of([ROOT, message((1, 10))], []), "a list has 0 types"),
        (footer_of([ROOT, message((1, 11), (2, packed(2)))], []), "a map has 1 types"),
        (footer_of([ROOT, LONG], [message((1, 1))]), "statistics of 1 columns of 2"),
        (footer_of([ROOT, LONG], [], rows=1 << 63), "9223372036854775808 rows"),
        (footer_of([ROOT, message((1, 4), *[(7, b"")] * 101)], []), "101 attributes"),
        (footer_of([ROOT, LONG] + [b""] * 100_000, []), "too many"),
        (footer_of([ROOT, LONG], [], more=((3, b""),) * 100_001), "too many"),
        (message((4, 5)), "cannot be read"),
        (varint(1 << 3 | 7), "wire type 7"),
        (b"\xff" * 11, "does not end"),
        (varint(1 << 3 | 2) + varint(1 << 60), "bytes are wanted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_footers_without_sense_are_damaged(footer: bytes, why: str) -> None:
    with pytest.raises(CorruptFile, match=why):
        read(file_of(footer))


def test_lengths_are_compared_with_what_is_there() -> None:
    postscript = message((1, 1 << 50), (8000, b"ORC"))
    with pytest.raises(CorruptFile, match="longer than the file"):
        read(b"ORC" + postscript + bytes([len(postscript)]))


class Endless(io.RawIOBase):
    """A file of a terabyte whose end is a postscript; counts what is read of it."""

    def __init__(self, postscript: bytes) -> None:
        self.tail = postscript + bytes([len(postscript)])
        self.bytes_read = 0
        self.at = 0

    def size(self) -> int:
        return 1 << 40

    def seek(self, at: int, whence: int = 0) -> int:
        self.at = at
        return at

    def read(self, count: int = -1) -> bytes:
        self.bytes_read += count
        return (bytes(count) + self.tail)[-count:]


def test_a_footer_of_gigabytes_is_not_read() -> None:
    file = Endless(message((1, 1 << 32), (8000, b"ORC")))
    with pytest.raises(CorruptFile, match="more than 16777216"):
        read_orc_footer("file:/a.orc", lambda _: file)
    assert file.bytes_read < 20_000


def compressed(raw: bytes, codec: str) -> bytes:
    chunk = pa.compress(raw, codec=codec, asbytes=True)
    return (len(chunk) << 1).to_bytes(3, "little") + chunk


@pytest.mark.parametrize(("number", "codec"), [(2, "snappy"), (5, "zstd"), (6, "brotli")])
def test_a_footer_that_inflates_to_gigabytes_is_damaged(number: int, codec: str) -> None:
    chunk = compressed(bytes(64 << 20), codec)
    started = time.monotonic()
    with pytest.raises(CorruptFile, match="inflates to"):
        read(file_of(chunk, compression=number))
    assert time.monotonic() - started < 10


def test_empty_chunks_are_damage() -> None:
    with pytest.raises(CorruptFile, match="a chunk is empty"):
        read(file_of(bytes(3_000), compression=1))


def test_what_cannot_be_read_is_said() -> None:
    footer = footer_of([ROOT, LONG], [])
    with pytest.raises(UnsupportedFormat, match="LZO"):
        read(file_of(footer, compression=3))
    with pytest.raises(UnsupportedFormat, match="not known"):
        read(file_of(footer, compression=9))
    with pytest.raises(UnsupportedFormat, match="encrypted columns"):
        read(file_of(footer_of([ROOT, LONG], [], more=((10, b""),))))


def test_errors_of_storage_pass_through(tmp_path: Path) -> None:
    def missing(location: str) -> Any:
        raise MissingFile(location)

    def broken(location: str) -> Any:
        raise OSError("disk on fire")

    with pytest.raises(MissingFile):
        read_orc_footer("file:/nowhere", missing)
    with pytest.raises(StorageError, match="disk on fire"):
        read_orc_footer("file:/nowhere", broken)


def test_fields_have_their_types() -> None:
    found = parse_message(message((1, zigzag(-5)), (2, "ü"), (3, 1.5), (4, (1 << 64) - 3), (5, packed(1, 300)), (5, 7)))
    assert signed_of(found, 1) == -5
    assert (text_of(found, 2), bytes_of(found, 2)) == ("ü", "ü".encode())
    assert double_of(found, 3) == 1.5
    assert (int32_of(found, 4), number_of(found, 4)) == (-3, (1 << 64) - 3)
    assert list(numbers_of(found, 5)) == [1, 300, 7]
    absent: list[Any] = [read(found, 9) for read in (signed_of, text_of, bytes_of, double_of, int32_of, part_of)]
    assert absent == [None] * 6
    with pytest.raises(ValueError, match="is no number"):
        number_of(found, 2)
    with pytest.raises(ValueError, match="is a number"):
        text_of(found, 1)
