"""Attacks by files that a client names: what is read, inflated and decoded is bounded, and reading never hangs."""

from __future__ import annotations

import bz2
import copy
import gzip
import itertools
import lzma
import os
import random
import socket
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pytest
from pyarrow import fs

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache
from iceberg_hms.errors import CommitFailed, CorruptFile, InvalidInput
from iceberg_hms.format.avro import avro_file, manifest_schemas
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, FileBounds, Limit
from iceberg_hms.format.manifests.manifest import live_data_files
from iceberg_hms.format.manifests.manifest_list import FieldSummary, ManifestFile, decode_list, encode_list
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.schema.types import StructType
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.manifests import ManifestStore
from iceberg_hms.storage.pyarrow_driver import PyArrowDriver
from iceberg_hms.storage.retries import Retries
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.work import working_for
from tests.format import documents
from tests.rest.fakes import SCHEMA, ScriptedCatalog
from tests.security.avro_blocks import LIST, MIB, avro_long, container, deflate, list_record

#: Text that no compression shrinks by much.
NOISE = random.Random(7).randbytes(MIB // 2).hex()


def bounds(**limits: int) -> FileBounds:
    return replace(
        DEFAULT_BOUNDS, **{name: replace(getattr(DEFAULT_BOUNDS, name), value=limits[name]) for name in limits}
    )


@contextmanager
def little_memory(most: int = 150 * MIB) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


# What is no file, and what has no end


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A FIFO kept each thread that read it, and /dev/zero filled the memory."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    files = RoutedFiles()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path in ("/dev/zero", "/dev/null", *(tmp_path / name for name in ("fifo", "link", "socket", "."))):
            with pytest.raises(CorruptFile, match="it is no regular file"):
                files.read(f"file:{path}")
            with pytest.raises(CorruptFile, match="it is no regular file"):
                files.open(f"file:{path}")


@pytest.mark.parametrize("scheme", ["file", "s3"])
def test_a_file_has_a_largest_size(scheme: str, tmp_path: Path) -> None:
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    files = (
        RoutedFiles()
        if scheme == "file"
        else RoutedFiles({scheme: lambda: (PyArrowDriver(lambda _: store), Retries())})
    )
    (tmp_path / "ten").write_bytes(b"0123456789")
    location = f"file:{tmp_path}/ten" if scheme == "file" else "s3:///ten"
    assert files.read(location, Limit("a.key", 10)) == b"0123456789"
    with pytest.raises(CorruptFile, match="it has more than 9 bytes") as refused:
        files.read(location, Limit("a.key", 9))
    assert "`a.key`" in refused.value.next_step


def test_a_file_that_grows_is_read_no_further_than_its_limit() -> None:
    """The kernel calls /proc files empty; so is a file that another process fills while it is read."""
    files = RoutedFiles()
    text = files.read("file:/proc/self/status")
    assert len(text) > 100
    with pytest.raises(CorruptFile, match="it has more than 99 bytes"):
        files.read("file:/proc/self/status", Limit("a.key", 99))


def test_the_settings_bound_what_a_table_reads(tmp_path: Path) -> None:
    settings = Settings.load({"storage.max-metadata-bytes": 50, "storage.max-manifest-bytes": 40}, environ={})
    files = MemoryFiles()
    files.write("file:/large", b"x" * 51)
    cache = MetadataCache(files, ThreadRuntime(), max_bytes=0, bounds=FileBounds.of(settings.as_dict()))
    with pytest.raises(CorruptFile, match="more than 50 bytes") as refused:
        cache.get("file:/large")
    assert "`storage.max-metadata-bytes`" in refused.value.next_step
    with pytest.raises(CorruptFile, match="more than 40 bytes") as refused:
        ManifestStore(files, settings, ThreadRuntime()).read("file:/large")
    assert "`storage.max-manifest-bytes`" in refused.value.next_step


# Metadata files


def test_a_small_gzip_file_does_not_become_a_giant() -> None:
    """6 MB of gzip took 4 GB."""
    data = gzip.compress(b'{"a":"' + b" " * 100 * MIB)
    with little_memory(), pytest.raises(CorruptFile, match="inflates to more than 250 times its size") as refused:
        metadata_file.decode(data, "x")
    assert "`storage.max-inflate-ratio`" in refused.value.next_step


def test_the_text_of_a_compressed_metadata_file_has_a_largest_size() -> None:
    data = gzip.compress(os.urandom(2 * MIB))
    with pytest.raises(CorruptFile, match="it inflates to more than 1048576 bytes") as refused:
        metadata_file.decode(data, "x", bounds(metadata_bytes=MIB))
    assert "`storage.max-metadata-bytes`" in refused.value.next_step


def test_an_error_does_not_keep_what_was_inflated() -> None:
    """Each error holds the frames that raised it until the garbage collector comes: five bombs took 2.6 GB."""
    data = gzip.compress(b'{"a":"') + 12 * gzip.compress(b" " * 10 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFile, match="250 times") as refused:
            metadata_file.decode(data, "x")
        assert refused.value.__traceback__ is not None
        assert tracemalloc.get_traced_memory()[0] < 20 * MIB
    finally:
        tracemalloc.stop()


def test_a_bomb_is_refused_before_memory_holds_what_it_inflates_to() -> None:
    data = gzip.compress(os.urandom(MIB // 8) + b" " * 300 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFile, match="250 times"):
            metadata_file.decode(data, "x")
        assert tracemalloc.get_traced_memory()[1] < 100 * MIB
    finally:
        tracemalloc.stop()


def test_a_bomb_is_refused_at_its_beginning() -> None:
    """A bomb of 2 MB kept a processor for 1.4 seconds: it may inflate to 500 MB, and was inflated so far."""
    data = gzip.compress(b'{"a":"') + 40 * gzip.compress(b" " * 50 * MIB)
    chunks = itertools.count()

    def has_left() -> bool:
        next(chunks)
        return False

    with working_for(has_left), pytest.raises(CorruptFile, match="250 times"):
        metadata_file.decode(data, "x")
    assert next(chunks) <= 5


def test_metadata_that_inflates_to_much_is_read() -> None:
    text = orjson.dumps({**documents.V2, "properties": {"long": "ab" * 30 * MIB}})
    data = gzip.compress(text)
    assert len(metadata_file.decode(data, "x", bounds(inflate_ratio=2_000)).properties["long"]) == 60 * MIB


def test_many_gzip_members_are_refused() -> None:
    member = gzip.compress(b"")
    with pytest.raises(CorruptFile, match="more than 1000 gzip members"):
        metadata_file.decode(member * 1_001, "x")


def test_members_and_padding_of_gzip_are_read() -> None:
    text = orjson.dumps(documents.V2)
    data = gzip.compress(text[:700]) + b"\0\0" + gzip.compress(text[700:]) + b"\0" * 10
    assert metadata_file.decode(data, "x").raw == documents.V2


@pytest.mark.parametrize("value", [b"[],", b"{},", b'{"":[]},', b"1,"])
def test_json_of_far_too_many_values_is_not_parsed(value: bytes) -> None:
    """Empty lists take 24 times as much memory as their text, and are parsed without letting other threads run."""
    data = b'{"a":[' + value * (8 * MIB // len(value)) + b"0]}"
    with little_memory(), pytest.raises(CorruptFile, match=r"may take .* bytes of memory, more than") as refused:
        metadata_file.decode(data, "x")
    assert "`storage.max-metadata-bytes`" in refused.value.next_step


@pytest.mark.parametrize(
    ("properties", "settings"),
    [
        ({"long": "{" * 4_000_000}, {}),
        ({"long": "a" * 30 * MIB, "write.metadata.compression-codec": "gzip"}, {}),
        ({"long": "a" * 30 * MIB, "noise": NOISE, "write.metadata.compression-codec": "gzip"}, {}),
        ({"long": "a" * 100_000}, {"max_metadata_bytes": 50_000}),
    ],
)
def test_no_commit_makes_a_table_that_cannot_be_read(properties: dict[str, str], settings: dict[str, Any]) -> None:
    catalog = ScriptedCatalog(**settings)
    name = ("default", "t")
    before = catalog.create_table(name, SCHEMA).metadata_location
    hostile = {"action": "set-properties", "updates": properties}
    with pytest.raises(InvalidInput, match="The table's metadata would "):
        catalog.commit(name, [], [hostile])
    with pytest.raises(InvalidInput, match="The table's metadata would "):
        catalog.create_table(("default", "u"), SCHEMA, properties=properties)
    assert catalog.pointer(name).metadata_location == before
    report = catalog.commit(name, [], [{"action": "set-properties", "updates": {"a": "b"}}])
    assert metadata_file.decode(catalog.files.read(report.metadata_location), "x").properties["a"] == "b"


def large_metadata(schemas: int, snapshots: int) -> bytes:
    raw = copy.deepcopy(documents.V2)
    columns = [{"id": at, "name": f"column_{at}", "required": False, "type": "string"} for at in range(1, 501)]
    raw["schemas"] += [{"type": "struct", "schema-id": 10 + at, "fields": columns} for at in range(schemas)]
    raw["properties"] = {
        "schema.name-mapping.default": orjson.dumps(
            [{"field-id": at, "names": [f"c{at}"]} for at in range(9_000)]
        ).decode()
    }
    raw["snapshots"] += [
        {
            "snapshot-id": 10**15 + at * 7919,
            "sequence-number": 1,
            "timestamp-ms": documents.UPDATED_MS,
            "manifest-list": f"s3://bucket/metadata/snap-{at}.avro",
            "summary": {"operation": "append", **{f"a.long.key.of.an.engine-{key}": "x" * 20 for key in range(20)}},
        }
        for at in range(snapshots)
    ]
    return orjson.dumps(raw)


@pytest.mark.parametrize(("schemas", "snapshots"), [(540, 0), (0, 20_000)])
def test_large_legal_metadata_is_read(schemas: int, snapshots: int) -> None:
    """Of all metadata, schemas of 500 columns shrink most: they are as long as gzip looks back."""
    text = large_metadata(schemas, snapshots)
    data = gzip.compress(text)
    assert len(text) > max(16 * MIB, (90 if schemas else 10) * len(data))
    found = metadata_file.decode(data, "x")
    assert (len(found.schemas), len(found.snapshots)) == (2 + schemas, 2 + snapshots)


# Manifest lists and manifests


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "deflate": deflate,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": lambda raw: bytes(pyarrow.compress(raw, codec="zstd", asbytes=True)),
    "snappy": lambda raw: (
        bytes(pyarrow.compress(raw, codec="snappy", asbytes=True)) + zlib.crc32(raw).to_bytes(4, "big")
    ),
}


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard"])
def test_a_list_of_millions_of_records_in_a_few_bytes_is_refused(codec: str) -> None:
    """45 kB held 3 million records, and kept a table for minutes."""
    data = container(LIST, [(300_000, COMPRESS[codec](list_record() * 300_000))], codec)
    with little_memory(), pytest.raises(CorruptFile, match=r"300000 records in|inflates to more than"):
        decode_list(data, "x")
    small = container(LIST, [(100, COMPRESS[codec](list_record() * 100))], codec)
    assert len(decode_list(small, "x")) == 100


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard"])
def test_a_block_does_not_become_a_giant(codec: str) -> None:
    """439 kB took 3.7 GB."""
    data = container(LIST, [(1, COMPRESS[codec](b"\0" * 100 * MIB))], codec)
    with (
        little_memory(),
        pytest.raises(CorruptFile, match="with block 1 it inflates to more than 250 times") as refused,
    ):
        decode_list(data, "x")
    assert "`storage.max-inflate-ratio`" in refused.value.next_step


def test_blocks_together_do_not_become_a_giant() -> None:
    block = deflate(b"\0" * 10 * MIB)
    data = container(LIST, [(1_000, deflate(list_record() * 1_000)), (1, block), (1, block)], "deflate")
    with pytest.raises(CorruptFile, match="block 2"):
        decode_list(data, "x")


def test_a_block_that_says_that_it_is_large_is_not_believed() -> None:
    data = container(LIST, [(1, b"\xff\xff\xff\xff\x0f" + bytes(100))], "snappy")
    with little_memory(), pytest.raises(CorruptFile, match="with block 1 it inflates"):
        decode_list(data, "x")


def test_an_entry_does_not_become_a_giant() -> None:
    """A partition summary takes four bytes, and a hundred times as much memory."""
    raw = list_record(30_000)
    small = list_record()
    for records in ([raw], [small, raw], [raw, small], [small, raw, small]):
        data = container(LIST, [(len(records), b"".join(records))])
        assert len(decode_list(data, "x", bounds(record_bytes=len(raw)))) == len(records)
        with pytest.raises(CorruptFile, match=f"is beyond a limit: an entry has more than {len(raw) - 1} b") as refused:
            decode_list(data, "x", bounds(record_bytes=len(raw) - 1))
        assert refused.value.next_step == ("if the file is as it should be, raise `storage.max-manifest-record-bytes`")


def test_an_entry_of_more_than_4_mib_is_refused_unless_the_operator_allows_it() -> None:
    data = container(LIST, [(1, list_record(1_100_000))])
    with little_memory(250 * MIB), pytest.raises(CorruptFile, match="an entry has more than 4194304 bytes"):
        decode_list(data, "x")


def test_the_advice_for_a_damaged_file_keeps_what_was_committed() -> None:
    with pytest.raises(CorruptFile) as refused:
        decode_list(b"no list", "x")
    assert "point the table at" not in refused.value.next_step
    assert "an older metadata file lacks the commits since" in refused.value.next_step


def test_summaries_count_as_much_as_manifests() -> None:
    data = container(LIST, [(40, deflate(list_record(5_000) * 40))], "deflate")
    with pytest.raises(CorruptFile, match=r"it has 1\d\d\d\d\d records in"):
        decode_list(data, "x")


def test_lists_and_manifests_have_a_largest_number_of_records() -> None:
    data = container(LIST, [(6, list_record() * 6)])
    assert len(decode_list(data, "x", bounds(manifests=6))) == 6
    with pytest.raises(CorruptFile, match="it has 6 records, more than 5") as refused:
        decode_list(data, "x", bounds(manifests=5))
    assert "`storage.max-manifests`" in refused.value.next_step
    manifest = ManifestFile("x", 1, 0, 1)
    data = container(manifest_schemas.manifest_entry(2, StructType(())), [(6, b"")])
    with pytest.raises(CorruptFile, match="it has 6 records, more than 5") as refused:
        list(live_data_files(data, "x", manifest, bounds(entries=5)))
    assert "`storage.max-manifest-entries`" in refused.value.next_step


NULLS = {"type": "record", "name": "n", "fields": [{"name": "f", "type": "null"}]}


def doubled(levels: int) -> Any:
    schema: Any = {"type": "record", "name": "r0", "fields": [{"name": "a", "type": "null"}]}
    for level in range(1, levels):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"r{level - 1}"}]
        schema = {"type": "record", "name": f"r{level}", "fields": fields}
    return schema


@pytest.mark.parametrize(
    "hostile",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": NULLS},
        {"type": "array", "items": {"type": "fixed", "name": "x", "size": 0}},
        {"type": "record", "name": "s", "fields": [{"name": "a", "type": "s"}]},
        {"type": "record", "name": "s", "fields": [{"name": "a", "type": ["null", "s"]}]},
        {
            "type": "array",
            "items": {
                "type": "record",
                "name": "w",
                "fields": [{"name": "b", "type": "int"}, *({"name": f"f{at}", "type": "null"} for at in range(2_000))],
            },
        },
        doubled(40),
    ],
    ids=["nulls", "records of nulls", "empty fixed", "itself", "list of itself", "wide item", "doubled"],
)
def test_a_schema_whose_data_costs_far_more_than_its_bytes_is_refused(hostile: Any) -> None:
    """An array says that it has 2^60 items of no bytes."""
    schema = {**LIST, "fields": [*LIST["fields"], {"name": "more", "type": hostile, "field-id": 9_000}]}
    data = container(schema, [(1, list_record() + avro_long(2**60) + b"\0" * 100)])
    with pytest.raises(CorruptFile, match=r"its Avro header cannot be read|block 1 cannot be decoded"):
        decode_list(data, "x")


