"""How far tables were followed, and the token that says so."""

from __future__ import annotations

import orjson
import pytest

from iceberg_hms.catalog.watching import positions as module
from iceberg_hms.catalog.watching.head_moves import Head
from iceberg_hms.catalog.watching.positions import Position, Positions, from_token, to_token
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput


def name(number: int) -> TableName:
    return TableName("nyc", f"t{number}")


def position(number: int) -> Position:
    return Position(f"uuid-{number}", f"file:/{number}.metadata.json", Head(number + 1, number))


def some(count: int) -> Positions:
    found = Positions()
    for number in range(count):
        found = found.with_position(name(number), position(number))
    return found


def test_versions_differ_and_share_the_rest() -> None:
    before = some(200)
    after = before.without(name(3)).with_position(name(4), position(7))
    assert (len(before), len(after)) == (200, 199)
    assert before[name(3)] == position(3)
    assert before[name(4)] == position(4)
    assert (name(3) in after, after[name(4)]) == (False, position(7))
    assert dict(after) == {**{name(each): position(each) for each in range(200) if each != 3}, name(4): position(7)}
    assert name(3) in after.with_position(name(3), position(3))


def test_a_token_brings_everything_back() -> None:
    tables = Positions({name(1): position(1), TableName("logging", "events"): Position(None)})
    token = to_token(["nyc", "logging.events"], tables)
    assert from_token(token) == (frozenset({"nyc", "logging.events"}), tables)
    assert to_token(*from_token(token)) == token
    assert "\n" not in token


def test_a_token_has_about_300_characters_for_each_table() -> None:
    location = f"s3://lake/warehouse/nyc.db/{'t' * 40}/metadata/00001-{'u' * 36}.metadata.json"
    tables = {
        TableName("nyc", f"{'t' * 36}{each}"): Position("u" * 36, location, Head(2**62, 9)) for each in range(1_000)
    }
    assert len(to_token(["nyc"], Positions(tables))) < 300_000


@pytest.mark.parametrize(
    "damage",
    [
        lambda token: token[:-10],
        lambda token: "",
        lambda token: "[]",
        lambda token: "{}",
        lambda token: token.replace("uuid-1", "uuid-2"),
        lambda token: token.replace('"version":1', '"version":2'),
        lambda token: token.replace("new snapshots", "old snapshots"),
        lambda token: orjson.dumps({**orjson.loads(token), "state": None}).decode(),
        lambda token: 7,
        lambda token: "x" * (module.TOKEN_SIZE_MAX + 1),
    ],
)
def test_a_token_that_is_damaged_or_of_something_else_is_refused(damage) -> None:  # type: ignore[no-untyped-def]
    token = to_token(["nyc"], some(2))
    with pytest.raises(InvalidInput, match="The token of the watch"):
        from_token(damage(token))


def test_a_state_of_another_shape_is_refused() -> None:
    for state in ([["nyc"]], [["nyc"], [["nyc.t"]]], [["nyc"], 5]):
        raw = {"kind": "iceberg-hms new snapshots", "version": 1, "checksum": module.checksum(state), "state": state}
        with pytest.raises(InvalidInput, match="was changed"):
            from_token(orjson.dumps(raw).decode())


def test_the_number_of_tables_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TABLES_MAX", 3)
    full = some(3)
    with pytest.raises(InvalidInput, match="More than 3 tables"):
        full.with_position(name(3), position(3))
    assert len(full.with_position(name(1), position(5))) == 3
    assert len(full.without(name(1)).with_position(name(3), position(3))) == 3
