from __future__ import annotations

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import AccessDenied, AlreadyExists, InvalidInput, MetastoreUnavailable, NamespaceNotEmpty
from iceberg_hms.errors import NoSuchNamespace as Missing
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.storable import PARAMETERS_MAX
from iceberg_hms.metastore.tables.namespaces import COMMENT, LOCATION, OWNER, OWNER_TYPE, HmsNamespaces
from tests.metastore.fake_hms import DropAfter, FakeHms


@pytest.fixture
def namespaces(pool: ClientPool) -> HmsNamespaces:
    return HmsNamespaces(pool, "ada")


def test_properties_are_javas(namespaces: HmsNamespaces) -> None:
    namespaces.create("n", {LOCATION: "file:/n", COMMENT: "why", "k": "v"})
    assert namespaces.load("n") == {LOCATION: "file:/n", COMMENT: "why", "k": "v", OWNER: "ada", OWNER_TYPE: "USER"}
    assert namespaces.list() == ["db", "n"]
    assert namespaces.exists("n")
    assert not namespaces.exists("m")


def test_an_owner_of_any_type(namespaces: HmsNamespaces) -> None:
    namespaces.create("n", {OWNER: "team", OWNER_TYPE: "GROUP"})
    assert namespaces.load("n") == {OWNER: "team", OWNER_TYPE: "GROUP"}
    namespaces.create("m", {OWNER: "grace"})
    assert namespaces.load("m")[OWNER_TYPE] == "USER"
    namespaces.update("n", {OWNER: "admins", OWNER_TYPE: "ROLE"}, [])
    assert namespaces.load("n") == {OWNER: "admins", OWNER_TYPE: "ROLE"}
    namespaces.update("n", {}, [OWNER, OWNER_TYPE])
    assert namespaces.load("n") == {}


def test_updates_and_removals_are_one_change_that_loses_nothing(hms: FakeHms, namespaces: HmsNamespaces) -> None:
    namespaces.create("n", {"a": "1", "b": "1"})
    hms.databases["n"].catalogName = "hive"
    namespaces.update("n", {"a": "2", "c": "3"}, ["b", "never"])
    assert namespaces.load("n") == {"a": "2", "c": "3", OWNER: "ada", OWNER_TYPE: "USER"}
    assert hms.databases["n"].catalogName == "hive"
    assert hms.calls.count("alter_database") == 1


def test_what_hive_2_would_silently_leave_is_refused_before_anything_is_changed(
    hms: FakeHms, namespaces: HmsNamespaces
) -> None:
    namespaces.create("n", {COMMENT: "why", LOCATION: "file:/n"})
    for key in (COMMENT, LOCATION):
        with pytest.raises(InvalidInput, match=key):
            namespaces.update("n", {key: "other", "a": "1"}, [])
        with pytest.raises(InvalidInput, match=key):
            namespaces.update("n", {}, [key])
    assert "alter_database" not in hms.calls
    hms.version = "3.1.3"
    namespaces.update("n", {COMMENT: "because", LOCATION: "file:/m"}, [])
    assert (namespaces.load("n")[COMMENT], namespaces.load("n")[LOCATION]) == ("because", "file:/m")


@pytest.mark.parametrize(
    "properties", [{OWNER_TYPE: "USER"}, {OWNER: "a", OWNER_TYPE: "KING"}, {OWNER: "a", OWNER_TYPE: ""}]
)
def test_an_owner_type_without_sense_is_refused(
    properties: dict[str, str], hms: FakeHms, namespaces: HmsNamespaces
) -> None:
    with pytest.raises(InvalidInput):
        namespaces.create("n", properties)
    assert hms.calls == []


