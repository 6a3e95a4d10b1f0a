from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from iceberg_hms.errors import CorruptFile, InvalidInput, UnsupportedFormat
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit
from iceberg_hms.format.views import view_file
from iceberg_hms.format.views.view_metadata import ViewMetadata
from tests.format.views.samples import spec_example

UUID = "0b1c"


def metadata(**properties: str) -> ViewMetadata:
    return ViewMetadata.parse({**spec_example(), "properties": properties})


def codec(name: str) -> ViewMetadata:
    return metadata(**{"write.metadata.compression-codec": name})


@pytest.mark.parametrize(
    ("view", "name", "is_compressed"),
    [
        (metadata(), "00000-0b1c.gz.metadata.json", True),
        (codec("GZIP"), "00000-0b1c.gz.metadata.json", True),
        (codec("none"), "00000-0b1c.metadata.json", False),
        (codec("zstd"), "00000-0b1c.metadata.json", False),
    ],
)
def test_a_file_is_compressed_unless_the_view_says_no(view: ViewMetadata, name: str, is_compressed: bool) -> None:
    location = view_file.new_location(view, None, UUID)
    assert location == f"s3://bucket/warehouse/default.db/event_agg/metadata/{name}"
    data = view_file.encode(view, DEFAULT_BOUNDS)
    assert data.startswith(b"\x1f\x8b") is is_compressed
    assert view_file.decode(data, location, DEFAULT_BOUNDS) == view


def test_names_count_on_from_the_file_that_is_replaced() -> None:
    view = metadata()
    next_one = view_file.new_location(view, "s3://b/00041-a.gz.metadata.json", UUID)
    assert next_one.endswith("/00042-0b1c.gz.metadata.json")
    assert view_file.new_location(view, "s3://b/v7.metadata.json", UUID).endswith("/00000-0b1c.gz.metadata.json")


def test_the_folder_is_that_of_the_property() -> None:
    assert view_file.folder(metadata(**{"write.metadata.path": "s3://other/m//"})) == "s3://other/m"
    slashed = ViewMetadata.parse({**spec_example(), "location": "s3://b/v/"})
    assert slashed.location == "s3://b/v/"
    assert view_file.folder(slashed) == "s3://b/v/metadata"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", CorruptFile),
        (b"{}", CorruptFile),
        (gzip.compress(b"{}")[:-4], CorruptFile),
        (b'{"view-uuid": "u", "format-version": 2}', UnsupportedFormat),
        (b"[" + b"[]," * 20_000_000 + b"[]]", CorruptFile),
    ],
    ids=["empty", "no fields", "cut", "newer", "too many values"],
)
def test_a_damaged_file_is_named(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match="file:/v"):
        view_file.decode(data, "file:/v", DEFAULT_BOUNDS)


def test_what_is_too_large_is_neither_written_nor_read() -> None:
    small = replace(DEFAULT_BOUNDS, metadata_bytes=Limit("storage.max-metadata-bytes", 500))
    view = metadata()
    with pytest.raises(InvalidInput, match="The view's metadata would have more than 500 bytes"):
        view_file.encode(view, small)
    with pytest.raises(CorruptFile, match="inflates to more than 500 bytes"):
        view_file.decode(view_file.encode(view, DEFAULT_BOUNDS), "file:/v", small)
