"""Random manifests, written as Avro by fastavro, and what columns say of their entries."""

from __future__ import annotations

import bz2
import io
import lzma
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro
import orjson
import pyarrow as pa
from hypothesis import strategies as st

from iceberg_hms.format.avro import avro_file, manifest_schemas
from iceberg_hms.format.manifests.manifest import DataFile, ManifestEntry, decode_manifest
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestFile
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import StructType
from iceberg_hms.planning import layout

#: All types of partition values, with a strategy for what a manifest stores.
_LONGS = st.integers(-(2**63), 2**63 - 1)
_INTS = st.integers(-(2**31), 2**31 - 1)
STORED: Mapping[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": _INTS,
    "long": _LONGS,
    "float": st.floats(width=32),
    "double": st.floats(),
    "date": _INTS,
    "time": _LONGS,
    "timestamp": _LONGS,
    "timestamptz": _LONGS,
    "timestamp_ns": _LONGS,
    "timestamptz_ns": _LONGS,
    "string": st.text(max_size=5),
    "binary": st.binary(max_size=5),
    "fixed[3]": st.binary(min_size=3, max_size=3),
    "uuid": st.binary(min_size=16, max_size=16),
    "decimal(9, 2)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda each: each.to_bytes(4, "big", signed=True)),
    "decimal(38, 10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda each: each.to_bytes(16, "big", signed=True)),
    "unknown": st.none(),
}
#: How each codec compresses a block.
CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda raw: zlib.compress(raw, wbits=-zlib.MAX_WBITS),
    "snappy": lambda raw: pa.compress(raw, "snappy", asbytes=True) + zlib.crc32(raw).to_bytes(4, "big"),
    "zstandard": lambda raw: pa.compress(raw, "zstd", asbytes=True),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
#: Names of today, by field id: `manifest_schemas.relabel` gives them to a schema.
NAMES = {
    field_id: name
    for version in (1, 3)
    for field_id, name in manifest_schemas.known_fields(
        manifest_schemas.manifest_entry(version, StructType(()))
    ).items()
}


@dataclass(frozen=True)
class SampleManifest:
    data: bytes
    line: ManifestFile

    def entries(self) -> list[ManifestEntry]:
        """The live ones, as `decode_manifest` gives them."""
        return [each for each in decode_manifest(self.data, "m.avro", self.line) if each.is_live]


def partition_spec(types: Sequence[str]) -> tuple[Schema, PartitionSpec]:
    """A spec of identity fields with these types; the ids of the partition fields are not in order."""
    columns = [{"id": at, "name": f"c{at}", "type": kind, "required": False} for at, kind in enumerate(types, 1)]
    fields = [
        {"source-id": at, "field-id": 1_100 - at, "name": f"part {at}", "transform": "identity"}
        for at in range(1, len(types) + 1)
    ]
    return Schema.parse({"type": "struct", "fields": columns}), PartitionSpec.parse({"spec-id": 3, "fields": fields})


def manifest_bytes(
    version: int,
    types: Sequence[str],
    records: Sequence[Mapping[str, Any]],
    *,
    codec: str = "deflate",
    sync_interval: int = 16_000,
    spell: Any = lambda schema: schema,
) -> bytes:
    """A manifest of records with today's names. sync_interval: bytes of a block. spell: changes the schema in the file
    to one of the same layout."""
    schema, spec = partition_spec(types)
    written = spell(manifest_schemas.manifest_entry(version, spec.partition_type(schema)))
    coding = avro_file.parse(manifest_schemas.relabel(written, NAMES))
    metadata = {
        "partition-spec": orjson.dumps([each.to_json() for each in spec.fields]).decode(),
        "partition-spec-id": "3",
        "format-version": str(version),
    }
    target = io.BytesIO()
    fastavro.writer(target, coding, records, sync_interval=sync_interval, metadata=metadata)
    data = target.getvalue()
    container = avro_file.decode(data, "m.avro")
    header = {**container.metadata, "avro.schema": orjson.dumps(written).decode(), "avro.codec": codec}
    return _with_header(header, data, container)


def _with_header(header: Mapping[str, str], data: bytes, container: avro_file.Container) -> bytes:
    pairs = [avro_file.encode_long(len(text.encode())) + text.encode() for pair in header.items() for text in pair]
    sync = data[-16:] if container.blocks else bytes(16)
    parts = [b"Obj\x01", avro_file.encode_long(len(header)), *pairs, avro_file.encode_long(0), sync]
    for count, block in container.blocks:
        compressed = CODECS[header["avro.codec"]](block)
        parts += [avro_file.encode_long(count), avro_file.encode_long(len(compressed)), compressed, sync]
    return b"".join(parts)


def comparable(entry: ManifestEntry) -> Any:
    """An entry without what columns do not tell: whether a map is missing or empty. NaN equals itself."""
    file = entry.data_file
    fields = {name: getattr(file, name) for name in DataFile.__dataclass_fields__ if name != "partition"}
    for name in layout.MAPS:
        fields[name] = {key: value for key, value in (fields[name] or {}).items() if value is not None}
    for name in ("split_offsets", "equality_ids"):
        fields[name] = None if fields[name] is None else list(fields[name])
    partition = {name: _plain(value) for name, value in file.partition.items()}
    return (entry.status, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, fields, partition)


