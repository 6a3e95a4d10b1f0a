"""What an update changes; tests/security/test_protected_properties.py attacks it through the server."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.errors import InvalidInput
from iceberg_hms.rest.access import protected

LOCK = "iceberg-hms.lock"


def setting(**properties: Any) -> dict[str, Any]:
    return {"action": "set-properties", "updates": properties}


def test_what_other_properties_say_is_not_looked_at() -> None:
    updates: list[dict[str, Any]] = [setting(a="b"), {"action": "remove-properties", "removals": ["a"]}]
    updates += [
        {"action": "set-properties", "updates": "no object"},
        {"action": "remove-properties", "removals": 7},
        {},
    ]
    assert not protected.touches(updates)
    assert protected.changed_by(updates, {}) == []
    assert protected.without_unchanged(updates, {}) == updates


def test_a_set_and_a_removal_are_changes_of_what_differs() -> None:
    removal = {"action": "remove-properties", "removals": [LOCK]}
    assert protected.touches([removal])
    assert protected.changed_by([removal], {}) == []
    assert protected.changed_by([removal], {LOCK: "zookeeper"}) == [LOCK]
    assert protected.changed_by([setting(**{LOCK: "zookeeper"})], {LOCK: "zookeeper"}) == []
    assert protected.changed_by([setting(**{LOCK: "zookeeper"})], {}) == [LOCK]


def test_an_unchanged_value_is_left_out_so_that_it_sets_nothing_back() -> None:
    kept = protected.without_unchanged([setting(**{LOCK: "hms", "a": "b"})], {LOCK: "hms"})
    assert kept == [setting(a="b")]


@pytest.mark.parametrize("value", ["junk", None, 7, ["hms"]])
def test_a_value_that_means_nothing_is_refused_unless_it_is_there(value: Any) -> None:
    with pytest.raises(InvalidInput, match="rebase-appends"):
        protected.changed({"iceberg-hms.rebase-appends": value, "a": 1}, {"iceberg-hms.rebase-appends": "all"})
    assert protected.changed({LOCK: "junk"}, {LOCK: "junk"}) == []


def test_a_truth_value_is_no_text() -> None:
    with pytest.raises(InvalidInput, match="exclusive must be"):
        protected.changed({"iceberg-hms.exclusive": True}, {})


def test_a_server_that_marks_its_tables_expects_the_mark() -> None:
    assert protected.marks_of_new_tables(Settings(zookeeper="zk:2181", lock="zookeeper")) == {LOCK: "zookeeper"}
    assert protected.marks_of_new_tables(Settings()) == {}


def test_who_owns_a_namespace_and_where_it_lies_is_protected() -> None:
    assert protected.checked_namespace({"comment": "x", "location": "file:/x"}, ["a"]) == ["location"]
    assert protected.checked_namespace({}, ["hive.metastore.database.owner"]) == ["hive.metastore.database.owner"]
