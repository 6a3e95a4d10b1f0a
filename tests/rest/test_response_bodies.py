"""ResponseBodyCache that many answers share."""

from __future__ import annotations

import gzip
import threading

from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.rest.response_bodies import KEPT_BODIES, ResponseBody, ResponseBodyCache


def test_concurrent_requests_render_a_body_once() -> None:
    bodies, made = ResponseBodyCache(), list[str]()

    def render() -> list[bytes]:
        made.append("made")
        return [b"x" * 100]

    found: list[ResponseBody] = []
    threads = [threading.Thread(target=lambda: found.append(bodies.get("a", render))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["made"]
    assert all(body is found[0] for body in found)


def test_the_cache_is_emptied_while_a_body_is_rendered() -> None:
    """On the event loop, where memory is short: all other requests would wait for the rendering."""
    bodies, emptied = ResponseBodyCache(), threading.Event()
    kept = bodies.get("kept", lambda: [b"x"])

    def render() -> list[bytes]:
        def empty() -> None:
            bodies.clear()
            emptied.set()

        threading.Thread(target=empty).start()
        assert emptied.wait(30), "it waits for the rendering"
        return [b"y"]

    assert bodies.get("new", render).data == b"y"
    assert bodies.get("kept", lambda: [b"again"]) is not kept


def test_a_body_is_compressed_once() -> None:
    body = ResponseBody([b"x" * 9_999, b"y"], MemoryBudget().share())
    assert body.packed() is body.packed()
    assert gzip.decompress(body.packed()) == body.data


def test_the_cache_keeps_the_bodies_used_last() -> None:
    bodies = ResponseBodyCache()
    first = bodies.get("0", lambda: [b"0"])
    for number in range(1, KEPT_BODIES):
        bodies.get(str(number), lambda: [b""])
    assert bodies.get("0", lambda: [b"again"]) is first
    bodies.get("new", lambda: [b""])
    assert bodies.get("0", lambda: [b"again"]) is first, "it was asked for last"
    assert bodies.get("1", lambda: [b"again"]).data == b"again"


def test_the_cache_is_bounded_in_bytes_and_always_keeps_the_last_body() -> None:
    bodies = ResponseBodyCache(max_bytes=250)
    for name in ("a", "b", "c"):
        bodies.get(name, lambda: [b"x" * 100])
    assert bodies.get("b", lambda: [b"again"]).data == b"x" * 100
    assert bodies.get("a", lambda: [b"again"]).data == b"again"
    assert bodies.get("large", lambda: [b"y" * 1_000]).data == b"y" * 1_000
    assert bodies.get("large", lambda: [b"again"]).data == b"y" * 1_000


def test_a_failed_rendering_is_tried_again() -> None:
    bodies = ResponseBodyCache()

    def broken() -> list[bytes]:
        raise ValueError("broken")

    for _ in range(2):
        try:
            bodies.get("a", broken)
        except ValueError:
            continue
    assert bodies.get("a", lambda: [b"x"]).data == b"x"
