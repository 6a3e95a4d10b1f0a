"""Bodies that many answers share."""

from __future__ import annotations

import gzip
import threading

import pytest

from iceberg_hms.rest.bodies import KEPT, Bodies, Body


def test_a_body_is_rendered_once_whoever_asks() -> None:
    bodies, made = Bodies(), list[str]()

    def render() -> list[bytes]:
        made.append("made")
        return [b"x" * 100]

    found: list[Body] = []
    threads = [threading.Thread(target=lambda: found.append(bodies.get("a", render))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["made"]
    assert all(body is found[0] for body in found)


def test_a_body_is_compressed_once() -> None:
    body = Body([b"x" * 9_999, b"y"])
    assert body.packed() is body.packed()
    assert gzip.decompress(body.packed()) == body.data


def test_only_the_last_are_kept() -> None:
    bodies = Bodies()
    first = bodies.get("0", lambda: [b"0"])
    for number in range(1, KEPT):
        bodies.get(str(number), lambda: [b""])
    assert bodies.get("0", lambda: [b"again"]) is first
    bodies.get("new", lambda: [b""])
    assert bodies.get("0", lambda: [b"again"]) is first, "it was asked for last"
    assert bodies.get("1", lambda: [b"again"]).data == b"again"


def test_so_many_bytes_are_kept_and_the_last_body_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iceberg_hms.rest.bodies.KEPT_BYTES", 250)
    bodies = Bodies()
    for name in ("a", "b", "c"):
        bodies.get(name, lambda: [b"x" * 100])
    assert bodies.get("b", lambda: [b"again"]).data == b"x" * 100
    assert bodies.get("a", lambda: [b"again"]).data == b"again"
    assert bodies.get("large", lambda: [b"y" * 1_000]).data == b"y" * 1_000
    assert bodies.get("large", lambda: [b"again"]).data == b"y" * 1_000


def test_a_body_that_cannot_be_made_is_made_next_time() -> None:
    bodies = Bodies()

    def broken() -> list[bytes]:
        raise ValueError("broken")

    for _ in range(2):
        try:
            bodies.get("a", broken)
        except ValueError:
            continue
    assert bodies.get("a", lambda: [b"x"]).data == b"x"
