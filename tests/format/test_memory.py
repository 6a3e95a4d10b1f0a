"""How much memory JSON takes."""

from __future__ import annotations

import gc
import tracemalloc

import orjson
import pytest

from iceberg_hms.format.memory import estimated_bytes


def document(rows: int) -> dict[str, object]:
    return {
        "properties": {f"owner-{number}": "somebody" * 3 for number in range(rows // 4)},
        "rows": [
            {"id": 2**60 + number, "list": f"file:/warehouse/table/metadata/snap-{number}.avro", "summary": {"a": "b"}}
            for number in range(rows)
        ],
    }


@pytest.mark.parametrize("rows", [1, 40, 3_000])
def test_it_is_about_what_the_decoder_takes(rows: int) -> None:
    text = orjson.dumps(document(rows))
    orjson.loads(text)
    gc.collect()
    tracemalloc.start()
    try:
        value = orjson.loads(text)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.6 < estimated_bytes(value) / taken < 1.7


def test_an_empty_list_and_an_empty_object_take_little() -> None:
    assert 0 < estimated_bytes([]) < 100
    assert 0 < estimated_bytes({}) < 100


def test_a_long_list_is_not_looked_through() -> None:
    class Seen(list[int]):
        looked = 0

        def __sizeof__(self) -> int:
            Seen.looked += 1
            return 64

    assert estimated_bytes([Seen() for _ in range(1_000)]) > 1_000 * 64
    assert Seen.looked < 20
