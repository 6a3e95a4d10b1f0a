from __future__ import annotations

import gzip

import orjson
import pytest
from starlette.responses import Response

from iceberg_hms.format.metadata import TableMetadata
from iceberg_hms.rest.answers import (
    COMPRESS_FROM_BYTES,
    commit_response,
    compressed,
    entity_tag,
    is_loopback,
    not_modified,
    referenced_only,
    table_response,
    tag_matches,
)
from iceberg_hms.rest.bodies import Bodies


def test_metadata_goes_out_as_the_bytes_that_came_in() -> None:
    data = b'{"odd" :  1.50, "unknown-field": [ ]}'
    response = table_response(data, "file:/m.json", tag='W/"1"')
    assert data in response.body
    assert orjson.loads(response.body).keys() == {"metadata-location", "metadata", "config"}
    assert response.headers["etag"] == 'W/"1"'


def test_a_staged_table_has_no_location_and_no_tag() -> None:
    response = table_response(b"{}", None)
    assert orjson.loads(response.body) == {"metadata": {}, "config": {}}
    assert "etag" not in response.headers


def test_a_commit_is_answered_with_what_a_load_would_be_tagged_with() -> None:
    response = commit_response(TableMetadata({}), "file:/m.json", Bodies())
    assert orjson.loads(response.body) == {"metadata-location": "file:/m.json", "metadata": {}}
    assert response.headers["etag"] == entity_tag("file:/m.json", "all")


def test_commits_of_one_group_are_answered_with_the_same_bytes() -> None:
    bodies, metadata = Bodies(), TableMetadata({"x": "y" * 10_000})
    first, second = (commit_response(metadata, "file:/m.json", bodies) for _ in range(2))
    assert first.body is second.body
    other = commit_response(TableMetadata({}), "file:/n.json", bodies)
    assert other.body != first.body
    packed = [compressed(each, "gzip", "10.0.0.7").body for each in (first, second)]
    assert packed[0] is packed[1]
    assert gzip.decompress(packed[0]).startswith(b'{"metadata-location":"file:/m.json"')


def test_tags_differ_by_file_and_by_snapshots() -> None:
    tags = {entity_tag(location, mode) for location in ("file:/a", "file:/b") for mode in ("all", "refs")}
    assert len(tags) == 4


@pytest.mark.parametrize(
    ("header", "matches"),
    [
        (None, False),
        ("", False),
        ('W/"a"', True),
        ('"a"', True),
        ('W/"b", W/"a"', True),
        ("*", True),
        ('W/"b"', False),
        ("a", False),
    ],
)
def test_a_tag_is_compared_weakly(header: str | None, matches: bool) -> None:
    assert tag_matches(header, 'W/"a"') is matches


def test_not_modified_repeats_the_tag_and_has_no_body() -> None:
    response = not_modified('W/"a"')
    assert (response.status_code, response.body, response.headers["etag"]) == (304, b"", 'W/"a"')


def metadata(**fields: object) -> TableMetadata:
    raw = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:/t",
        "last-sequence-number": 3,
        "last-updated-ms": 3,
        "last-column-id": 1,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "snapshots": [
            {"snapshot-id": i, "sequence-number": i, "timestamp-ms": i, "manifest-list": f"file:/{i}", "kept": i}
            for i in (1, 2, 3)
        ],
        "current-snapshot-id": 3,
        "snapshot-log": [{"snapshot-id": i, "timestamp-ms": i} for i in (1, 2, 3)],
        "unknown": {"a": 1},
        **fields,
    }
    return TableMetadata.parse(orjson.dumps(raw))


def test_only_snapshots_of_refs_are_left_and_all_else_is_kept() -> None:
    refs = {"main": {"snapshot-id": 3, "type": "branch"}, "old": {"snapshot-id": 1, "type": "tag"}}
    whole = metadata(refs=refs)
    left = orjson.loads(referenced_only(whole))
    assert [snapshot["snapshot-id"] for snapshot in left["snapshots"]] == [1, 3]
    assert left["snapshots"][0]["kept"] == 1
    assert {**left, "snapshots": whole.raw["snapshots"]} == whole.raw
    assert len(whole.raw["snapshots"]) == 3


def test_a_table_without_refs_keeps_its_current_snapshot() -> None:
    left = orjson.loads(referenced_only(metadata()))
    assert [snapshot["snapshot-id"] for snapshot in left["snapshots"]] == [3]


def big() -> Response:
    return Response(b"x" * COMPRESS_FROM_BYTES, media_type="application/json")


def test_a_big_answer_is_compressed_for_another_machine() -> None:
    response = compressed(big(), "br;q=1.0, gzip;q=0.5", "10.0.0.7")
    assert gzip.decompress(response.body) == big().body
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["content-length"] == str(len(response.body))
    assert response.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("accepted", "peer"),
    [
        ("gzip", "127.0.0.1"),
        ("gzip", "::1"),
        ("gzip", None),
        ("", "10.0.0.7"),
        ("gzip;q=0", "10.0.0.7"),
        ("br", "10.0.0.7"),
    ],
)
def test_an_answer_is_left_alone_on_this_machine_and_for_clients_that_do_not_ask(
    accepted: str, peer: str | None
) -> None:
    response = compressed(big(), accepted, peer)
    assert response.body == big().body
    assert "content-encoding" not in response.headers


def test_a_small_answer_is_not_compressed() -> None:
    assert compressed(Response(b"x"), "gzip", "10.0.0.7").body == b"x"


@pytest.mark.parametrize(("host", "local"), [("127.0.0.1", True), ("::1", True), ("localhost", True), (None, True)])
def test_this_machine_is_known(host: str | None, local: bool) -> None:
    assert is_loopback(host) is local


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.7", "::", "metastore.example", ""])
def test_other_machines_are_not_this_one(host: str) -> None:
    assert not is_loopback(host)
