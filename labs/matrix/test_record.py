"""The recorder: it passes requests on unchanged, and two recordings of one verb are equal."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import iceberg_hms
from labs.matrix.placeholders import Placeholders
from labs.matrix.record import TOKEN, serving

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})


@pytest.fixture
def catalog(metastore: Any) -> Any:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        yield catalog


def test_what_a_client_sends_is_noted_and_lands(catalog: Any) -> None:
    catalog.create_namespace("recorded")
    with serving(catalog, 0) as (capture, uri):
        client = load_catalog("rest", type="rest", uri=uri, token=TOKEN)
        for name in ("recorded.one", "recorded.two"):
            table = client.create_table(name, schema=ROWS.schema)
            table.append(ROWS)
            assert table.scan().to_arrow().num_rows == len(ROWS)

    first, second = capture.commits
    assert first["headers"]["User-Agent"].lower().startswith("pyiceberg/")
    assert first["own_manifests"] == [
        {"content": "data", "added_files_count": 1, "existing_files_count": 0, "deleted_files_count": 0}
    ]
    assert first != second
    assert Placeholders().replaced(first) == Placeholders().replaced(second)


def test_another_writer_can_commit_first_and_the_recorder_notes_what_the_client_sends_then(catalog: Any) -> None:
    catalog.create_namespace("overtaken")
    with serving(catalog, 0) as (capture, uri):
        client = load_catalog("rest", type="rest", uri=uri, token=TOKEN)
        table = client.create_table(
            "overtaken.t", schema=ROWS.schema, properties={"iceberg-hms.rebase-appends": "none"}
        )
        other = client.load_table("overtaken.t")
        capture.overtake = lambda: other.append(ROWS)
        table.append(ROWS)
        assert client.load_table("overtaken.t").scan().to_arrow().num_rows == 2 * len(ROWS)

    assert [commit["status"] for commit in capture.commits] == [409, 200, 200]


def test_equal_values_get_equal_placeholders() -> None:
    one, two = "a" * 8 + "-aaaa" * 3 + "-" + "a" * 12, "b" * 8 + "-bbbb" * 3 + "-" + "b" * 12
    given = {
        "requirements": [{"uuid": one}, {"snapshot-id": 77}],
        "updates": [
            {"uuid": two, "snapshot": {"snapshot-id": 88, "parent-snapshot-id": 77, "timestamp-ms": 5}},
            {"uuid": one, "location": "file:/home/somebody/t", "manifest-list": "/home/somebody/t/x.avro"},
            {"current-snapshot-id": -1, "name": "main"},
        ],
    }
    recorded = Placeholders().replaced(given)
    zero = "00000000-0000-0000-0000-00000000000"
    assert recorded["requirements"] == [{"uuid": f"{zero}1"}, {"snapshot-id": 1001}]
    assert recorded["updates"][0] == {
        "uuid": f"{zero}2",
        "snapshot": {"snapshot-id": 1002, "parent-snapshot-id": 1001, "timestamp-ms": 0},
    }
    assert recorded["updates"][1] == {
        "uuid": f"{zero}1",
        "location": "file:/lake/1",
        "manifest-list": "file:/lake/2.avro",
    }
    assert recorded["updates"][2] == {"current-snapshot-id": -1, "name": "main"}
    assert "somebody" not in json.dumps(recorded)
