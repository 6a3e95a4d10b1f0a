from __future__ import annotations

import json

from iceberg_hms.rest.log_lines import TEXT_MAX, cut, json_line, time_of
from tests.security.callers import ByHand


def test_a_line_has_only_printable_ascii_and_reads_back() -> None:
    fields = {"a": "".join(map(chr, (*range(0x180), 0x2028, 0xFFFE, 0x1F600)))}
    line = json_line(fields)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == fields


def test_a_long_text_says_how_long_it_is() -> None:
    assert cut("x" * TEXT_MAX) == "x" * TEXT_MAX
    assert cut("x" * (TEXT_MAX + 1)) == "x" * TEXT_MAX + f"... {TEXT_MAX + 1} characters"


def test_times_are_utc_to_the_millisecond() -> None:
    clock = ByHand()
    assert time_of(clock).endswith("Z")
    assert len(time_of(clock)) == len("2026-11-22T16:12:48.031Z")
