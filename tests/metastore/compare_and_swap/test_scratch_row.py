from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException, NoSuchObjectException

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.compare_and_swap.findings import CompareAndSwap
from iceberg_hms.metastore.compare_and_swap.scratch_row import Trial, drop, prove, scratch_name, try_to_write
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import NotSent
from tests.metastore.fake_hms import DropAfter, FakeHms, Running

SCRATCH = TableName("db", "scratch")


@pytest.fixture
def client(server: Running) -> Iterator[MetastoreClient]:
    client = MetastoreClient(server.uri, connect_timeout_ms=5_000, socket_timeout_ms=5_000)
    yield client
    client.close()


def test_names_are_new_and_in_the_namespace() -> None:
    one, other = (scratch_name("db", SYSTEM_CLOCK) for _ in range(2))
    assert one != other
    assert one.namespace == "db"
    assert one.name.startswith("iceberg_hms_probe_")
    assert one.name.replace("_", "").isalnum()


@pytest.mark.parametrize("behaviour", ["atomic", "checked", "ignored", "broken"])
def test_a_server_is_told_by_what_it_does_and_nothing_stays(
    behaviour: str, hms: FakeHms, client: MetastoreClient
) -> None:
    hms.compare_and_swap = behaviour
    proof = prove(client.call, SCRATCH)
    assert proof.verdict == behaviour
    assert not proof.left_behind
    assert hms.tables == {}


@pytest.mark.parametrize(
    ("method", "error", "left_behind"),
    [
        ("create_table", MetaException("Permission denied"), False),
        ("create_table", DropAfter(), True),
        ("get_table_req", MetaException("deadlock"), False),
        ("alter_table_with_environment_context", MetaException("deadlock"), False),
        ("alter_table_with_environment_context", DropAfter(), True),
    ],
)
def test_what_fails_on_the_way_is_no_verdict(
    method: str, error: Exception, left_behind: bool, hms: FakeHms, client: MetastoreClient
) -> None:
    hms.misbehave[method].append(error)
    proof = prove(client.call, SCRATCH)
    assert proof.verdict is CompareAndSwap.UNKNOWN
    assert proof.problems
    assert proof.left_behind is left_behind
    assert bool(hms.tables) is left_behind


def test_a_database_that_writes_nothing_more_says_nothing_of_compare_and_swap(
    hms: FakeHms, client: MetastoreClient
) -> None:
    """It went over to a standby that is read-only once the scratch row was made."""
    hms.compare_and_swap = "broken"
    hms.misbehave["alter_table_with_environment_context"] += [None, None, MetaException("read-only transaction")]
    proof = prove(client.call, SCRATCH)
    assert (proof.verdict, proof.left_behind) == (CompareAndSwap.UNKNOWN, False)
    assert "read-only transaction" in proof.problems[0]


def test_a_server_that_takes_an_outdated_value_is_not_atomic_whatever_it_said(
    hms: FakeHms, client: MetastoreClient
) -> None:
    plain = hms.alter_table_with_environment_context

    def only_the_first_is_checked(**arguments: Any) -> None:
        try:
            plain(**arguments)
        finally:
            hms.compare_and_swap = "ignored"

    hms.alter_table_with_environment_context = only_the_first_is_checked  # type: ignore[method-assign]
    assert prove(client.call, SCRATCH).verdict is CompareAndSwap.IGNORED


def test_a_row_that_stays_is_told_beside_the_verdict(hms: FakeHms, client: MetastoreClient) -> None:
    hms.misbehave["drop_table"].append(MetaException("busy"))
    proof = prove(client.call, SCRATCH)
    assert (proof.verdict, proof.left_behind) == (CompareAndSwap.ATOMIC, True)
    drop(client.call, SCRATCH)
    assert hms.tables == {}
    drop(client.call, SCRATCH)


@pytest.mark.parametrize("behaviour", ["atomic", "checked", "ignored", "broken"])
def test_whether_anything_can_be_written_does_not_depend_on_compare_and_swap(
    behaviour: str, hms: FakeHms, client: MetastoreClient
) -> None:
    hms.compare_and_swap = behaviour
    assert try_to_write(client.call, SCRATCH) == Trial(True)
    assert hms.tables == {}


READ_ONLY = MetaException("Error executing SQL query: cannot execute INSERT in a read-only transaction")


@pytest.mark.parametrize(
    ("method", "error", "works", "left_behind"),
    [
        ("create_table", READ_ONLY, False, False),
        ("create_table", DropAfter(), False, True),
        ("create_table", MetaException("Permission denied: ada may not create tables"), None, False),
        ("create_table", NoSuchObjectException("database db"), None, False),
        ("get_table_req", READ_ONLY, False, False),
        ("alter_table_with_environment_context", READ_ONLY, False, False),
        ("drop_table", READ_ONLY, False, True),
    ],
)
def test_what_cannot_be_written_is_told_from_what_one_may_not_write(
    method: str, error: Exception, works: bool | None, left_behind: bool, hms: FakeHms, client: MetastoreClient
) -> None:
    hms.misbehave[method].append(error)
    trial = try_to_write(client.call, SCRATCH)
    assert (trial.works, trial.left_behind) == (works, left_behind)
    assert trial.problem
    assert bool(hms.tables) is left_behind


def test_a_trial_that_was_not_sent_is_tried_again_by_whoever_has_another_connection() -> None:
    def call(method: str, /, **_: object) -> None:
        raise NotSent("gone")

    with pytest.raises(NotSent):
        try_to_write(call, SCRATCH)
