"""A table has one name: no other spelling that a real metastore takes for it reaches the table or takes a lock."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import GetTableRequest, ShowLocksRequest
from integration.test_rest_on_hms import SCHEMA, error_of, set_properties
from integration.test_rest_on_hms import http as http
from integration.test_rest_on_hms import server as server

SPELLINGS = ["{}%20", "%20{}", "{}%00", "{}%0A", "%1F{}", "{}%09%00"]
NO_TABLE = (404, "NoSuchTableException")


def test_spellings_that_the_metastore_trims_name_no_table(http: httpx.Client, pool: ClientPool, namespace: str) -> None:
    tables = f"/v1/namespaces/{namespace}/tables"
    assert http.post(tables, json={"name": "t", "schema": SCHEMA}).status_code == 200
    request = GetTableRequest(dbName=f"{namespace}\n", tblName="t\0 ")
    row = pool.ask("get_table_req", req=request).table
    assert (row.dbName, row.tableName) == (namespace, "t"), "the metastore trims, or this test shows nothing"
    for spelling in SPELLINGS:
        for path in (f"{tables}/{spelling.format('t')}", f"/v1/namespaces/{spelling.format(namespace)}/tables/t"):
            assert error_of(http.post(path, json=set_properties(a="b"))) == NO_TABLE
            assert error_of(http.delete(f"{path}?purgeRequested=true")) == NO_TABLE
            assert error_of(http.delete(path)) == NO_TABLE
            assert http.head(path).status_code == 404
        assert http.head(f"/v1/namespaces/{spelling.format(namespace)}").status_code == 404
        assert error_of(http.delete(f"/v1/namespaces/{spelling.format(namespace)}"))[0] == 404
    assert "a" not in http.get(f"{tables}/t").json()["metadata"]["properties"]
    assert http.post(f"{tables}/T", json=set_properties(a="b")).status_code == 200
    assert http.delete(f"{tables}/T").status_code == 204


@pytest.mark.parametrize("letter", ["\u212a", "\u0130", "\u0131", "\u017f", "\uff54", "t\u0301", "t\u00a0", "t\u2003"])
def test_letters_that_fold_or_look_alike_reach_a_row_under_its_own_name_alone(
    http: httpx.Client, pool: ClientPool, namespace: str, letter: str
) -> None:
    tables = f"/v1/namespaces/{namespace}/tables"
    for name in ("k", "i", "s", "t"):
        assert http.post(tables, json={"name": name, "schema": SCHEMA}).status_code == 200
    status = http.post(f"{tables}/{quote(letter)}", json=set_properties(a="b")).status_code
    changed = [name for name in "kist" if "a" in http.get(f"{tables}/{name}").json()["metadata"]["properties"]]
    # The Kelvin sign is a k, to Java as to us: it is folded before the lock is taken.
    assert (status, changed) == ((200, ["k"]) if letter == "\u212a" else (404, []))
    held: Any = pool.ask("show_locks", rqst=ShowLocksRequest()).locks or []
    assert [lock for lock in held if lock.dbname == namespace] == []
