"""Metadata files of views: bytes and names, as Java's BaseViewOperations makes them."""

from __future__ import annotations

from typing import Final

from iceberg_hms.format.file_bounds import FileBounds
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.parsed_size import TextSize
from iceberg_hms.format.views.view_metadata import ViewMetadata

#: Of `write.metadata.compression-codec`; Java's default for views, other than for tables.
_DEFAULT_CODEC: Final = "gzip"


def encode(metadata: ViewMetadata, bounds: FileBounds) -> bytes:
    """The bytes of a metadata file. Raises InvalidInput for values that JSON cannot express, and for metadata that
    `decode` would refuse."""
    text, codec = metadata.to_bytes(), metadata_file.codec_of(metadata.properties, _DEFAULT_CODEC)
    return metadata_file.packed(text, codec, bounds, TextSize.of(text), what="view", smaller="shorten its SQL")


def decode(data: bytes, location: str, bounds: FileBounds) -> ViewMetadata:
    """The metadata in a file, fully verified. Raises CorruptFile, UnsupportedFormat as `metadata_file.decode`."""
    with metadata_file.errors_of_file(location):
        return ViewMetadata.parse(metadata_file.unpacked(data, location, bounds))


def folder(metadata: ViewMetadata) -> str:
    """The folder of the view's metadata files."""
    return metadata_file.folder_of(metadata.properties, metadata.folder)


def new_location(metadata: ViewMetadata, previous_location: str | None, uuid: str) -> str:
    """As `metadata_file.new_location`."""
    codec = metadata_file.codec_of(metadata.properties, _DEFAULT_CODEC)
    return f"{folder(metadata)}/{metadata_file.new_name(previous_location, uuid, codec)}"
