from __future__ import annotations

import gc
import tracemalloc

import orjson
import pytest

from iceberg_hms.format.metadata.parsed_size import TextSize, count_values

MANY = 20_000


def many(value: bytes) -> bytes:
    return b"[" + b",".join([value] * MANY) + b"]"


SHAPES = {
    "lists": many(b"[]"),
    "lists in lists": many(b"[[]]"),
    "objects": many(b"{}"),
    "objects of one field": many(b'{"a":0}'),
    "objects in objects": many(b'{"a":{"a":{"a":{}}}}'),
    "objects of six fields": many(b'{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0}'),
    "numbers": b"[" + b",".join(b"%d" % number for number in range(1_000, 1_000 + MANY)) + b"]",
    "fractions": many(b"1.5"),
    "strings": many(b'"ab"'),
    "wide letters": many('"😀"'.encode()),
    "one wide letter in a long text": '"😀'.encode() + b"x" * 100_000 + b'"',
    "an escaped wide letter in a long text": b'"\\ud83d\\ude00' + b"x" * 100_000 + b'"',
    "one large object": orjson.dumps({f"key{number}": "v" for number in range(MANY)}),
    "an object that has just grown": orjson.dumps({f"key{number}": "v" for number in range(21_846)}),
    "long text": b'"' + b"x" * 100_000 + b'"',
    "a schema": orjson.dumps(
        {"fields": [{"id": i, "name": f"column_{i}", "required": False, "type": "string"} for i in range(MANY // 10)]}
    ),
}


@pytest.mark.parametrize("body", SHAPES.values(), ids=SHAPES)
def test_no_shape_takes_more_than_the_estimate(body: bytes) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        value = orjson.loads(body)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert value is not None
    estimate = TextSize.of(body).parsed_bytes
    assert taken <= estimate <= 6 * taken


def test_values_are_counted_by_what_opens_and_divides_them() -> None:
    assert [count_values(text) for text in (b"", b"1", b"{}", b"[1,2]", b'{"a":[1,{"b":2}]}', b'"[,]"')] == [
        0,
        0,
        1,
        2,
        6,
        2,
    ]


@pytest.mark.parametrize("letter", ["b", "ä"])
def test_parts_of_a_text_add_up_to_the_whole(letter: str) -> None:
    text = orjson.dumps([{"a": [1, 2]}, {letter: {}}, [[], []]])
    for at in range(len(text)):
        assert TextSize.sum(map(TextSize.of, (text[:at], text[at:]))) == TextSize.of(text)
