"""A table and a namespace have one name each: no other spelling reaches them, or takes another lock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.ports import HeldLock, LockUse, Pointer, TableName
from iceberg_hms.rest.app import create_app
from iceberg_hms.testing import memory_catalog as memory
from iceberg_hms.testing.memory_catalog import MemoryNamespaces, memory_catalog
from iceberg_hms.testing.memory_lock import MemoryTableLock
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.rest.fakes import SCHEMA, Web, error_of

#: What Java's `trim`, and so the metastore, takes off either end of a name.
TRIMMED = "".join(map(chr, range(0x21)))
ALIASES = [
    *(f"{{}}{character}" for character in TRIMMED),
    *(f"{character}{{}}" for character in TRIMMED),
    " \t{}\r\n\0",
]
#: What no metastore has.
CONTROLS = ["a\0b", "a\nb", "a\x1fb", "a\x7fb", "a\x85b"]


def trimmed(name: str) -> str:
    return name.strip(TRIMMED).lower()


class TrimmingPointer(MemoryTablePointer):
    """Looks names up as the metastore does."""

    def load(self, name: TableName) -> Pointer:
        return super().load(TableName(trimmed(name.namespace), trimmed(name.name)))

    def list_tables(self, namespace: str) -> list[str]:
        return super().list_tables(trimmed(namespace))


class TrimmingNamespaces(MemoryNamespaces):
    """Looks names up as the metastore does, also those of another catalog of Hive 3."""

    def load(self, namespace: str) -> dict[str, str]:
        return super().load(trimmed(namespace).removeprefix("@hive#"))

    def exists(self, namespace: str) -> bool:
        return super().exists(trimmed(namespace).removeprefix("@hive#"))

    def drop(self, namespace: str) -> None:
        super().drop(trimmed(namespace).removeprefix("@hive#"))


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> list[TableName]:
    """The names under which locks are taken."""
    names: list[TableName] = []
    acquire = MemoryTableLock.acquire

    def noted(
        self: MemoryTableLock, name: TableName, *, wait_seconds: float, request: str, use: LockUse = LockUse.BLIND
    ) -> HeldLock:
        names.append(name)
        return acquire(self, name, wait_seconds=wait_seconds, request=request, use=use)

    monkeypatch.setattr(MemoryTableLock, "acquire", noted)
    return names


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch, locked: list[TableName]) -> Iterator[Catalog]:
    monkeypatch.setattr(memory, "MemoryNamespaces", TrimmingNamespaces)
    with memory_catalog(pointer=TrimmingPointer(namespaces=())) as made:
        made.create_namespace("db")
        made.create_namespace("empty")
        made.create_table("db.t", SCHEMA)
        locked.clear()
        yield made


@pytest.fixture
def web(catalog: Catalog) -> Web:
    return Web(create_app(catalog))


def path(namespace: str, table: str | None = None) -> str:
    found = f"/v1/namespaces/{quote(namespace, safe='')}"
    return found if table is None else f"{found}/tables/{quote(table, safe='')}"


COMMIT: dict[str, Any] = {
    "requirements": [],
    "updates": [{"action": "set-properties", "updates": {"a": "b"}}],
}
NO_TABLE = (404, "NoSuchTableException")
NO_NAMESPACE = (404, "NoSuchNamespaceException")
BAD = (400, "BadRequestException")


@pytest.mark.parametrize("alias", [*ALIASES, *CONTROLS], ids=ascii)
def test_no_other_spelling_of_a_name_reaches_the_table(
    web: Web, catalog: Catalog, locked: list[TableName], alias: str
) -> None:
    for namespace, table in (("db", alias.format("t")), (alias.format("db"), "t")):
        at = path(namespace, table)
        assert error_of(web("DELETE", at))[:2] == NO_TABLE
        assert error_of(web("DELETE", f"{at}?purgeRequested=true"))[:2] == NO_TABLE
        assert error_of(web("POST", at, COMMIT))[:2] == NO_TABLE
        assert error_of(web("GET", at))[:2] == NO_TABLE
        assert web("HEAD", at).status_code == 404
        source = {"namespace": [namespace], "name": table}
        renamed = {"source": source, "destination": {"namespace": ["db"], "name": "u"}}
        assert error_of(web("POST", "/v1/tables/rename", renamed))[:2] == NO_TABLE
    assert locked == []
    assert "a" not in catalog.load_table("db.t").metadata.properties


@pytest.mark.parametrize("alias", [*ALIASES, *CONTROLS, "@hive#{}"], ids=ascii)
def test_no_other_spelling_of_a_name_reaches_the_namespace(web: Web, catalog: Catalog, alias: str) -> None:
    name = alias.format("empty")
    assert error_of(web("GET", path(name)))[:2] == NO_NAMESPACE
    assert web("HEAD", path(name)).status_code == 404
    assert error_of(web("GET", f"{path(name)}/tables"))[:2] == NO_NAMESPACE
    assert error_of(web("POST", f"{path(name)}/properties", {"updates": {"a": "b"}}))[:2] == NO_NAMESPACE
    assert error_of(web("POST", f"{path(name)}/tables", {"name": "n", "schema": SCHEMA}))[:2] == NO_NAMESPACE
    body = {"name": "n", "metadata-location": "file:/x"}
    assert error_of(web("POST", f"{path(name)}/register", body))[:2] == NO_NAMESPACE
    to = {"source": {"namespace": ["db"], "name": "t"}, "destination": {"namespace": [name], "name": "t"}}
    assert error_of(web("POST", "/v1/tables/rename", to))[:2] == NO_NAMESPACE
    assert error_of(web("DELETE", path(name)))[:2] == NO_NAMESPACE
    assert catalog.list_namespaces() == ["db", "empty"]
    assert "a" not in catalog.load_namespace_properties("empty")


@pytest.mark.parametrize("alias", [*ALIASES, *CONTROLS, "@hive#{}"], ids=ascii)
def test_nothing_is_created_under_such_a_name(web: Web, catalog: Catalog, locked: list[TableName], alias: str) -> None:
    name = alias.format("n")
    tables = "/v1/namespaces/db/tables"
    assert error_of(web("POST", "/v1/namespaces", {"namespace": [name]}))[:2] == BAD
    assert error_of(web("POST", tables, {"name": name, "schema": SCHEMA}))[:2] == BAD
    assert error_of(web("POST", tables, {"name": name, "schema": SCHEMA, "stage-create": True}))[:2] == BAD
    create = {**COMMIT, "requirements": [{"type": "assert-create"}]}
    assert error_of(web("POST", path("db", name), create))[:2] == BAD
    register = {"name": name, "metadata-location": catalog.load_table("db.t").metadata_location}
    assert error_of(web("POST", "/v1/namespaces/db/register", register))[:2] == BAD
    to = {"source": {"namespace": ["db"], "name": "t"}, "destination": {"namespace": ["db"], "name": name}}
    assert error_of(web("POST", "/v1/tables/rename", to))[:2] == BAD
    assert [table.name for table in catalog.list_tables("db")] == ["t"]
    assert catalog.list_namespaces() == ["db", "empty"]
    assert locked == []


def test_spellings_that_differ_in_case_take_one_lock(web: Web, catalog: Catalog, locked: list[TableName]) -> None:
    catalog.create_table("db.kilo", SCHEMA)
    # U+212A, the Kelvin sign, is a K, and Java folds it as Python does.
    for name in ("kilo", "KILO", "\u212ailo", "Kilo"):
        assert web("POST", path("DB", name), COMMIT).status_code == 200
    assert set(locked) == {TableName("db", "kilo")}
    # U+0130, a dotted I, becomes an i with a dot above, and U+0131, a dotless one, stays: no table has these.
    for name in ("k\u0130lo", "k\u0131lo"):
        assert error_of(web("POST", path("db", name), COMMIT))[:2] == NO_TABLE
