"""Gzip made of parts."""

from __future__ import annotations

import gzip
import io
import pickle
import zlib
from dataclasses import dataclass
from functools import cached_property

from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.format.metadata.gzip_parts import GzipStart, deflate, join_gzip, join_text


@dataclass(frozen=True)
class Part:
    json: bytes

    @cached_property
    def deflated(self) -> bytes:
        return deflate(self.json)


@given(st.lists(st.binary(max_size=400).flatmap(lambda text: st.sampled_from([text, Part(text)])), max_size=12))
def test_any_parts_decompress_to_their_text(parts: list[bytes | Part]) -> None:
    assert (
        gzip.decompress(join_gzip(parts))
        == join_text(parts)
        == b"".join(part if isinstance(part, bytes) else part.json for part in parts)
    )


def test_the_stream_is_one_gzip_member_for_readers_that_stop_after_the_first() -> None:
    parts: list[bytes | Part] = [b"[", Part(b"a" * 100_000), b",", Part(b"b" * 100_000), b"]"]
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    assert reader.decompress(join_gzip(parts)) == join_text(parts)
    assert reader.eof
    assert reader.unused_data == b""


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_a_member_that_is_ended_elsewhere_is_the_whole_text(text: bytes, end: bytes) -> None:
    start = pickle.loads(pickle.dumps(GzipStart.of(text)))
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    # The reader compares the checksum and the size.
    assert reader.decompress(start.ended(end)) == text + end
    assert reader.eof
    assert reader.unused_data == b""


def test_a_reader_of_small_pieces_gets_the_whole_text() -> None:
    part = Part(bytes(range(256)) * 500)
    with gzip.open(io.BytesIO(join_gzip([part, b"x", part]))) as file:
        assert b"".join(iter(lambda: file.read(7), b"")) == part.json + b"x" + part.json


def test_equal_text_gives_equal_bytes() -> None:
    assert join_gzip([b"a", Part(b"b")]) == join_gzip([b"a", Part(b"b")])


def test_a_part_is_compressed_once() -> None:
    part = Part(b"x" * 10_000)
    join_gzip([part])
    kept = part.deflated
    packed = join_gzip([b"head", part, b"tail"])
    assert part.deflated is kept
    assert kept in packed
