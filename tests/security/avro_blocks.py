"""Avro files made by hand, block by block: no writer makes such files."""

from __future__ import annotations

import io
import zlib
from typing import Any, Final

import fastavro
import orjson

from iceberg_hms.format.avro import avro_file, manifest_schemas
from iceberg_hms.format.manifests.manifest_list import ManifestFile, encode_list

MIB: Final = 1024 * 1024
#: The schema of a manifest list.
LIST: Final = manifest_schemas.manifest_file(2)


def container(schema: Any, blocks: list[tuple[int, bytes]], codec: str = "null", **header: str) -> bytes:
    writer = avro_file.AvroFileWriter(orjson.dumps(schema), header, coding_schema="null")
    data = writer.finish().replace(b"\x0edeflate", bytes([2 * len(codec)]) + codec.encode())
    sync = data[-16:]
    return data + b"".join(avro_long(count) + avro_long(len(raw)) + raw + sync for count, raw in blocks)


def avro_long(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


def deflate(raw: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(raw) + compressor.flush()


def list_record(summaries: int = 0) -> bytes:
    """A manifest with so many summaries of partition fields, of four bytes each."""
    file = ManifestFile("m", 1, 0, 1, 0, 1, 1, 1, 0, 0, 1, 0, 0, ())
    _, encoded = encode_list(2, 1, None, 1, None, [file])
    record = avro_file.decompress("deflate", encoded.blocks[0][1], MIB)
    return record[:-2] + avro_long(summaries) + bytes(4 * summaries) + b"\0\0" if summaries else record
