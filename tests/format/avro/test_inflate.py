"""isal and zlib inflate alike."""

from __future__ import annotations

import os
import zlib

import pytest
from isal import isal_zlib

from iceberg_hms.format.avro import inflate


@pytest.fixture(params=[zlib, isal_zlib], ids=["zlib", "isal"], autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflate, "inflater", request.param)


def deflated(raw: bytes) -> bytes:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(raw) + compressor.flush()


RAW = b"manifest" * 1_000 + os.urandom(1_000)


@pytest.mark.parametrize("raw", [b"", b"x", RAW], ids=["nothing", "a byte", "some kilobytes"])
@pytest.mark.parametrize("behind", [b"", b"\x01\x02\x03"], ids=["whole", "bytes behind it"])
def test_a_whole_stream(raw: bytes, behind: bytes) -> None:
    found = inflate.decompressor()
    assert (found.decompress(deflated(raw) + behind, len(raw) + 1), found.eof) == (raw, True)


def test_no_more_than_asked_for() -> None:
    found = inflate.decompressor()
    assert found.decompress(deflated(RAW), 100) == RAW[:100]
    assert not found.eof


def test_a_stream_that_is_cut_off_has_no_end() -> None:
    found = inflate.decompressor()
    found.decompress(deflated(RAW)[:-3], len(RAW) + 1)
    assert not found.eof


def test_a_damaged_stream() -> None:
    with pytest.raises(inflate.ERRORS):
        inflate.decompressor().decompress(b"\xff" * 20, 100)
