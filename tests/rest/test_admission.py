from __future__ import annotations

import gc
import tracemalloc

import orjson
import pytest

from iceberg_hms.errors import QueueFull
from iceberg_hms.rest.admission import Admission, count_values, parsed_bytes

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
    estimate = parsed_bytes(body, count_values(body))
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


def test_each_caller_has_so_many_requests() -> None:
    admission = Admission(2, 1_000)
    with admission.enter("a"):
        with admission.enter("a"), pytest.raises(QueueFull, match="2 requests of this caller"):
            admission.enter("a")
        with admission.enter("a"), admission.enter("b"):
            assert {name: share.requests for name, share in admission.shares.items()} == {"a": 2, "b": 1}
    assert admission.shares == {}


def test_one_caller_holds_half_of_the_memory_and_all_hold_no_more_than_it() -> None:
    admission = Admission(9, 1_000)
    with admission.enter("a") as first, admission.enter("b") as second, admission.enter("c") as third:
        first.hold(300)
        first.hold(200)
        with pytest.raises(QueueFull, match="too much memory"):
            first.hold(1)
        second.hold(500)
        with pytest.raises(QueueFull):
            third.hold(1)
    assert admission.memory == 0
    with admission.enter("c") as third:
        third.hold(500)
        assert admission.memory == 500
