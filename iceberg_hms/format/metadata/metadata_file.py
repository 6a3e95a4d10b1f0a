"""Metadata files: bytes, compression and names (spec: Naming for GZIP compressed Metadata JSON files)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from iceberg_hms.errors import CorruptFile, InvalidInput, UnsupportedFormat
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, SMALL_BYTES, FileBounds
from iceberg_hms.format.json_fields import MAX_INT
from iceberg_hms.format.metadata.parsed_size import TextSize
from iceberg_hms.format.metadata.table_metadata import TableMetadata, strip_trailing_slash
from iceberg_hms.format.metadata.table_properties import METADATA_COMPRESSION
from iceberg_hms.work import stop_if_caller_left

#: Table properties, with Java's names.
COMPRESSION_CODEC: Final = METADATA_COMPRESSION.name
METADATA_PATH: Final = "write.metadata.path"

#: What zlib's objects take for gzip.
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
#: Bytes that are inflated at a time.
_CHUNK_BYTES: Final = 16 * 1024
#: Text that is kept while it is not known whether the rest is within bounds.
_HELD_BYTES: Final = 64 * 1024 * 1024
#: Writers make one.
_MEMBERS_MAX: Final = 1_000

_EXTENSIONS: Final[Mapping[str, str]] = {"none": ".metadata.json", "gzip": ".gz.metadata.json"}
_GZIP_MAGIC: Final = b"\x1f\x8b"
#: zlib's own default, and Java's.
_GZIP_LEVEL: Final = 6


def _nothing(_: int) -> None:
    """Holds no memory."""


def encode(metadata: TableMetadata, bounds: FileBounds = DEFAULT_BOUNDS) -> bytes:
    """The bytes of a metadata file, compressed if the table's `write.metadata.compression-codec` is gzip.

    Equal metadata gives equal bytes. Raises InvalidInput for values that JSON cannot express, and for metadata that
    `decode` would refuse: a table that points at it could be read and mended by nobody here.
    """
    text, codec = metadata.to_bytes(), codec_of(metadata.properties)
    return packed(text, codec, bounds, metadata.text_size(), what="table", smaller="expire snapshots")


def packed(text: bytes, codec: str, bounds: FileBounds, size: TextSize, *, what: str, smaller: str) -> bytes:
    """The bytes of a metadata file with this text. Raises InvalidInput if `unpacked` would refuse them. size: of the
    text. what, smaller: what has the metadata, and what makes it smaller, for messages."""
    data = gzip.compress(text, compresslevel=_GZIP_LEVEL, mtime=0) if codec == "gzip" else text
    largest = bounds.metadata_bytes
    if max(len(text), len(data)) > largest.value:
        raise InvalidInput(
            f"The {what}'s metadata would have more than {largest.value} bytes",
            next_step=f"{smaller}, or raise `{largest.key}`",
        )
    if data is not text and not _may_be_inflated(data, len(text), bounds):
        raise InvalidInput(
            f"The {what}'s metadata would inflate to more than {bounds.inflate_ratio.value} times its size",
            next_step=f"set `{COMPRESSION_CODEC}` to none, or raise `{bounds.inflate_ratio.key}`",
        )
    if size.parsed_bytes > bounds.parsed_bytes:
        raise InvalidInput(
            f"The {what}'s metadata would take {size.parsed_bytes} bytes of memory, more than {bounds.parsed_bytes}",
            next_step=f"{smaller}, keep values by the million out of it, or raise `{largest.key}`",
        )
    return data


def _may_be_inflated(data: bytes, size: int, bounds: FileBounds) -> bool:
    """Whether `_parts` inflates this to its `size` bytes."""
    if size <= SMALL_BYTES:
        return True
    try:
        for _ in _parts(data, "", bounds):
            pass
    except CorruptFile:
        return False
    return True


def decode(data: bytes, location: str, bounds: FileBounds = DEFAULT_BOUNDS) -> TableMetadata:
    """The metadata in a file, fully verified. Compression is detected from the bytes, whatever the file's name.

    Raises CorruptFile if the file is truncated, damaged, beyond its bounds or not table metadata; UnsupportedFormat for
    format version 4 and later and for encrypted tables.
    """
    with errors_of_file(location):
        return TableMetadata.parse(unpacked(data, location, bounds)).verify()


def unpacked(data: bytes, location: str, bounds: FileBounds, hold: Callable[[int], object] = _nothing) -> bytes:
    """The text of a metadata file. Raises CorruptFile if it is truncated, damaged or beyond its bounds. hold: called
    with the most bytes of memory that what comes next takes, each time more is known; raises to refuse that."""
    text = data
    if data.startswith(_GZIP_MAGIC):
        hold(len(data) + 2 * min(bounds.metadata_bytes.value, bounds.inflated_bytes(len(data))))
        try:
            text = _inflated(data, location, bounds)
        except (EOFError, zlib.error) as error:
            raise CorruptFile(location, f"it cannot be decompressed: {error}") from error
    parsed = TextSize.of(text).parsed_bytes
    if parsed > bounds.parsed_bytes:
        found = f"its {len(text)} bytes of JSON may take {parsed} bytes of memory, more than {bounds.parsed_bytes}"
        raise bounds.metadata_bytes.exceeded(location, found)
    # Besides what it is parsed to: the text here, the one that is made of it again, and a response.
    hold(parsed + 3 * len(text))
    return text


@contextmanager
def errors_of_file(location: str) -> Iterator[None]:
    """Errors of parsing, as errors of the file with the text."""
    try:
        yield
    except UnsupportedFormat as error:
        raise UnsupportedFormat(f"{location}: {error.message}", next_step=error.next_step) from error
    except InvalidInput as error:
        raise CorruptFile(location, error.message) from error


def _inflated(data: bytes, location: str, bounds: FileBounds) -> bytes:
    """The text of all gzip members of a file. Raises EOFError, zlib.error, CorruptFile."""
    parts: list[bytes] = []
    size = 0
    try:
        for part in _parts(data, location, bounds):
            size += len(part)
            # What is too large is refused before memory holds all of it. So what is large is inflated twice.
            if size <= _HELD_BYTES:
                parts.append(part)
            else:
                parts.clear()
    except CorruptFile:
        # The error holds this frame until the garbage collector comes.
        parts.clear()
        raise
    return b"".join(parts if size <= _HELD_BYTES else _parts(data, location, bounds))


def _parts(data: bytes, location: str, bounds: FileBounds) -> Iterator[bytes]:
    """What the gzip members of a file inflate to. No beginning of the file may inflate out of proportion, so that a
    bomb is known at its beginning. Raises as `_inflated`."""
    size = at = members = 0
    while at < len(data):
        members += 1
        if members > _MEMBERS_MAX:
            raise CorruptFile(location, f"it has more than {_MEMBERS_MAX} gzip members")
        inflater = zlib.decompressobj(_GZIP_FORMAT)
        while not inflater.eof:
            chunk = data[at : at + _CHUNK_BYTES]
            at += len(chunk)
            if not chunk:
                raise EOFError("it ended before the end of its gzip stream")
            stop_if_caller_left()
            allowed = min(bounds.metadata_bytes.value, bounds.inflated_bytes(at))
            # One byte more than is allowed shows that there is more; a chunk inflates a thousandfold at most.
            part = inflater.decompress(chunk, allowed - size + 1)
            size += len(part)
            if size > allowed:
                part = b""
                raise _inflates_too_far(location, bounds, allowed)
            yield part
        at -= len(inflater.unused_data)
        while data[at : at + 1] == b"\0":
            at += 1


def _inflates_too_far(location: str, bounds: FileBounds, allowed: int) -> CorruptFile:
    largest, ratio = bounds.metadata_bytes, bounds.inflate_ratio
    if allowed == largest.value:
        return largest.exceeded(location, f"it inflates to more than {largest.value} bytes")
    return ratio.exceeded(location, f"it inflates to more than {ratio.value} times its size")


def folder(metadata: TableMetadata) -> str:
    """The folder of the table's metadata files, manifest lists and manifests: `write.metadata.path`, else `metadata`
    below the table's location."""
    return folder_of(metadata.properties, metadata.location)


