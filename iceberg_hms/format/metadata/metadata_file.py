"""Metadata files: bytes, compression and names (spec: Naming for GZIP compressed Metadata JSON files)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from typing import Final

from iceberg_hms.errors import CorruptFile, InvalidInput, UnsupportedFormat
from iceberg_hms.format.json_fields import MAX_INT
from iceberg_hms.format.metadata.table_metadata import TableMetadata, strip_trailing_slash

#: Table properties, with Java's names.
COMPRESSION_CODEC: Final = "write.metadata.compression-codec"
METADATA_PATH: Final = "write.metadata.path"

_EXTENSIONS: Final[Mapping[str, str]] = {"none": ".metadata.json", "gzip": ".gz.metadata.json"}
_GZIP_MAGIC: Final = b"\x1f\x8b"
#: zlib's own default, and Java's.
_GZIP_LEVEL: Final = 6


def encode(metadata: TableMetadata) -> bytes:
    """The bytes of a metadata file, compressed if the table's `write.metadata.compression-codec` is gzip.

    Equal metadata gives equal bytes. Raises InvalidInput for values that JSON cannot express.
    """
    data = metadata.to_bytes()
    return gzip.compress(data, compresslevel=_GZIP_LEVEL, mtime=0) if _codec(metadata) == "gzip" else data


def decode(data: bytes, location: str) -> TableMetadata:
    """The metadata in a file, fully verified. Compression is detected from the bytes, whatever the file's name.

    Raises CorruptFile if the file is truncated, damaged or not table metadata, UnsupportedFormat for format version 4
    and later and for encrypted tables.
    """
    try:
        text = gzip.decompress(data) if data.startswith(_GZIP_MAGIC) else data
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFile(location, f"it cannot be decompressed: {error}") from error
    try:
        return TableMetadata.parse(text).verify()
    except UnsupportedFormat as error:
        raise UnsupportedFormat(f"{location}: {error.message}") from error
    except InvalidInput as error:
        raise CorruptFile(location, error.message) from error


def folder(metadata: TableMetadata) -> str:
    """The folder of the table's metadata files, manifest lists and manifests: `write.metadata.path`, else `metadata`
    below the table's location."""
    path = metadata.properties.get(METADATA_PATH)
    return strip_trailing_slash(path) if path else f"{metadata.location}/metadata"


def new_location(metadata: TableMetadata, previous_location: str | None, uuid: str) -> str:
    """A name for the next metadata file: `00007-<uuid>.metadata.json` after `00006-...`, in `folder`.

    previous_location: the file that it replaces; None for a new table. uuid: makes the name unique.
    """
    version = 0 if previous_location is None else version_of(previous_location) + 1
    return f"{folder(metadata)}/{version:05d}-{uuid}{_EXTENSIONS[_codec(metadata)]}"


def version_of(location: str) -> int:
    """The number at the start of a metadata file's name; -1 if it has none, as in tables without a catalog
    (`v3.metadata.json`) and in some registered tables."""
    digits, dash, _ = location.rpartition("/")[2].partition("-")
    if not dash or not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(MAX_INT)):
        return -1
    return int(digits)


def _codec(metadata: TableMetadata) -> str:
    codec = metadata.properties.get(COMPRESSION_CODEC, "none").lower()
    # We let nobody set an unknown codec, but a table that has one stays writable, uncompressed.
    return codec if codec in _EXTENSIONS else "none"
