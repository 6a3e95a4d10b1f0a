"""Manifest lists: Java's are read, PyIceberg's are read, ours are read by PyIceberg; numbering."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import manifest as theirs
from pyiceberg.io.pyarrow import PyArrowFileIO

from iceberg_hms.errors import CorruptFile, InvalidInput
from iceberg_hms.format.avro import avro_file
from iceberg_hms.format.manifests.manifest_list import (
    UNASSIGNED,
    FieldSummary,
    ManifestContent,
    ManifestFile,
    assign_numbers,
    decode_list,
    encode_list,
    leading_added_manifests,
    read_list,
)
from tests.format.samples import golden


def line(**changes: Any) -> ManifestFile:
    file = ManifestFile(
        manifest_path="file:/w/metadata/a-m0.avro",
        manifest_length=1_234,
        partition_spec_id=2,
        added_snapshot_id=77,
        added_files_count=1,
        existing_files_count=2,
        deleted_files_count=3,
        added_rows_count=10,
        existing_rows_count=20,
        deleted_rows_count=30,
        partitions=(FieldSummary(True, False, b"a", b"b"), FieldSummary(False)),
    )
    return replace(file, **changes)


def encoded(version: int, files: list[ManifestFile], *, first_row_id: int | None = None) -> bytes:
    number = 0 if version == 1 else 5
    first = 1_000 if version == 3 and first_row_id is None else first_row_id
    return encode_list(version, 77, 66, number, first, files)[0]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_javas_lists_are_read(version: int) -> None:
    files = decode_list(golden(f"v{version}-list.avro"), "x")
    number = 0 if version == 1 else 5
    data = files[0]
    assert data.manifest_path == f"file:/w/metadata/v{version}-data.avro"
    assert data.manifest_length == len(golden(f"v{version}-data.avro"))
    assert (data.partition_spec_id, data.added_snapshot_id, data.content) == (2, 77, ManifestContent.DATA)
    assert (data.added_files_count, data.existing_files_count, data.deleted_files_count) == (1, 1, 1)
    assert (data.added_rows_count, data.existing_rows_count, data.deleted_rows_count) == (100, 7, 7)
    assert (data.sequence_number, data.min_sequence_number) == (number, 0 if version == 1 else 3)
    assert data.first_row_id == (1_000 if version == 3 else None)
    assert data.partitions is not None
    assert data.partitions[0] == FieldSummary(True, False, b"\x1e\x49\x00\x00", b"\x1e\x49\x00\x00")
    assert data.partitions[-1] == FieldSummary(True, False, None, None)
    if version > 1:
        assert (files[1].content, files[1].min_sequence_number, files[1].first_row_id) == (1, 5, None)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_list_that_is_written_again_is_the_same(version: int) -> None:
    files = decode_list(golden(f"v{version}-list.avro"), "x")
    data = encoded(version, list(files))
    assert decode_list(data, "x") == files
    ours, javas = avro_file.decode(data, "x").metadata, avro_file.decode(golden(f"v{version}-list.avro"), "x").metadata
    expected = {key: value for key, value in javas.items() if key != "iceberg.schema"}
    # Java's v1 file was made without a parent.
    assert dict(ours) == expected | {"parent-snapshot-id": "66"}


def test_a_list_without_a_parent_snapshot_says_so_as_in_java() -> None:
    assert avro_file.decode(encode_list(2, 77, None, 1, None, [])[0], "x").metadata["parent-snapshot-id"] == "null"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_what_is_written(version: int, tmp_path: Path) -> None:
    ours = line(sequence_number=4, min_sequence_number=3, key_metadata=b"key")
    (tmp_path / "list.avro").write_bytes(encoded(version, [ours]))
    (found,) = theirs.read_manifest_list(PyArrowFileIO().new_input(str(tmp_path / "list.avro")))
    for name in (
        *("manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id", "key_metadata"),
        *("added_files_count", "existing_files_count", "deleted_files_count"),
        *("added_rows_count", "existing_rows_count", "deleted_rows_count"),
    ):
        assert getattr(found, name) == getattr(ours, name)
    assert (found.sequence_number, found.min_sequence_number) == ((0, 0) if version == 1 else (4, 3))
    assert found.content == 0
    summary = found.partitions[0]
    assert (summary.contains_null, summary.contains_nan, summary.lower_bound, summary.upper_bound) == (
        *(True, False),
        *(b"a", b"b"),
    )


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_pyicebergs_lists_are_read(version: int, codec: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "list.avro")
    arguments: dict[str, Any] = {
        "manifest_path": "file:/w/m.avro",
        "manifest_length": 99,
        "partition_spec_id": 3,
        "content": theirs.ManifestContent.DATA,
        "sequence_number": 4,
        "min_sequence_number": 2,
        "added_snapshot_id": 55,
        "added_files_count": 1,
        "existing_files_count": 2,
        "deleted_files_count": 3,
        "added_rows_count": 4,
        "existing_rows_count": 5,
        "deleted_rows_count": 6,
        "partitions": [theirs.PartitionFieldSummary(True, False, b"a", b"b")],
    }
    output = PyArrowFileIO().new_output(path)
    if version == 3:
        # PyIceberg cannot write lists of version 3; it only has their schema.
        with pytest.raises(ValueError, match="Cannot write manifest list"):
            theirs.write_manifest_list(3, output, 77, 66, 5, codec)  # type: ignore[arg-type]
        return
    with theirs.write_manifest_list(version, output, 77, 66, 5, codec) as writer:  # type: ignore[arg-type]
        writer.add_manifests([theirs.ManifestFile.from_args(**arguments)])
    (found,) = decode_list(Path(path).read_bytes(), path)
    arguments |= {"partitions": (FieldSummary(True, False, b"a", b"b"),)}
    if version == 1:
        arguments |= {"sequence_number": 0, "min_sequence_number": 0}
    assert found == ManifestFile(**arguments)


def test_old_names_are_read_by_id() -> None:
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            {"name": "manifest_path", "type": "string", "field-id": 500},
            {"name": "manifest_length", "type": "long", "field-id": 501},
            {"name": "partition_spec_id", "type": "int", "field-id": 502},
            {"name": "added_snapshot_id", "type": ["null", "long"], "default": None, "field-id": 503},
            {"name": "added_data_files_count", "type": ["null", "int"], "default": None, "field-id": 504},
            {"name": "deleted_data_files_count", "type": ["null", "int"], "default": None, "field-id": 506},
            {"name": "of_a_later_version", "type": ["null", "int"], "default": None, "field-id": 599},
        ],
    }
    record = {
        "manifest_path": "file:/w/m.avro",
        "manifest_length": 9,
        "partition_spec_id": 0,
        "added_snapshot_id": 7,
        "added_data_files_count": 3,
        "deleted_data_files_count": 0,
        "of_a_later_version": 1,
    }
    file = io.BytesIO()
    fastavro.writer(file, schema, [record])
    assert decode_list(file.getvalue(), "x") == (
        ManifestFile(
            "file:/w/m.avro",
            9,
            0,
            7,
            sequence_number=0,
            min_sequence_number=0,
            added_files_count=3,
            deleted_files_count=0,
        ),
    )


def test_counts_may_be_unknown() -> None:
    assert line().files_count == 6
    assert line(existing_files_count=None).files_count is None
    assert line().has_live_files
    assert line(added_files_count=None, existing_files_count=0).has_live_files
    assert not line(added_files_count=0, existing_files_count=0).has_live_files


def test_new_manifests_get_the_snapshots_number_and_old_ones_keep_theirs() -> None:
    files = [line(), line(min_sequence_number=3), line(sequence_number=4, min_sequence_number=2, added_snapshot_id=66)]
    numbered, next_row_id = assign_numbers(files, format_version=2, snapshot_id=77, sequence_number=5)
    assert [(each.sequence_number, each.min_sequence_number) for each in numbered] == [(5, 5), (5, 3), (4, 2)]
    assert next_row_id is None


def test_numbering_twice_changes_nothing() -> None:
    numbers: dict[str, Any] = {"format_version": 3, "snapshot_id": 77, "sequence_number": 5, "first_row_id": 100}
    once, next_row_id = assign_numbers([line(), line()], **numbers)
    assert [each.first_row_id for each in once] == [100, 130]
    assert next_row_id == 160
    assert assign_numbers(once, **numbers)[0] == once


def test_row_ids_skip_delete_manifests_and_manifests_that_have_them() -> None:
    files = [
        line(),
        line(content=ManifestContent.DELETES),
        line(first_row_id=7, sequence_number=1, min_sequence_number=1),
        line(sequence_number=1, min_sequence_number=1),
    ]
    numbered, next_row_id = assign_numbers(files, format_version=3, snapshot_id=77, sequence_number=5, first_row_id=100)
    assert [each.first_row_id for each in numbered] == [100, None, 7, 130]
    assert next_row_id == 160


def test_manifests_that_cannot_be_numbered_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"unassigned sequence number .* 66"):
        encoded(2, [line(added_snapshot_id=66)])
    with pytest.raises(InvalidInput, match="no first-row-id"):
        encode_list(3, 77, 66, 5, None, [line()])
    with pytest.raises(InvalidInput, match="no row counts"):
        encoded(3, [line(added_rows_count=None)])
    with pytest.raises(InvalidInput, match="no existing_rows_count"):
        encoded(2, [line(existing_rows_count=None)])
    with pytest.raises(InvalidInput, match="v1 table"):
        encoded(1, [line(content=ManifestContent.DELETES)])


@pytest.mark.parametrize("versions", [(1, 2, 3), (3, 2, 1)])
def test_an_entry_that_was_encoded_before_is_encoded_the_same(versions: tuple[int, ...]) -> None:
    path = f"file:/m/{versions}.avro"
    files = [
        line(manifest_path=path, **changes)
        for changes in ({}, {"manifest_length": 5}, {"first_row_id": 7}, {"partitions": None}, {"content": 0})
    ]
    first = {version: encoded(version, files) for version in versions}
    for version in versions:
        numbered, _ = assign_numbers(
            files, format_version=version, snapshot_id=77, sequence_number=5, first_row_id=1_000
        )
        assert encoded(version, files) == first[version]
        for found, wanted in zip(decode_list(first[version], "x"), numbered, strict=True):
            assert found == replace(wanted, first_row_id=wanted.first_row_id if version > 2 else None)


def test_an_entry_that_cannot_be_encoded_is_refused_each_time() -> None:
    file = line(added_files_count=None)
    encoded(1, [file])
    for _ in range(2):
        with pytest.raises(InvalidInput, match="has no added_files_count"):
            encoded(2, [file])


def test_an_old_list_without_counts_can_be_written_again_as_v1() -> None:
    old = line(added_files_count=None, added_rows_count=None, partitions=None, sequence_number=0, min_sequence_number=0)
    assert decode_list(encoded(1, [old]), "x") == (old,)


@pytest.mark.parametrize(
    "change", [lambda data: data[:-20], lambda data: b"", lambda data: b"{}", lambda data: data + b"\x02"]
)
def test_damaged_lists_are_errors(change: Any) -> None:
    with pytest.raises(CorruptFile, match=r"snap-1\.avro is damaged"):
        decode_list(change(golden("v2-list.avro")), "snap-1.avro")


def test_an_unknown_content_is_damage() -> None:
    with pytest.raises(CorruptFile, match=r"snap-1\.avro is damaged.*7 is not a valid ManifestContent"):
        decode_list(encoded(2, [line(content=7)]), "snap-1.avro")


#: The fields that every list has.
FIELDS = [{"name": str(number), "type": "long", "field-id": number} for number in (500, 501, 502, 503)]


@pytest.mark.parametrize(
    "fields",
    [
        5,
        [{"field-id": []}],
        [*FIELDS, 5],
        [*FIELDS, {"name": "x"}],
        [*FIELDS, {"type": "long"}],
        [*FIELDS, {"name": "x", "type": "long", "field-id": []}],
    ],
    ids=["no list", "odd id", "no field", "no type", "no name", "another odd id"],
)
def test_an_unusable_avro_schema_is_damage(fields: Any) -> None:
    with pytest.raises(CorruptFile, match=r"snap-1\.avro is damaged"):
        decode_list(empty(orjson.dumps({"type": "record", "name": "manifest_file", "fields": fields})), "snap-1.avro")


def empty(schema: bytes) -> bytes:
    """A file without records."""
    return avro_file.AvroFileWriter(schema, {}, coding_schema="long").finish()


def test_a_schema_that_is_nested_too_deep_is_damage() -> None:
    deep = b'{"type":"array","items":' * 1_000 + b'"long"' + b"}" * 1_000
    schema = orjson.dumps({"type": "record", "name": "manifest_file", "fields": [*FIELDS, {"name": "x", "type": 0}]})
    with pytest.raises(CorruptFile, match=r"snap-1\.avro is damaged.*Recursion"):
        decode_list(empty(schema.replace(b"0}]}", deep + b"}]}")), "snap-1.avro")


def test_a_manifest_is_not_a_list() -> None:
    with pytest.raises(CorruptFile, match="not a manifest list"):
        decode_list(golden("v2-data.avro"), "x")


COUNTS = st.integers(0, 2**31 - 1)
LINES = st.builds(
    ManifestFile,
    manifest_path=st.text(max_size=20),
    manifest_length=st.integers(0, 2**63 - 1),
    partition_spec_id=COUNTS,
    added_snapshot_id=st.integers(-(2**63), 2**63 - 1),
    content=st.sampled_from(list(ManifestContent)),
    sequence_number=st.integers(0, 2**63 - 1),
    min_sequence_number=st.integers(0, 2**63 - 1),
    added_files_count=COUNTS,
    existing_files_count=COUNTS,
    deleted_files_count=COUNTS,
    added_rows_count=COUNTS,
    existing_rows_count=COUNTS,
    deleted_rows_count=COUNTS,
    partitions=st.none()
    | st.lists(
        st.builds(
            FieldSummary, st.booleans(), st.none() | st.booleans(), st.none() | st.binary(), st.none() | st.binary()
        ),
        max_size=2,
    ).map(tuple),
    key_metadata=st.none() | st.binary(),
)


@settings(max_examples=40)
@given(st.lists(LINES, max_size=3))
def test_any_list_survives(files: list[ManifestFile]) -> None:
    assert decode_list(encoded(2, files), "x") == tuple(files)
    numbered, _ = assign_numbers(files, format_version=3, snapshot_id=77, sequence_number=5, first_row_id=1_000)
    assert decode_list(encoded(3, files), "x") == numbered
    assert all(each.sequence_number != UNASSIGNED for each in numbered)


def grown(version: int, appends: int) -> tuple[bytes, Any]:
    """A list that grew by one manifest a commit, each on the one before."""
    data, known = b"", None
    for number in range(1, appends + 1):
        new = replace(
            line(manifest_path=f"m-{number}"),
            added_snapshot_id=number,
            sequence_number=UNASSIGNED,
            min_sequence_number=UNASSIGNED,
        )
        files = (new, *(known.files if known else ()))
        first = 1_000 * number if version > 2 else None
        data, known = encode_list(version, number, number - 1 or None, number, first, files, carried=known)
    return data, known


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_list_that_reuses_its_parent_s_records_equals_one_that_does_not(version: int) -> None:
    data, known = grown(version, 300)
    assert decode_list(data, "x") == known.files
    assert [file.manifest_path for file in known.files] == [f"m-{number}" for number in range(300, 0, -1)]
    first = 1_000 if version > 2 else None
    alone, _ = encode_list(version, 300, 299, 300, first, known.files)
    assert decode_list(alone, "x") == known.files
    metadata = avro_file.decode(data, "x").metadata
    assert metadata["snapshot-id"] == "300"


def test_a_list_has_few_blocks() -> None:
    _, known = grown(2, 1_000)
    assert sum(count for count, _ in known.blocks) == 1_000
    assert len(known.blocks) < 16


@pytest.mark.parametrize("damage", ["other tail", "shorter", "other version"])
def test_records_of_another_list_are_not_reused(damage: str) -> None:
    _, known = grown(2, 5)
    files = {
        "other tail": (*known.files[:-1], replace(known.files[-1], manifest_length=9)),
        "shorter": known.files[1:],
        "other version": known.files,
    }[damage]
    version = 1 if damage == "other version" else 2
    data, new = encode_list(version, 9, 5, 9, None, files, carried=known)
    expected = files if version == 2 else tuple(replace(f, sequence_number=0, min_sequence_number=0) for f in files)
    assert decode_list(data, "x") == expected == new.files


def test_records_without_row_ids_get_them_and_are_encoded_again() -> None:
    """a table becomes one of version 3, whose lists have a row id for all data manifests and can be carried"""
    numbered = line(sequence_number=1, min_sequence_number=1)
    _, deletes = encode_list(3, 1, None, 1, 0, [replace(numbered, content=ManifestContent.DELETES)])
    assert deletes.is_carried_by(3, deletes.files)
    _, old = encode_list(2, 1, None, 1, None, [numbered])
    data, new = encode_list(3, 2, 1, 2, 50, old.files, carried=old)
    assert new.is_carried_by(3, new.files)
    assert [file.first_row_id for file in decode_list(data, "x")] == [50] == [file.first_row_id for file in new.files]


def test_a_list_is_decoded_lazily() -> None:
    data, _ = grown(2, 100)
    cut = data[: len(data) - 40]
    with pytest.raises(CorruptFile):
        next(read_list(cut, "x"))
    assert next(read_list(data, "x")).manifest_path == "m-100"


def counted(name: str, added: int | None, existing: int | None = 0, by: int = 7) -> ManifestFile:
    return replace(
        line(manifest_path=name),
        added_snapshot_id=by,
        added_files_count=added,
        existing_files_count=existing,
        deleted_files_count=0,
    )


@pytest.mark.parametrize(
    ("files", "count", "found"),
    [
        ([counted("a", 2), counted("b", 1), counted("old", 5, by=1)], 3, 2),
        ([counted("a", 3), counted("broken", None)], 3, 1),
        ([counted("a", 2), counted("old", 5, by=1)], 3, None),
        ([counted("old", 5, by=1), counted("a", 3)], 3, None),
        ([counted("merged", 1, existing=4)], 1, None),
        ([counted("a", 4)], 3, None),
        ([counted("a", None)], 1, None),
        ([replace(counted("d", 1), content=ManifestContent.DELETES)], 1, None),
        ([], 1, None),
    ],
)
def test_added_manifests_are_found_at_the_front_of_the_list(
    files: list[ManifestFile], count: int, found: int | None
) -> None:
    front = leading_added_manifests(iter(files), 7, count)
    assert (None if front is None else len(front)) == found
