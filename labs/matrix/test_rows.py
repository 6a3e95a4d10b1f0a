"""The model of the matrix tells right rows from wrong ones."""

from __future__ import annotations

from collections import Counter

import pytest

from labs.matrix import rows
from labs.matrix.rows import BASE, BLIND, SERIALIZABLE, Effect, Meaning, Row, anomaly

HEAD = Counter(BASE)
A, B = rows.new_row("a"), rows.new_row("b")
EMPTY_DAY = rows.replace(lambda row: row.day == rows.NEW_DAY)


def both(first: Effect, second: Effect, promise: str = SERIALIZABLE) -> dict[str, Meaning]:
    return {"a": Meaning(first, promise, ""), "b": Meaning(second, promise, "")}


def test_two_appends_both_stay() -> None:
    assert anomaly(HEAD, both(rows.add, rows.add), HEAD + Counter([A, B])) is None
    assert anomaly(HEAD, both(rows.add, rows.add), HEAD + Counter([A])) == "lost write"
    assert anomaly(HEAD, both(rows.add, rows.add), HEAD + Counter([A, A, B])) == "a row twice"


@pytest.mark.parametrize("effect", [EMPTY_DAY, rows.add_if_absent, rows.upsert(rows.NEW_ID)])
def test_of_two_that_replace_one_key_one_stays(effect: Effect) -> None:
    last = B if effect is not rows.add_if_absent else A
    assert anomaly(HEAD, both(effect, effect), HEAD + Counter([last])) is None
    assert anomaly(HEAD, both(effect, effect), HEAD + Counter([A, B])) == "both insert"


def test_a_client_that_does_not_validate_may_add_what_it_planned() -> None:
    upsert = rows.upsert(rows.NEW_ID)
    assert anomaly(HEAD, both(upsert, upsert, BLIND), HEAD + Counter([A, B])) is None


def test_a_delete_that_was_undone_is_seen() -> None:
    one = rows.delete(lambda row: row.id == 1)
    left = HEAD - Counter([Row(1, "old", "d0")])
    assert anomaly(HEAD, both(one, rows.add), left + Counter([B])) is None
    assert anomaly(HEAD, both(one, rows.add), HEAD + Counter([B])) == "lost delete"


def test_a_verb_that_was_refused_leaves_nothing() -> None:
    only = {"a": Meaning(rows.add, SERIALIZABLE, "")}
    assert anomaly(HEAD, only, HEAD + Counter([A])) is None
    assert anomaly(HEAD, only, HEAD + Counter([A, B])) == "both insert"
    assert anomaly(HEAD, {}, HEAD) is None


def test_an_update_of_a_row_that_another_deleted_does_not_bring_it_back() -> None:
    verbs = both(rows.delete(lambda row: row.id == 1), rows.update(1))
    assert anomaly(HEAD, verbs, HEAD - Counter([Row(1, "old", "d0")])) is None
    assert anomaly(HEAD, verbs, HEAD - Counter([Row(1, "old", "d0")]) + Counter([Row(1, "b", "d0")])) == "lost delete"
