"""Metadata files."""

from __future__ import annotations

import gzip
import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.errors import CorruptFile, UnsupportedFormat
from iceberg_hms.format.metadata import metadata_file
from tests.format import documents
from tests.format.documents import V3

CODEC = "write.metadata.compression-codec"
PLACE = "s3://bucket/test/location/metadata/00003-abc.metadata.json"


@pytest.mark.parametrize("codec", ["none", "gzip", "GZIP"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_metadata_survives_encoding_and_decoding(codec: str, version: int) -> None:
    metadata = documents.metadata(version, properties={CODEC: codec})
    data = metadata_file.encode(metadata)
    assert data.startswith(b"\x1f\x8b") == (codec.lower() == "gzip")
    assert metadata_file.decode(data, PLACE) == metadata
    assert metadata_file.encode(metadata) == data


def test_compressed_bytes_have_no_timestamp() -> None:
    assert metadata_file.encode(documents.metadata(properties={CODEC: "gzip"}))[4:8] == bytes(4)


def test_compression_is_detected_from_the_bytes_and_not_from_the_name() -> None:
    metadata = documents.metadata()
    data = gzip.compress(metadata.to_bytes())
    assert metadata_file.decode(data, "x.metadata.json") == metadata
    assert metadata_file.decode(metadata.to_bytes(), "x.gz.metadata.json") == metadata


PLAIN = metadata_file.encode(documents.metadata())
ZIPPED = metadata_file.encode(documents.metadata(properties={CODEC: "gzip"}))


@given(st.sampled_from([PLAIN, ZIPPED]), st.data())
def test_a_truncated_file_is_damaged_wherever_it_ends(data: bytes, draw: st.DataObject) -> None:
    length = draw.draw(st.integers(0, len(data) - 1))
    with pytest.raises(CorruptFile, match=re.escape(PLACE)):
        metadata_file.decode(data[:length], PLACE)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is not JSON"),
        (b"PAR1", "is not JSON"),
        (b"Obj\x01\x04", "is not JSON"),
        (b"\x1f\x8bnonsense", "cannot be decompressed"),
        (gzip.compress(b"{}", mtime=0), "required field is missing: format-version"),
        (orjson.dumps({**V3, "current-snapshot-id": 7}), "there is no snapshot 7"),
    ],
)
def test_files_that_are_not_metadata_are_damaged(data: bytes, why: str) -> None:
    with pytest.raises(CorruptFile, match=why):
        metadata_file.decode(data, PLACE)


def test_a_later_version_is_unsupported_and_not_damaged() -> None:
    with pytest.raises(UnsupportedFormat, match=re.escape(PLACE)):
        metadata_file.decode(orjson.dumps({**V3, "format-version": 4}), PLACE)


@pytest.mark.parametrize(
    ("location", "version"),
    [
        ("s3://b/t/metadata/00007-2f1d-9.metadata.json", 7),
        ("file:/a 1-b/123456-x.gz.metadata.json", 123456),
        ("00000-x.metadata.json", 0),
        ("/t/v3.metadata.json", -1),
        ("/t/x-y.metadata.json", -1),
        ("/t/-y.metadata.json", -1),
        ("/t/²-y.metadata.json", -1),
        ("/t/99999999999-y.metadata.json", -1),
        ("", -1),
    ],
)
def test_the_version_is_the_number_before_the_dash(location: str, version: int) -> None:
    assert metadata_file.version_of(location) == version


def test_new_file_names_continue_the_numbering() -> None:
    metadata = documents.metadata()
    folder = f"{documents.LOCATION}/metadata"
    assert metadata_file.new_location(metadata, None, "u-1") == f"{folder}/00000-u-1.metadata.json"
    assert metadata_file.new_location(metadata, "x/00041-q.metadata.json", "u") == f"{folder}/00042-u.metadata.json"
    assert metadata_file.new_location(metadata, "x/v41.metadata.json", "u") == f"{folder}/00000-u.metadata.json"


def test_names_follow_the_tables_properties() -> None:
    metadata = documents.metadata(properties={CODEC: "gzip", "write.metadata.path": "file:/meta data/"})
    assert metadata_file.folder(metadata) == "file:/meta data"
    assert metadata_file.new_location(metadata, None, "u") == "file:/meta data/00000-u.gz.metadata.json"


def test_an_unknown_codec_leaves_the_table_writable() -> None:
    metadata = documents.metadata(properties={CODEC: "lz77"})
    assert metadata_file.decode(metadata_file.encode(metadata), PLACE) == metadata
    assert metadata_file.new_location(metadata, None, "u").endswith("/00000-u.metadata.json")
