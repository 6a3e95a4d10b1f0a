from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from starlette.responses import Response

from iceberg_hms.errors import QueueFull, ResourceExhausted
from iceberg_hms.format.metadata.rows import Rows
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.rest.response_bodies import ResponseBody, ResponseBodyCache
from iceberg_hms.rest.responses import (
    COMPRESS_FROM_BYTES,
    SharedResponse,
    commit_response,
    compressed,
    entity_tag,
    is_loopback,
    loaded_response,
    not_modified,
    packed_response,
    referenced_only,
    table_response,
    tag_matches,
    worth_compressing,
)


def test_metadata_is_sent_byte_for_byte() -> None:
    data = b'{"odd" :  1.50, "unknown-field": [ ]}'
    response = table_response(data, "file:/m.json", MemoryBudget(), tag='W/"1"')
    assert data in response.body
    assert orjson.loads(response.body).keys() == {"metadata-location", "metadata", "config"}
    assert response.headers["etag"] == 'W/"1"'


def test_a_staged_table_has_no_location_and_no_tag() -> None:
    response = table_response(b"{}", None, MemoryBudget())
    assert orjson.loads(response.body) == {"metadata": {}, "config": {}}
    assert "etag" not in response.headers


def test_a_commit_and_a_load_of_one_version_have_the_same_etag() -> None:
    response = commit_response(TableMetadata({}), "file:/m.json", ResponseBodyCache())
    assert orjson.loads(response.body) == {"metadata-location": "file:/m.json", "metadata": {}}
    loaded = loaded_response(TableMetadata({}), "file:/m.json", "all", ResponseBodyCache())
    assert response.headers["etag"] == loaded.headers["etag"]


def test_commits_of_one_group_share_their_bytes() -> None:
    bodies, metadata = ResponseBodyCache(), TableMetadata({"x": "y" * 10_000})
    first, second = (commit_response(metadata, "file:/m.json", bodies) for _ in range(2))
    assert first.body is second.body
    other = commit_response(TableMetadata({}), "file:/n.json", bodies)
    assert other.body != first.body

    async def both() -> list[Response]:
        return await asyncio.gather(*(compressed(each, run) for each in (first, second)))

    runs: list[object] = []

    async def run(function: Callable[[], bytes]) -> bytes:
        runs.append(function)
        await asyncio.sleep(0)
        return function()

    packed = [response.body for response in asyncio.run(both())]
    assert packed[0] is packed[1]
    assert len(runs) == 1
    assert gzip.decompress(packed[0]).startswith(b'{"metadata-location":"file:/m.json"')


def test_loads_of_one_version_share_a_body_that_is_rendered_once() -> None:
    bodies, table = ResponseBodyCache(), metadata()
    for snapshots in ("all", "refs"):
        first, again = (loaded_response(table, "file:/m.json", snapshots, bodies) for _ in range(2))
        assert first.body is again.body
    later = loaded_response(metadata(**{"last-updated-ms": 4}), "file:/n.json", "all", bodies)
    assert later.body != first.body


def test_compressed_blocks_of_a_long_history_are_sent_as_stored() -> None:
    snapshots = Rows({"snapshot-id": number, "manifest-list": f"file:/l{number}"} for number in range(300))
    metadata = TableMetadata({"format-version": 2, "snapshots": snapshots, "refs": {}})
    body = commit_response(metadata, "file:/m.json", ResponseBodyCache())
    assert isinstance(body, SharedResponse)
    assert orjson.loads(body.body) == {"metadata-location": "file:/m.json", "metadata": metadata.raw}
    assert gzip.decompress(body.shared.packed()) == body.body
    assert snapshots.blocks[0].deflated in body.shared.packed()


def test_compression_without_a_thread_can_be_tried_again() -> None:
    response = big()

    async def full(function: Callable[[], bytes]) -> bytes:
        raise QueueFull("no thread")

    async def at_once(function: Callable[[], bytes]) -> bytes:
        return function()

    shared = ResponseBody([b"x" * COMPRESS_FROM_BYTES], MemoryBudget().share())

    async def scene() -> None:
        with pytest.raises(QueueFull):
            await compressed(response, full)
        assert response.body == big().body
        with pytest.raises(QueueFull):
            await shared.pack(full)
        await shared.pack(at_once)

    asyncio.run(scene())
    assert gzip.decompress(shared.packed()) == shared.data


@pytest.mark.parametrize(
    "other", [{"table-uuid": "b", "last-updated-ms": 1}, {"table-uuid": "a", "last-updated-ms": 2}]
)
def test_a_reused_metadata_file_name_does_not_reuse_responses(other: dict[str, Any]) -> None:
    bodies, gone = ResponseBodyCache(), {"table-uuid": "a", "last-updated-ms": 1}
    for answer in (commit_response, lambda *given: loaded_response(*given[:2], "all", given[2])):
        before, after = (answer(TableMetadata(each), "file:/v1.metadata.json", bodies) for each in (gone, other))
        assert orjson.loads(after.body)["metadata"] == other
        assert before.headers["etag"] != after.headers["etag"]


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


def test_snapshots_refs_drops_only_other_snapshots() -> None:
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


def test_a_compressed_response_has_the_headers_of_one() -> None:
    async def compress() -> Response:
        return await compressed(big(), asyncio.to_thread)

    response = asyncio.run(compress())
    assert gzip.decompress(response.body) == big().body
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["content-length"] == str(len(response.body))
    assert response.headers["vary"] == "Accept-Encoding"


def test_what_is_compressed_already_is_not_compressed_again() -> None:
    memory = MemoryBudget(10_000)
    data = gzip.compress(random.Random(1).randbytes(2 * COMPRESS_FROM_BYTES))
    response = packed_response(data, memory.share())
    assert response.body == data
    assert dict(response.headers) == {
        "content-length": str(len(data)),
        "content-type": "application/json",
        "content-encoding": "gzip",
        "vary": "Accept-Encoding",
    }
    assert memory.held() == len(data)
    assert not worth_compressing(response, "gzip", "10.0.0.7", on_loopback=True)
    with pytest.raises(ResourceExhausted):
        packed_response(bytes(10_000), memory.share())


@pytest.mark.parametrize(
    ("accepted", "peer", "on_loopback", "worth"),
    [
        ("br;q=1.0, gzip;q=0.5", "10.0.0.7", False, True),
        ("gzip", "127.0.0.1", False, False),
        ("gzip", "127.0.0.1", True, True),
        ("gzip", "::1", False, False),
        ("gzip", None, False, False),
        ("", "10.0.0.7", False, False),
        ("", "127.0.0.1", True, False),
        ("gzip;q=0", "10.0.0.7", False, False),
        ("br", "10.0.0.7", False, False),
    ],
)
def test_responses_are_compressed_for_clients_on_other_machines(
    accepted: str, peer: str | None, on_loopback: bool, worth: bool
) -> None:
    assert worth_compressing(big(), accepted, peer, on_loopback=on_loopback) is worth


def test_small_responses_are_not_compressed() -> None:
    assert not worth_compressing(Response(b"x"), "gzip", "10.0.0.7", on_loopback=True)


@pytest.mark.parametrize(("host", "local"), [("127.0.0.1", True), ("::1", True), ("localhost", True), (None, True)])
def test_loopback_addresses_are_recognized(host: str | None, local: bool) -> None:
    assert is_loopback(host) is local


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.7", "::", "metastore.example", ""])
def test_other_addresses_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)
