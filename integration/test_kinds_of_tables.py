"""Hive tables become Iceberg tables in place on a real metastore, with its embedded settings and with Hive's own."""

from __future__ import annotations

from typing import Any

import pytest

from integration.kinds_of_tables import KINDS, check_changed_meanwhile, check_there_and_back
from integration.servers import make_namespace


@pytest.fixture(params=["metastore", "stock_metastore"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_becomes_iceberg_and_the_same_hive_table_again(
    kind: str, server: Any, request: pytest.FixtureRequest
) -> None:
    check_there_and_back(server, make_namespace(server, request), kind)


def test_a_table_that_changed_meanwhile_stays_as_it_is(server: Any, request: pytest.FixtureRequest) -> None:
    check_changed_meanwhile(server, make_namespace(server, request))
