from __future__ import annotations

import pytest

from iceberg_hms.clock import LONGEST_AWAY_SECONDS
from iceberg_hms.errors import MetastoreUnavailable, NoSuchTable
from iceberg_hms.pyiceberg.held_loads import LOAD_WAIT_SECONDS, held_while_away
from tests.metastore.locks.waiters import Timed


class Load:
    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "loaded"


def test_a_load_is_tried_again_until_the_metastore_is_back(caplog: pytest.LogCaptureFixture) -> None:
    runtime, load = Timed(), Load([MetastoreUnavailable("gone")] * 12)
    assert held_while_away(load, runtime) == "loaded"
    assert not load.errors
    assert runtime.sleeps == sorted(runtime.sleeps)
    assert max(runtime.sleeps) <= LONGEST_AWAY_SECONDS
    assert len(caplog.messages) == 1


def test_a_load_whose_time_is_over_gets_the_error() -> None:
    runtime, load = Timed(), Load([MetastoreUnavailable("gone")] * 1_000)
    with pytest.raises(MetastoreUnavailable):
        held_while_away(load, runtime)
    assert LOAD_WAIT_SECONDS - 1.0 <= runtime.now() <= LOAD_WAIT_SECONDS


def test_another_error_is_no_reason_to_wait() -> None:
    runtime = Timed()
    with pytest.raises(NoSuchTable):
        held_while_away(Load([NoSuchTable("db.t")]), runtime)
    assert runtime.sleeps == []