def test_a_long_schema_and_a_long_header_are_refused() -> None:
    data = container({**LIST, "doc": "x" * 300_000}, [])
    with pytest.raises(CorruptFile, match="its Avro schema has more than"):
        decode_list(data, "x")
    data = container(LIST, [], **{f"k{at}": "v" for at in range(2_000)})
    with pytest.raises(CorruptFile, match="its header has more than 1000 entries"):
        decode_list(data, "x")


def test_many_empty_blocks_are_refused() -> None:
    data = container(LIST, [(0, b"")] * 2_000)
    with pytest.raises(CorruptFile, match="blocks in"):
        decode_list(data, "x")


def files_of_a_large_table(count: int) -> list[ManifestFile]:
    return [
        ManifestFile(
            f"s3://bucket/warehouse/db.db/events/metadata/{at // 8:032x}-m{at % 8}.avro",
            7_000,
            0,
            at // 8,
            0,
            at,
            at,
            1,
            0,
            0,
            9,
            0,
            0,
            tuple(FieldSummary(False, False, b"2026-01-01", b"2026-01-02") for _ in range(4)),
        )
        for at in range(count)
    ]


def test_a_list_of_many_manifests_is_read_as_each_writer_writes_it() -> None:
    files = files_of_a_large_table(20_000)
    data, encoded = encode_list(2, 10**9, None, 10**9, None, files)
    assert decode_list(data, "x") == tuple(files)
    # PyIceberg writes a list as one block, which is larger than any record may be.
    raw = b"".join(avro_file.decompress("deflate", block, 64 * MIB) for _, block in encoded.blocks)
    assert len(raw) > 4 * MIB
    for codec in ("deflate", "zstandard"):
        assert decode_list(container(LIST, [(len(files), COMPRESS[codec](raw))], codec), "x") == tuple(files)


# A caller who left


def test_reading_stops_when_the_caller_has_left() -> None:
    files = MemoryFiles()
    files.write("file:/x", b"x")
    data = container(LIST, [(100, list_record() * 100)])
    with working_for(lambda: True):
        for work in (
            lambda: decode_list(data, "x"),
            lambda: metadata_file.decode(gzip.compress(orjson.dumps(documents.V2)), "x"),
            lambda: ManifestStore(files, Settings.load({}, environ={}), ThreadRuntime()).read("file:/x"),
        ):
            with pytest.raises(CommitFailed, match="its caller left"):
                work()
