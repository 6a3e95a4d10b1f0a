from __future__ import annotations

from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.compare_and_swap.scratch_row import ScratchRows, Trial, scratch_name
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import NoAnswer, NotSent, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from tests.metastore.fake_hms import DropAfter, DropBefore, FakeHms, Running


@pytest.fixture
def rows(pool: ClientPool) -> ScratchRows:
    return ScratchRows(pool, SYSTEM_CLOCK)


def attempt(rows: ScratchRows, client: MetastoreClient, work: Any = None) -> Trial[Any]:
    return rows.attempt(client.call, "db", work or (lambda call, name: name))


def test_names_are_new_and_in_the_namespace() -> None:
    one, other = (scratch_name("db", SYSTEM_CLOCK) for _ in range(2))
    assert one != other
    assert one.namespace == "db"
    assert one.name.startswith("iceberg_hms_probe_")
    assert one.name.replace("_", "").isalnum()


def test_the_row_is_there_during_the_attempt_and_gone_afterwards(
    rows: ScratchRows, client: MetastoreClient, hms: FakeHms
) -> None:
    seen: list[Any] = []

    def work(_call: Any, name: TableName) -> str:
        seen.append(hms.rows[name].tableType)
        return "result"

    trial = attempt(rows, client, work)
    assert trial == Trial(trial.name, "result")
    assert seen == ["VIRTUAL_VIEW"], "a view has no folder"
    assert not trial.may_be_left
    assert hms.rows == {}


@pytest.mark.parametrize(
    ("error", "kind", "left"),
    [(MetaException("Permission denied"), ServerFault, False), (DropAfter(), NoAnswer, True)],
)
def test_nothing_is_tried_on_a_row_that_was_not_made(
    error: Exception, kind: type[Exception], left: bool, rows: ScratchRows, client: MetastoreClient, hms: FakeHms
) -> None:
    hms.misbehave["create_table"].append(error)
    trial = attempt(rows, client, lambda call, name: pytest.fail("tried"))
    assert isinstance(trial.not_made, kind)
    assert trial.may_be_left is left
    assert bool(hms.rows) is left


def test_the_row_is_dropped_after_an_attempt_that_failed(
    rows: ScratchRows, client: MetastoreClient, hms: FakeHms
) -> None:
    failure = NotSent("gone")

    def fail(_call: Any, _name: TableName) -> None:
        raise failure

    trial = attempt(rows, client, fail)
    assert (trial.result, trial.failed, trial.not_dropped) == (None, failure, None)
    assert hms.rows == {}


def test_a_row_that_is_gone_counts_as_dropped(rows: ScratchRows, client: MetastoreClient, hms: FakeHms) -> None:
    trial = attempt(rows, client, lambda call, name: hms.rows.clear())
    assert trial.not_dropped is None


@pytest.mark.parametrize("error", [MetaException("busy"), DropBefore()])
def test_a_row_that_could_not_be_dropped_is_dropped_later(
    error: Exception, rows: ScratchRows, client: MetastoreClient, hms: FakeHms
) -> None:
    hms.misbehave["drop_table"].append(error)
    trial = attempt(rows, client)
    assert trial.result == trial.name, "the result stands"
    assert trial.not_dropped is not None
    assert set(hms.rows) == {trial.name}
    rows.drop_left()
    assert hms.rows == {}
    drops = hms.calls.count("drop_table")
    rows.drop_left()
    assert hms.calls.count("drop_table") == drops


def test_a_row_is_tried_again_until_it_is_dropped(
    rows: ScratchRows, client: MetastoreClient, hms: FakeHms, server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    hms.misbehave["drop_table"] += [MetaException("busy")] * 2
    trial = attempt(rows, client)
    rows.drop_left()
    assert f"The scratch view {trial.name} could not be dropped" in caplog.text
    assert hms.rows
    rows.drop_left()
    assert hms.rows == {}


def test_only_the_last_hundred_rows_are_tried_again(rows: ScratchRows, client: MetastoreClient, hms: FakeHms) -> None:
    hms.misbehave["drop_table"] += [MetaException("busy")] * 102
    first = [attempt(rows, client).name for _ in range(102)][:2]
    rows.drop_left()
    assert set(hms.rows) == set(first)
