"""Table metadata as a whole."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.parsed_size import TextSize
from iceberg_hms.format.metadata.rows import BLOCK_ROWS, Rows
from iceberg_hms.format.metadata.snapshot import Ref
from iceberg_hms.format.metadata.table_metadata import LONG_LISTS, TableMetadata, strip_trailing_slash
from iceberg_hms.format.updates.apply import apply
from tests.format import documents
from tests.format.documents import FIELDS, FIRST, FIRST_MS, NOW_MS, OLD_V1, SECOND, V1, V2, V3

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.sampled_from([OLD_V1, V1, V2, V3]),
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])).map(lambda name: "x-" + name), json_values),
)
def test_json_survives_a_round_trip_with_unknown_fields(document: dict[str, Any], unknown: dict[str, Any]) -> None:
    raw = {**document, **unknown}
    data = TableMetadata.parse(orjson.dumps(raw)).verify().to_bytes()
    assert orjson.loads(data) == raw
    assert TableMetadata.parse(data).to_bytes() == data


@pytest.mark.parametrize("document", [{**OLD_V1, "snapshots": [], "partition-spec": FIELDS}, V1, V2, V3])
def test_pyiceberg_reads_what_we_read(document: dict[str, Any]) -> None:
    ours = TableMetadata.parse(document).verify()
    theirs = TableMetadataUtil.parse_raw(ours.to_bytes().decode())
    assert str(theirs.table_uuid) == ours.uuid
    assert theirs.format_version == ours.format_version
    assert theirs.current_schema_id == ours.current_schema_id
    assert [field.field_id for field in theirs.schema().fields] == [field.id for field in ours.schema.fields]
    assert theirs.default_spec_id == ours.default_spec_id
    assert [field.field_id for field in theirs.spec().fields] == [field.field_id for field in ours.spec.fields]
    assert theirs.last_partition_id == ours.last_partition_id
    assert theirs.current_snapshot_id == ours.current_snapshot_id
    assert {name: ref.snapshot_id for name, ref in theirs.refs.items()} == {
        name: ref.snapshot_id for name, ref in ours.refs.items()
    }
    assert [snapshot.snapshot_id for snapshot in theirs.snapshots] == [
        snapshot.snapshot_id for snapshot in ours.snapshots
    ]


def test_pyicebergs_metadata_survives_a_round_trip() -> None:
    # It writes v1 and v2 alone (apache/iceberg-python#1551).
    for document in (V1, V2):
        text = TableMetadataUtil.parse_raw(orjson.dumps(document).decode()).model_dump_json()
        ours = TableMetadata.parse(text).verify()
        assert orjson.loads(ours.to_bytes()) == orjson.loads(text)
        assert ours.schema.same_as(TableMetadata.parse(document).schema)


def test_every_field_of_v2_is_read() -> None:
    metadata = documents.metadata(2)
    assert (metadata.format_version, metadata.uuid, metadata.location) == (2, documents.UUID, documents.LOCATION)
    assert (metadata.last_sequence_number, metadata.next_sequence_number) == (34, 35)
    assert (metadata.last_updated_ms, metadata.last_column_id) == (documents.UPDATED_MS, 3)
    assert [schema.schema_id for schema in metadata.schemas] == [0, 1]
    assert metadata.schema.identifier_field_ids == {1, 2}
    assert metadata.schema_by_id(0) == metadata.schemas[0]
    assert metadata.schema_by_id(9) is None
    assert metadata.spec_by_id(0) == metadata.spec
    assert metadata.spec_by_id(9) is None
    assert (metadata.last_partition_id, metadata.default_sort_order_id) == (1000, 3)
    assert metadata.sort_orders_by_id[3] == metadata.sort_order
    assert metadata.properties == {"read.split.target.size": "134217728"}
    assert metadata.current_snapshot == metadata.snapshot_by_id(SECOND)
    assert metadata.snapshot_by_id(9) is None
    assert metadata.ref("test") == Ref(FIRST, "tag", max_ref_age_ms=10000000)
    assert metadata.ref("missing") is None
    assert [entry["snapshot-id"] for entry in metadata.snapshot_log] == [FIRST, SECOND]
    assert [entry["timestamp-ms"] for entry in metadata.metadata_log] == [FIRST_MS]
    assert (metadata.next_row_id, documents.metadata(3).next_row_id) == (0, 100)


def test_an_old_v1_file_has_one_schema_and_one_spec() -> None:
    metadata = TableMetadata.parse(OLD_V1).verify()
    assert (metadata.current_schema_id, metadata.default_spec_id, metadata.default_sort_order_id) == (0, 0, 0)
    assert [field.name for field in metadata.schema.fields] == ["x", "y", "z"]
    assert [field.field_id for field in metadata.spec.fields] == [1000]
    assert metadata.last_partition_id == 1000
    assert metadata.sort_order.is_unsorted
    assert (metadata.last_sequence_number, metadata.next_sequence_number) == (0, 0)
    assert metadata.snapshots[0].manifests == ("a.avro", "b.avro")


@pytest.mark.parametrize("none", [{"current-snapshot-id": -1}, {"current-snapshot-id": None}, {}])
def test_a_table_without_a_current_snapshot_has_no_main(none: dict[str, Any]) -> None:
    raw = {key: value for key, value in V1.items() if key != "current-snapshot-id"}
    metadata = TableMetadata.parse({**raw, **none}).verify()
    assert metadata.current_snapshot_id is None
    assert metadata.current_snapshot is None
    assert metadata.refs == {}


def test_main_is_implied_by_the_current_snapshot() -> None:
    metadata = documents.metadata(1, current_snapshot_id=1925)
    assert metadata.refs == {"main": Ref(1925)}
    assert "refs" not in metadata.raw
    tagged = documents.metadata(2, refs={"t": {"snapshot-id": FIRST, "type": "tag"}})
    assert tagged.refs == {"main": Ref(SECOND), "t": Ref(FIRST, "tag")}


def test_ancestors_end_at_the_first_missing_snapshot() -> None:
    metadata = documents.metadata()
    assert [snapshot.snapshot_id for snapshot in metadata.ancestors(SECOND)] == [SECOND, FIRST]
    assert list(metadata.ancestors(9)) == []
    assert list(metadata.ancestors(None)) == []
    expired = documents.metadata(snapshots=[V2["snapshots"][1]], refs={})
    assert [snapshot.snapshot_id for snapshot in expired.ancestors(SECOND)] == [SECOND]


def test_a_circle_of_parents_ends() -> None:
    first = {**V2["snapshots"][0], "parent-snapshot-id": SECOND}
    metadata = documents.metadata(snapshots=[first, V2["snapshots"][1]])
    assert [snapshot.snapshot_id for snapshot in metadata.ancestors(SECOND)] == [SECOND, FIRST]


@pytest.mark.parametrize(("property_", "kept"), [("2", 2), ("1", 1), ("0", 1), ("-5", 100), ("many", 100), (None, 100)])
def test_the_metadata_log_keeps_the_newest_entries(property_: str | None, kept: int) -> None:
    properties = {} if property_ is None else {"write.metadata.previous-versions-max": property_}
    metadata = documents.metadata(properties=properties)
    for number in range(120):
        metadata = metadata.with_metadata_log_entry(f"{number}.json", 10 + number)
    entries = [(entry["timestamp-ms"], entry["metadata-file"]) for entry in metadata.metadata_log]
    assert entries == [(10 + number, f"{number}.json") for number in range(120 - kept, 120)]


def test_replacing_fields_leaves_the_original_and_reads_anew() -> None:
    metadata = documents.metadata()
    before = copy.deepcopy(metadata.raw)
    assert metadata.location
    assert metadata.refs
    assert metadata.raw_snapshots_by_id
    assert metadata.schemas
    changed = metadata.replace(location="s3://other", snapshots=[], refs={}, current_snapshot_id=-1)
    assert (changed.location, changed.refs, changed.raw_snapshots_by_id) == ("s3://other", {}, {})
    assert changed.schemas is metadata.schemas
    assert metadata.raw == before
    assert metadata != changed
    assert metadata.replace() == metadata


@given(st.sampled_from([OLD_V1, V1, V2, V3]), st.randoms(use_true_random=False), st.sets(st.sampled_from([*V3])))
def test_the_text_equals_plain_json_wherever_the_long_lists_are(
    document: dict[str, Any], random: Any, left_out: set[str]
) -> None:
    keys = [key for key in document if key not in left_out]
    random.shuffle(keys)
    raw = {key: document[key] for key in keys}
    assert TableMetadata(raw).to_bytes() == orjson.dumps(raw)
    for odd in ({"snapshots": None}, {"snapshot-log": {}, "snapshots": []}, {"snapshots": V2["snapshots"]}):
        assert TableMetadata({**raw, **odd}).to_bytes() == orjson.dumps({**raw, **odd})
        assert TableMetadata(odd).to_bytes() == orjson.dumps(odd)


def grown(metadata: TableMetadata, snapshots: int) -> TableMetadata:
    for _ in range(snapshots):
        metadata = apply(metadata, documents.append(metadata, 10_000 + len(metadata.snapshots)), now_ms=NOW_MS)
    return metadata


def test_a_version_shares_the_text_of_the_one_before_it() -> None:
    base = grown(documents.metadata(), 2 * BLOCK_ROWS)
    assert base.to_bytes() == orjson.dumps(base.raw)
    after = grown(base, 3)
    for key in LONG_LISTS:
        mine, theirs = base.rows(key).blocks, after.rows(key).blocks
        assert len(mine) == 2
        assert all(block is known for block, known in zip(theirs, mine, strict=True))
        assert all(block.json is known.json for block, known in zip(theirs, mine, strict=True))
    assert after.to_bytes() == orjson.dumps(after.raw)
    assert (len(base.raw["snapshots"]), len(after.raw["snapshots"])) == (258, 261)
    assert isinstance(after.raw["snapshots"], list)
    assert isinstance(after.raw["snapshot-log"], list)
    assert after.text_size() == TextSize.of(after.to_bytes())


def test_parsed_metadata_is_written_from_blocks_that_the_next_version_shares() -> None:
    read = TableMetadata.parse(grown(documents.metadata(), 2 * BLOCK_ROWS).to_bytes())
    read.to_bytes()
    after = grown(read, 1)
    assert after.snapshot_rows.blocks[0] is read.snapshot_rows.blocks[0]
    assert after.snapshot_rows.since(read.snapshot_rows) is not None
    assert after.log_rows.since(read.log_rows) is not None


class ForgottenMeanwhile(TableMetadata):
    """Another thread, short of memory, has the text dropped while one reads it."""

    def rows(self, key: str) -> Rows:
        self.forget_text()
        return super().rows(key)


def test_a_text_that_another_thread_drops_is_read_all_the_same() -> None:
    metadata = ForgottenMeanwhile.parse(orjson.dumps(V2))
    text = metadata.to_bytes()
    assert b"".join(part if isinstance(part, bytes) else part.json for part in metadata.json_parts()) == text


def test_slashes_at_the_end_of_a_location_do_not_count() -> None:
    assert documents.metadata(location="s3://a/b//").location == "s3://a/b"
    assert strip_trailing_slash("s3://") == "s3://"
    assert strip_trailing_slash("/") == "/"
    assert strip_trailing_slash("file:/a b/") == "file:/a b"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'{"format-version": 2', b'"x"', b"\xff", b"NaN"])
def test_json_that_is_not_metadata_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidInput, match="table metadata"):
        TableMetadata.parse(text)


def test_values_that_json_cannot_express_are_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        documents.metadata().replace(location="\ud800").to_bytes()
