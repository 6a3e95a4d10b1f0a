from __future__ import annotations

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import ConfigValSecurityException
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.metastore.lease import lease_seconds, parse_duration
from tests.metastore.fake_hms import DropAfter, FakeHms, pool_of, running


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300s", 300), ("300", 300), (" 5 m ", 300), ("1h", 3600), ("300000ms", 300), ("2 days", 172_800),
        ("5MIN", 300),
        ("", None), ("0s", None), ("-1s", None), ("soon", None), ("5 weeks", None), ("1.5s", None),
    ],
)  # fmt: skip
def test_hives_durations_are_read(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    seconds = parse_duration(text)
    assert seconds is None or seconds > 0


def test_hive_3s_name_wins_over_hive_2s() -> None:
    hms = FakeHms()
    with running(hms) as server, pool_of(server) as pool:
        assert lease_seconds(pool) == 300
        hms.config["metastore.txn.timeout"] = "10m"
        assert lease_seconds(pool) == 600


def test_a_name_that_the_server_hides_is_passed_over() -> None:
    hms = FakeHms()
    hms.misbehave["get_config_value"].append(ConfigValSecurityException("For security reasons"))
    with running(hms) as server, pool_of(server) as pool:
        assert lease_seconds(pool) == 300


def test_a_server_that_does_not_tell_is_told_apart_from_one_that_is_gone() -> None:
    hms = FakeHms()
    hms.config.clear()
    with running(hms) as server, pool_of(server) as pool:
        assert lease_seconds(pool) is None
        hms.misbehave["get_config_value"] += [DropAfter(), DropAfter()]
        with pytest.raises(MetastoreUnavailable):
            lease_seconds(pool)