def _plain(value: Any) -> Any:
    match value:
        case uuid.UUID():
            return value.bytes
        case Decimal():
            return value.as_tuple()
        case float():
            return repr(value)
        case _:
            return value


_SMALL = st.integers(0, 2**40)


@st.composite
def records(draw: st.DrawFn, version: int, types: Sequence[str], *, deletes: bool) -> dict[str, Any]:
    """A record of an entry with today's names."""
    file: dict[str, Any] = {
        "content": draw(st.sampled_from([1, 2])) if deletes else 0,
        "file_path": draw(st.text(max_size=8)),
        "file_format": draw(st.sampled_from(["PARQUET", "avro"])),
        "partition": {
            manifest_schemas.partition_label(1_100 - at): draw(st.none() | STORED[kind])
            for at, kind in enumerate(types, 1)
        },
        "record_count": draw(_SMALL),
        "file_size_in_bytes": draw(_SMALL),
        "block_size_in_bytes": 1,
    }
    for name in layout.MAPS:
        values = st.binary(max_size=9) if name.endswith("bounds") else _LONGS
        file[name] = draw(st.none() | _maps(values))
    for name, strategy in _OPTIONAL.items():
        file[name] = draw(st.none() | strategy)
    entry = {name: draw(st.none() | _SMALL) for name in ("snapshot_id", "sequence_number", "file_sequence_number")}
    return {"status": draw(st.integers(0, 2)), **entry, "data_file": file}


def _maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Pairs whose keys may come in any order, twice, or in an order that all entries have."""
    own = st.lists(st.tuples(st.integers(1, 5) | st.just(2**31 - 1), values), max_size=5)
    common = st.tuples(*[st.tuples(st.just(key), values) for key in (3, 1, 7)])
    return (own | common).map(lambda pairs: [{"key": key, "value": value} for key, value in pairs])


_OPTIONAL: Mapping[str, st.SearchStrategy[Any]] = {
    "key_metadata": st.binary(max_size=4),
    "split_offsets": st.lists(_LONGS, max_size=3),
    "equality_ids": st.lists(_INTS, max_size=3),
    "sort_order_id": _INTS,
    "first_row_id": _SMALL,
    "referenced_data_file": st.text(max_size=4),
    "content_offset": _LONGS,
    "content_size_in_bytes": _LONGS,
}


def lines(count: int) -> st.SearchStrategy[ManifestFile]:
    """What a manifest list says of a manifest with so many entries."""
    return st.builds(
        lambda sequence_number, first_row_id, is_counted: ManifestFile(
            "m.avro",
            1,
            3,
            77,
            sequence_number=sequence_number,
            added_files_count=count if is_counted else None,
            existing_files_count=0,
            deleted_files_count=0,
            first_row_id=first_row_id,
        ),
        st.sampled_from([UNASSIGNED, 0, 5]),
        st.none() | st.integers(0, 1_000),
        st.booleans(),
    )


@st.composite
def manifests(draw: st.DrawFn) -> SampleManifest:
    """Manifests of any version, partition types and codec, small ones and repeated ones."""
    version = draw(st.integers(1, 3))
    types = draw(st.lists(st.sampled_from(sorted(STORED)), max_size=4))
    deletes = version > 1 and draw(st.booleans())
    some = draw(st.lists(records(version, types, deletes=deletes), max_size=6))
    some *= draw(st.sampled_from([1, 3, 40]))
    data = manifest_bytes(
        version,
        types,
        some,
        codec=draw(st.sampled_from(sorted(CODECS))),
        sync_interval=draw(st.sampled_from([1, 100, 16_000])),
        spell=draw(st.sampled_from([_as_is, _null_last, _other_names])),
    )
    return SampleManifest(data, draw(lines(len(some))))


def _as_is(schema: Any) -> Any:
    return schema


def _null_last(schema: Any) -> Any:
    """As some writers spell optional fields."""
    if isinstance(schema, list):
        return [_null_last(each) for each in schema if each != "null"] + ["null"]
    if isinstance(schema, dict):
        new = {key: _null_last(value) for key, value in schema.items() if key in ("type", "items")}
        new |= {"fields": [_null_last(each) for each in schema["fields"]]} if "fields" in schema else {}
        return {**{key: value for key, value in schema.items() if key != "default"}, **new}
    return schema


def _other_names(schema: Any) -> Any:
    """Fields that only their ids tell."""
    if isinstance(schema, list):
        return [_other_names(each) for each in schema]
    if isinstance(schema, dict):
        new = {key: _other_names(value) for key, value in schema.items() if key in ("type", "items")}
        new |= {"fields": [_other_names(each) for each in schema["fields"]]} if "fields" in schema else {}
        new |= {"name": f"f{schema['field-id']}"} if "field-id" in schema else {}
        return {**schema, **new}
    return schema


def simple_record(path: str) -> dict[str, Any]:
    """An added file in an unpartitioned table."""
    file = {"file_path": path, "file_format": "PARQUET", "partition": {}, "record_count": 1, "file_size_in_bytes": 1}
    return {"status": 1, "data_file": {"content": 0, **file}}
