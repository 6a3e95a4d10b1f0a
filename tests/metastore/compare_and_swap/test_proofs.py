from __future__ import annotations

from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException, NoSuchObjectException

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.metastore.compare_and_swap.proofs import CasProof, WriteProof, prove_cas, prove_server, prove_writes
from iceberg_hms.metastore.compare_and_swap.scratch_row import ScratchRows
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import NotSent
from iceberg_hms.metastore.connection.pool import ClientPool
from tests.metastore.fake_hms import DropAfter, FakeHms

ALTER = "alter_table_with_environment_context"


@pytest.fixture
def rows(pool: ClientPool) -> ScratchRows:
    return ScratchRows(pool, SYSTEM_CLOCK)


def proven(rows: ScratchRows, client: MetastoreClient) -> CasProof:
    return prove_cas(rows, client.call, "db")


@pytest.mark.parametrize("behaviour", ["atomic", "checked", "ignored", "broken"])
def test_what_a_server_does_proves_its_support_and_nothing_stays(
    behaviour: str, hms: FakeHms, rows: ScratchRows, client: MetastoreClient
) -> None:
    hms.swap_support = behaviour
    assert proven(rows, client).support == behaviour
    assert hms.rows == {}


@pytest.mark.parametrize(
    ("method", "error", "left"),
    [
        ("create_table", MetaException("Permission denied"), False),
        ("create_table", DropAfter(), True),
        ("get_table_req", MetaException("deadlock"), False),
        (ALTER, MetaException("deadlock"), False),
        (ALTER, DropAfter(), True),
    ],
)
def test_a_call_that_fails_proves_nothing(
    method: str, error: Exception, left: bool, hms: FakeHms, rows: ScratchRows, client: MetastoreClient
) -> None:
    hms.misbehave[method].append(error)
    proof = proven(rows, client)
    assert proof.support is CompareAndSwap.UNKNOWN
    assert proof.problems
    assert bool(hms.rows) is left
    rows.drop_left()
    assert hms.rows == {}


def test_a_database_that_writes_nothing_more_proves_nothing_of_compare_and_swap(
    hms: FakeHms, rows: ScratchRows, client: MetastoreClient
) -> None:
    """It went over to a standby that is read-only once the scratch row was made."""
    hms.swap_support = "broken"
    hms.misbehave[ALTER] += [None, None, MetaException("read-only transaction")]
    proof = proven(rows, client)
    assert proof.support is CompareAndSwap.UNKNOWN
    assert "read-only transaction" in proof.problems[0]
    assert hms.rows == {}


def test_a_server_that_takes_an_outdated_value_is_not_atomic_whatever_it_said(
    hms: FakeHms, rows: ScratchRows, client: MetastoreClient
) -> None:
    plain = hms.alter_table_with_environment_context

    def only_the_first_is_checked(**arguments: Any) -> None:
        try:
            plain(**arguments)
        finally:
            hms.swap_support = "ignored"

    hms.alter_table_with_environment_context = only_the_first_is_checked  # type: ignore[method-assign]
    assert proven(rows, client).support is CompareAndSwap.IGNORED


def test_a_row_that_stays_is_a_problem_and_the_proof_stands(
    hms: FakeHms, rows: ScratchRows, client: MetastoreClient
) -> None:
    hms.misbehave["drop_table"].append(MetaException("busy"))
    proof = proven(rows, client)
    assert proof.support is CompareAndSwap.ATOMIC
    assert "could not be dropped: busy" in proof.problems[0]


def test_a_server_that_is_proved_through_its_pool_gets_its_row_dropped_at_once(hms: FakeHms, pool: ClientPool) -> None:
    hms.misbehave["drop_table"].append(MetaException("busy"))
    assert prove_server(pool, "db", SYSTEM_CLOCK).support is CompareAndSwap.ATOMIC
    assert hms.rows == {}


@pytest.mark.parametrize("behaviour", ["atomic", "checked", "ignored", "broken"])
def test_whether_a_server_carries_out_writes_does_not_depend_on_compare_and_swap(
    behaviour: str, hms: FakeHms, rows: ScratchRows, client: MetastoreClient
) -> None:
    hms.swap_support = behaviour
    assert prove_writes(rows, client.call, "db") == WriteProof(True)
    assert hms.rows == {}


READ_ONLY = MetaException("Error executing SQL query: cannot execute INSERT in a read-only transaction")


@pytest.mark.parametrize(
    ("method", "error", "works", "left"),
    [
        ("create_table", READ_ONLY, False, False),
        ("create_table", DropAfter(), False, True),
        ("create_table", MetaException("Permission denied: ada may not create tables"), None, False),
        ("create_table", NoSuchObjectException("database db"), None, False),
        ("get_table_req", READ_ONLY, False, False),
        (ALTER, READ_ONLY, False, False),
        ("drop_table", READ_ONLY, False, True),
    ],
)
def test_a_failed_scratch_write_disproves_writes_and_a_forbidden_one_proves_nothing(
    method: str,
    error: Exception,
    works: bool | None,
    left: bool,
    hms: FakeHms,
    rows: ScratchRows,
    client: MetastoreClient,
) -> None:
    hms.misbehave[method].append(error)
    proof = prove_writes(rows, client.call, "db")
    assert proof.works is works
    assert proof.problem
    assert bool(hms.rows) is left


def test_a_trial_that_was_not_sent_may_be_repeated_on_another_connection(rows: ScratchRows) -> None:
    def call(method: str, /, **_: object) -> None:
        raise NotSent("gone")

    with pytest.raises(NotSent):
        prove_writes(rows, call, "db")