def test_a_namespace_has_only_so_many_properties(hms: FakeHms, namespaces: HmsNamespaces) -> None:
    full = {f"p{number:06}": "v" for number in range(PARAMETERS_MAX)}
    namespaces.create("full", {**full, LOCATION: "file:/n", COMMENT: "why"})
    with pytest.raises(InvalidInput, match="1,001 properties"):
        namespaces.create("n", {**full, "one": "more"})
    with pytest.raises(InvalidInput, match="1,001 properties"):
        namespaces.update("full", {"one": "more"}, [])
    assert (hms.calls.count("create_database"), hms.calls.count("alter_database")) == (1, 0)
    namespaces.update("full", {"one": "instead"}, ["p000000"])
    # What others have put there may be changed, and may become fewer.
    hms.databases["full"].parameters |= {"two": "more", "three": "more"}
    namespaces.update("full", {"one": "changed"}, ["two"])
    assert "three" in namespaces.load("full")


@pytest.mark.parametrize(("updates", "removals"), [({OWNER: "a"}, []), ({OWNER_TYPE: "USER"}, []), ({}, [OWNER])])
def test_owner_and_owner_type_go_together(
    updates: dict[str, str], removals: list[str], hms: FakeHms, namespaces: HmsNamespaces
) -> None:
    with pytest.raises(InvalidInput, match="together"):
        namespaces.update("db", updates, removals)
    assert hms.calls == []


def test_every_call_raises_for_a_missing_namespace(namespaces: HmsNamespaces) -> None:
    for call in (
        lambda: namespaces.load("nope"),
        lambda: namespaces.update("nope", {"a": "1"}, []),
        lambda: namespaces.drop("nope"),
    ):
        with pytest.raises(Missing):
            call()


def test_a_taken_name_a_bad_name_and_a_full_namespace_raise(hms: FakeHms, namespaces: HmsNamespaces) -> None:
    with pytest.raises(AlreadyExists):
        namespaces.create("db", {})
    with pytest.raises(InvalidInput):
        namespaces.create("a.b", {})
    hms.rows[TableName("db", "t")] = object()
    with pytest.raises(NamespaceNotEmpty):
        namespaces.drop("db")
    del hms.rows[TableName("db", "t")]
    namespaces.drop("db")
    assert namespaces.list() == []


def test_a_refusal_is_passed_on(hms: FakeHms, namespaces: HmsNamespaces) -> None:
    hms.misbehave["create_database"].append(MetaException("Permission denied: ada"))
    with pytest.raises(AccessDenied):
        namespaces.create("n", {})


def test_a_change_without_answer_says_that_it_may_have_been_made(hms: FakeHms, namespaces: HmsNamespaces) -> None:
    hms.misbehave["create_database"].append(DropAfter())
    with pytest.raises(MetastoreUnavailable, match="may have been carried out"):
        namespaces.create("n", {})
    assert hms.calls == ["create_database"]
    assert namespaces.exists("n")


def test_another_spelling_of_a_name_that_the_metastore_knows_is_no_namespace(
    hms: FakeHms, namespaces: HmsNamespaces
) -> None:
    namespaces.create("n", {})
    hms.databases["n "] = hms.databases["n"]
    assert not namespaces.exists("n ")
    for change in (lambda: namespaces.update("n ", {"a": "1"}, []), lambda: namespaces.drop("n ")):
        with pytest.raises(Missing):
            change()
    assert namespaces.exists("N") == ("N" in hms.databases)
    assert namespaces.list() == ["db", "n", "n "]


@pytest.mark.parametrize(
    "properties",
    [
        {COMMENT: "c" * 4_001},
        {LOCATION: "file:/" + "d" * 4_000},
        {OWNER: "o" * 129},
        {"k" * 181: "v"},
        {"k ": "v"},
        {"k": "v" * 4_001},
        {"k": "a\0b"},
    ],
)
def test_what_the_metastore_cannot_hold_is_refused_before_it_is_asked(
    properties: dict[str, str], hms: FakeHms, namespaces: HmsNamespaces
) -> None:
    with pytest.raises(InvalidInput, match="cannot store"):
        namespaces.create("n", properties)
    with pytest.raises(InvalidInput, match="cannot store"):
        namespaces.update("db", properties | ({OWNER_TYPE: "USER"} if OWNER in properties else {}), [])
    with pytest.raises(InvalidInput, match="the namespace's name"):
        namespaces.create("n" * 129, {})
    assert hms.calls == []
