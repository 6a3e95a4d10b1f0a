"""Entries of manifests as bytes: an entry that moves to another manifest keeps its data file as it was encoded.

Encoding the metrics of a data file takes most of the time of writing a manifest. A writer that removes one file of it
writes all others again, with another status and explicit numbers, and otherwise as they are. So the record of the data
file is copied where both manifests have the same layout.

This is for format versions 2 and 3, whose entries are: status, snapshot id, sequence number, file sequence number, data
file. In version 3 a data file ends with first_row_id, referenced_data_file, content_offset and content_size_in_bytes
(spec: Manifests).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from iceberg_hms.format.avro.avro_file import encode_long

#: The fields of an entry before the data file: status, snapshot id, sequence number and file sequence number.
_NUMBERS: Final = 3
#: In version 3, the end of a data file that has no first row id, and is no deletion vector.
_NO_ROW_ID: Final = b"\0\0\0\0"


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """A data file in the record of an entry.

    data_file: the `DataFile` that was decoded from it: another one is not in the record. layout: see `layout_of`.
    entry: the record. lacks_row_id: whether the data file inherited its first row id, which is not in the record.
    """

    data_file: object
    layout: str
    entry: bytes
    lacks_row_id: bool = False


@lru_cache(maxsize=64)
def layout_of(schema_text: bytes) -> str:
    """A text that two schemas of manifests share if their records have the same bytes for the same fields."""
    return hashlib.blake2b(repr(_layout(orjson.loads(schema_text))).encode(), digest_size=16).hexdigest()


def encode_entry(
    status: int, snapshot_id: int | None, sequence_number: int | None, file_sequence_number: int | None, record: bytes
) -> bytes:
    """The record of an entry with a data file's record in it."""
    numbers = (snapshot_id, sequence_number, file_sequence_number)
    return b"".join((encode_long(status), *map(_optional, numbers), record))


def data_file_record(entry: bytes) -> bytes:
    """The data file's record in the record of an entry."""
    at = _behind_long(entry, 0)
    for _ in range(_NUMBERS):
        has_value = entry[at] != 0
        at += 1
        if has_value:
            at = _behind_long(entry, at)
    return entry[at:]


def with_row_id(record: bytes, first_row_id: int) -> bytes:
    """The version 3 record of a data file that has no first row id and is no deletion vector, with a first row id."""
    return b"".join((record[: -len(_NO_ROW_ID)], _optional(first_row_id), _NO_ROW_ID[1:]))


def _optional(number: int | None) -> bytes:
    return b"\0" if number is None else b"\x02" + encode_long(number)


def _behind_long(data: bytes, at: int) -> int:
    while data[at] >= 0x80:
        at += 1
    return at + 1


def _layout(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_layout(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if "fields" in schema:
        return [kind, [(each.get("field-id"), _layout(each["type"])) for each in schema["fields"]]]
    if "items" in schema:
        return [kind, _layout(schema["items"])]
    told = [schema.get(name) for name in ("name", "size", "logicalType", "precision", "scale", "values", "symbols")]
    # What an array of pairs is called makes no difference, and neither does the time zone of a timestamp.
    return [_layout(kind), *told]