def folder_of(properties: Mapping[str, str], location: str) -> str:
    """As `folder`. location: of the table or view, without slashes at its end."""
    path = properties.get(METADATA_PATH)
    return strip_trailing_slash(path) if path else f"{location}/metadata"


def new_location(metadata: TableMetadata, previous_location: str | None, uuid: str) -> str:
    """A name for the next metadata file: `00007-<uuid>.metadata.json` after `00006-...`, in `folder`.

    previous_location: the file that it replaces; None for a new table. uuid: makes the name unique.
    """
    return f"{folder(metadata)}/{new_name(previous_location, uuid, codec_of(metadata.properties))}"


def new_name(previous_location: str | None, uuid: str, codec: str) -> str:
    """As `new_location`, without the folder. codec: by `codec_of`."""
    version = 0 if previous_location is None else version_of(previous_location) + 1
    return f"{version:05d}-{uuid}{_EXTENSIONS[codec]}"


def version_of(location: str) -> int:
    """The number at the start of a metadata file's name; -1 if it has none, as in tables without a catalog
    (`v3.metadata.json`) and in some registered tables."""
    digits, dash, _ = location.rpartition("/")[2].partition("-")
    if not dash or not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(MAX_INT)):
        return -1
    return int(digits)


def codec_of(properties: Mapping[str, str], default: str = "none") -> str:
    """How metadata files are compressed: "none" or "gzip"."""
    codec = properties.get(COMPRESSION_CODEC, default).lower()
    # We let nobody set an unknown codec, but a table that has one stays writable, uncompressed.
    return codec if codec in _EXTENSIONS else "none"
