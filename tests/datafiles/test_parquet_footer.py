"""Maps of an old form, in the footers of files that parquet-java wrote."""

from __future__ import annotations

import pytest

from iceberg_hms.datafiles.parquet_footer import maps_of_old_form
from iceberg_hms.errors import CorruptFile
from tests.file_matrix import record

FILES = record.load("parquet").files


def footer_of(name: str) -> bytes:
    data = FILES[name]
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("map by Java", set()),
        ("map of MAP_KEY_VALUE", set()),
        ("MAP_KEY_VALUE", {"c"}),
        ("MAP_KEY_VALUE of key_value", {"c"}),
        ("list in two levels", set()),
        ("decimal(30, 5) in binary", set()),
    ],
)
def test_only_what_java_does_not_take_for_a_map_is_named(name: str, expected: set[str]) -> None:
    assert maps_of_old_form("file:/a", footer_of(name)) == expected


def test_a_footer_that_ends_anywhere_is_damaged_or_says_what_the_whole_one_does() -> None:
    whole = footer_of("MAP_KEY_VALUE")
    ends = 0
    for length in range(len(whole)):
        try:
            assert maps_of_old_form("file:/a", whole[:length]) <= {"c"}
        except CorruptFile:
            ends += 1
    assert 0 < ends < len(whole)


#: What makes a footer worth parsing.
SIGN = b"\x15\x02\x15\x04"


@pytest.mark.parametrize(
    "start", [b"\x19\xfc\xff\xff\xff\xff\x0f", b"\x2b\x01", b"\x29\x1c\x36", b"\x2f", b"\x29\x15\x02"]
)
def test_what_is_no_footer_is_damaged(start: bytes) -> None:
    with pytest.raises(CorruptFile):
        maps_of_old_form("file:/a", start + SIGN)
