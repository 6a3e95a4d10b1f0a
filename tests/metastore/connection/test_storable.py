from __future__ import annotations

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput
from iceberg_hms.metastore.connection.storable import cut, fits, is_key, require, require_key, require_lockable

EMOJI = "\U0001f600"


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("", True),
        ("x" * 8, True),
        ("x" * 9, False),
        ("\u00fc" * 4, True),
        ("\u00fc" * 5, False),
        (EMOJI * 2, True),
        (EMOJI * 3, False),
        ("a\0b", False),
        ("\ud800", False),
    ],
)
def test_a_column_of_eight_bytes(text: str, held: bool) -> None:
    assert fits(text, 8) is held


@pytest.mark.parametrize("text", ["x" * 8, "a b", "write.format"])
def test_keys_are_printable_ascii(text: str) -> None:
    assert is_key(text, 12)
    require_key("a key", text, 12)


@pytest.mark.parametrize("text", ["", "x" * 13, " a", "a ", "a\n", "\u00fc", "a\0b"])
def test_other_keys_are_refused(text: str) -> None:
    assert not is_key(text, 12)
    with pytest.raises(InvalidInput, match="a key") as caught:
        require_key("a key", text, 12)
    assert "12" in caught.value.next_step


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("12345678", "12345678"),
        ("123456789", "12345..."),
        (EMOJI * 3, EMOJI + "..."),
        ("a\0b", "ab"),
        ("a\ud800", "a?"),
    ],
)
def test_what_is_cut_says_so_and_fits(text: str, held: str) -> None:
    assert cut(text, 8) == held
    assert fits(held, 8)


def test_what_must_be_held_is_refused_with_the_limit() -> None:
    require("the owner", "x" * 8, 8)
    with pytest.raises(InvalidInput, match="the owner") as caught:
        require("the owner", EMOJI * 3, 8)
    assert "8 bytes" in caught.value.next_step


def test_the_metastore_is_asked_for_its_release_only_for_long_names() -> None:
    asked = []

    def wide() -> bool:
        asked.append(True)
        return True

    require_lockable(TableName("db", "t" * 128), wide)
    assert not asked
    require_lockable(TableName("db", "t" * 256), wide)
    assert asked
    for length, is_wide in ((257, True), (129, False)):
        with pytest.raises(InvalidInput, match="the table's name"):
            require_lockable(TableName("db", "t" * length), lambda is_wide=is_wide: is_wide)
