"""Metadata files of views: bytes and names, as Java's BaseViewOperations makes them."""

from __future__ import annotations

from typing import Final

from iceberg_hms.format.file_bounds import FileBounds
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.parsed_size import TextSize
from iceberg_hms.format.metadata.table_metadata import strip_trailing_slash
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
    path = metadata.properties.get(metadata_file.METADATA_PATH)
    return strip_trailing_slash(path) if path else f"{metadata.folder}/metadata"


def new_location(metadata: ViewMetadata, previous_location: str | None, uuid: str) -> str:
    """A name for the next metadata file. previous_location: the file that it replaces; None for a new view. uuid:
    makes the name unique."""
    version = 0 if previous_location is None else metadata_file.version_of(previous_location) + 1
    codec = metadata_file.codec_of(metadata.properties, _DEFAULT_CODEC)
    return f"{folder(metadata)}/{metadata_file.file_name(version, uuid, codec)}"
