from __future__ import annotations

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from thrift.Thrift import TApplicationException

from iceberg_hms.metastore.connection.versions import (
    changes_databases,
    has_local_time_zones,
    has_wide_columns,
    server_version,
)
from tests.metastore.fake_hms import FakeHms, pool_of, running


@pytest.mark.parametrize(
    ("said", "version", "is_hive_3"),
    [
        ("3.0", "2.x", False),
        ("3.0.0", "3.0.0", True),
        ("3.1.3", "3.1.3", True),
        ("4.0.1-x", "4.0.1-x", True),
        ("2.3.9", "2.3.9", False),
        ("10.0", "10.0", True),
        ("?", "?", False),
    ],
)
def test_the_version_that_a_server_names_says_whether_it_is_hive_3(said: str, version: str, is_hive_3: bool) -> None:
    hms = FakeHms()
    hms.version = said
    with running(hms) as server, pool_of(server) as pool:
        assert pool.run(server_version, idempotent=True) == version
        assert pool.run(has_local_time_zones, idempotent=True) is is_hive_3
        assert pool.run(changes_databases, idempotent=True) is is_hive_3
        assert pool.run(has_wide_columns, idempotent=True) is (version[0] in "41")


def test_a_hive_3_that_names_hive_2_s_version_is_recognised_by_the_call_that_it_lacks() -> None:
    hms = FakeHms()
    lost = TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name: 'get_index_names'")
    hms.misbehave["get_index_names"].extend([lost, lost, lost])
    with running(hms) as server, pool_of(server) as pool:
        assert pool.run(server_version, idempotent=True) == "3.x"
        assert pool.run(has_local_time_zones, idempotent=True)
        assert pool.run(changes_databases, idempotent=True)


def test_an_error_of_that_call_is_an_answer_of_hive_2() -> None:
    hms = FakeHms()
    hms.misbehave["get_index_names"].append(MetaException("no such table"))
    with running(hms) as server, pool_of(server) as pool:
        assert pool.run(server_version, idempotent=True) == "2.x"


def test_a_server_that_refuses_to_say_is_unknown() -> None:
    hms = FakeHms()
    hms.misbehave["getVersion"].append(TApplicationException(TApplicationException.UNKNOWN_METHOD, "no"))
    with running(hms) as server, pool_of(server) as pool:
        assert pool.run(server_version, idempotent=True) == "unknown"
