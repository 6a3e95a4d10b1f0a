"""The table of keys, and docs/migration.md, which lists it."""

from __future__ import annotations

from collections import Counter

import pytest

from iceberg_hms.migration.known_keys import KEYS, KeyPlace, Verdict, find, is_interpreted
from tests.migration.key_table import listed_keys, text_of_keys


def test_the_documents_list_the_keys_as_they_are() -> None:
    """Else run `python -m tests.migration.key_table`."""
    assert listed_keys() == text_of_keys()


def test_each_key_has_one_meaning_in_a_place_whatever_its_case() -> None:
    counts = Counter((place, key.name.lower()) for key in KEYS for place in key.places)
    assert [each for each, count in counts.items() if count > 1] == []
    for key in KEYS:
        for place in key.places:
            for name in (key.name, key.name.upper(), key.name.lower()):
                assert find(place, name.replace("*", "0")) is key


def test_a_refused_key_says_why_and_what_to_do_and_the_others_need_no_advice() -> None:
    for key in KEYS:
        assert key.why
        assert bool(key.next_step) is (key.verdict is Verdict.REFUSED), key.name
        assert key.verdict is Verdict.REFUSED or not (key.harmless or key.formats or key.is_final), key.name


@pytest.mark.parametrize(
    ("parameter", "interpreted"),
    [
        ("etl.job", False), ("owner.team", False), ("parquet.new", True), ("Parquet.New", True), ("x.parquet.y", True),
        ("x.orc.y", True), ("spark.sql.new", True), ("hive.new", True), ("impala.new", True), ("trino.new", True),
        ("parquets", False), ("skip.rows", True), ("transactional_new", True),
    ],
)  # fmt: skip
def test_parameters_that_engines_may_read_are_known_by_how_they_begin(parameter: str, interpreted: bool) -> None:
    assert is_interpreted(parameter) is interpreted


def test_what_is_unknown_in_a_place_is_not_found() -> None:
    assert find(KeyPlace.OPTION, "etl") is None
    assert find(KeyPlace.PARAMETER, "pathGlobFilter") is None
    assert find(KeyPlace.COLUMN, "pathGlobFilter") is None
