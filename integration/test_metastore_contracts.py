"""The drivers keep the ports' contracts on a real metastore, with its embedded settings and with Hive's own."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.testing.contracts import hive_tables, table_lock, table_pointer, view_pointer
from integration.contract_checks import check_hive_tables, check_lock, check_pointer, check_views


@pytest.fixture(params=["metastore", "stock_metastore"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("check", table_pointer.CHECKS, ids=lambda check: check.__name__)
def test_the_pointer_keeps_the_contract(
    check: table_pointer.Check, server: Any, request: pytest.FixtureRequest
) -> None:
    check_pointer(check, server, request)


@pytest.mark.parametrize("check", view_pointer.CHECKS, ids=lambda check: check.__name__)
def test_the_views_keep_the_contract(check: view_pointer.Check, server: Any, request: pytest.FixtureRequest) -> None:
    check_views(check, server, request)


@pytest.mark.parametrize("check", hive_tables.CHECKS, ids=lambda check: check.__name__)
def test_the_hive_tables_keep_the_contract(
    check: hive_tables.Check, server: Any, request: pytest.FixtureRequest
) -> None:
    check_hive_tables(check, server, request)


@pytest.mark.parametrize("check", table_lock.CHECKS, ids=lambda check: check.__name__)
def test_the_lock_keeps_the_contract(check: table_lock.Check, metastore: Any, namespace: str) -> None:
    check_lock(check, metastore, namespace)
