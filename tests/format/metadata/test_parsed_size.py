from __future__ import annotations

import orjson
import pytest

from iceberg_hms.format.metadata.parsed_size import is_out_of_proportion, parsed_bytes
from tests.format import documents

#: A text of this length is never too small to be out of proportion.
LARGE = 64 * 1024 * 1024


def test_parts_of_a_text_add_up_to_the_whole() -> None:
    text = orjson.dumps([{"a": [1, 2]}, {"b": {}}, [[], []]])
    assert parsed_bytes(text) > 0
    for at in range(len(text)):
        assert parsed_bytes(text[:at]) + parsed_bytes(text[at:]) == parsed_bytes(text)


@pytest.mark.parametrize(("text", "expected"), [(b"[],", True), (documents.metadata().to_bytes(), False)])
def test_a_text_of_almost_nothing_but_values_is_out_of_proportion(text: bytes, expected: bool) -> None:
    times = LARGE // len(text)
    assert is_out_of_proportion(parsed_bytes(text) * times, len(text) * times) is expected


def test_a_small_text_is_never_out_of_proportion() -> None:
    text = b"[]," * 100_000
    assert not is_out_of_proportion(parsed_bytes(text), len(text))
