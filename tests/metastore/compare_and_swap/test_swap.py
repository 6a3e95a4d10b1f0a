from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Pointer, Refused, Sending, Swapped, TableName
from iceberg_hms.errors import CompareAndSwapUnproven, MetastoreUnavailable, NoSuchTable
from iceberg_hms.metastore.compare_and_swap.row_write import PROBE_KEY, VIRTUAL_VIEW
from iceberg_hms.metastore.compare_and_swap.swap import SwapSender
from iceberg_hms.metastore.connection.cas_support import BROKEN_SECONDS, CompareAndSwap, SwapProtection
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import NotSent
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from tests.metastore.compare_and_swap.swaps import (
    ALTER,
    BROKEN_SQL,
    METADATA,
    NAME,
    PROBE,
    TRUE,
    is_unanswered,
    location,
    moved_to,
    pointer_at,
)
from tests.metastore.fake_hms import DropAfter, DropBefore, Running, StoreClosed
from tests.metastore.recording_hms import Recording


def connected(pool: ClientPool, namespace: str = "db") -> CompareAndSwap:
    return pool.run(lambda client: client.cas_support.of(namespace), idempotent=True)


@pytest.mark.parametrize(
    ("behaviour", "sent", "then", "protection"),
    [
        ("atomic", [PROBE, TRUE], ("metadata_location", "m1"), SwapProtection.CAS),
        ("checked", [PROBE, TRUE], ("metadata_location", "m1"), SwapProtection.BLIND),
        ("ignored", [PROBE, TRUE], ("metadata_location", "m1"), SwapProtection.BLIND),
        ("broken", [PROBE, TRUE, None], None, SwapProtection.BLIND),
    ],
)
def test_the_first_alter_on_a_connection_probes_and_the_next_does_not(
    behaviour: str,
    sent: list[Any],
    then: Any,
    protection: SwapProtection,
    hms: Recording,
    swaps: SwapSender,
    base: Pointer,
    pool: ClientPool,
) -> None:
    hms.swap_support = behaviour
    assert swaps.alter(base, moved_to(base, "m1"), Sending()) == Swapped()
    assert location(hms) == "m1"
    assert hms.expected == sent
    assert connected(pool) == behaviour
    assert pool.cas_support.protection("db") is protection
    next_base = Pointer(NAME, "m1", "m0", base.parameters, base.table)
    assert swaps.alter(next_base, moved_to(base, "m2"), Sending()) == Swapped()
    assert location(hms) == "m2"
    assert hms.expected[len(sent) :] == [then]


@pytest.mark.parametrize("behaviour", ["atomic", "checked"])
def test_an_outdated_alter_on_a_new_connection_changes_nothing(
    behaviour: str, hms: Recording, swaps: SwapSender, base: Pointer
) -> None:
    hms.swap_support = behaviour
    hms.rows[NAME].parameters["metadata_location"] = "foreign"
    answer = swaps.alter(base, moved_to(base, "m1"), Sending())
    assert isinstance(answer, Refused)
    assert answer.conflict
    assert location(hms) == "foreign"


def test_the_probe_expects_a_parameter_that_the_row_never_has(hms: Recording, swaps: SwapSender, base: Pointer) -> None:
    hms.rows[NAME].parameters[PROBE_KEY] = "absent"
    table = moved_to(base, "m1")
    table.parameters[f"{PROBE_KEY}-"] = "absent"
    row = moved_to(base, "m0")
    row.parameters[PROBE_KEY] = "absent"
    odd = Pointer(NAME, "m0", None, row.parameters, row)
    assert swaps.alter(odd, table, Sending()) == Swapped()
    assert hms.expected == [(f"{PROBE_KEY}--", "absent"), TRUE]


@pytest.mark.parametrize("require_cas", [False, True])
def test_no_probe_of_a_view_is_sent_which_a_server_would_carry_out(
    require_cas: bool, hms: Recording, swaps: SwapSender, base: Pointer
) -> None:
    """One that ignores what it is to expect lets the partition keys of a view change. Sent again after a lost reply, as
    probes are, it would overwrite what others have committed meanwhile."""
    hms.swap_support = "ignored"
    hms.rows[NAME].tableType = VIRTUAL_VIEW
    view = moved_to(base, "m1")
    view.tableType = VIRTUAL_VIEW
    if require_cas:
        with pytest.raises(CompareAndSwapUnproven):
            swaps.alter(base, view, Sending(require_cas=True))
        assert location(hms) == "m0"
        return
    sent = hms.expected.copy
    hms.misbehave[ALTER] += [None, DropAfter()]
    assert is_unanswered(swaps.alter(base, view, Sending()), atomic=False)
    assert location(hms) == "m1"
    assert sent().count(TRUE) == 1
    assert not hms.rows[NAME].partitionKeys


@pytest.mark.parametrize("error", [MetaException("Permission denied: eve"), MetaException("deadlock"), BROKEN_SQL])
def test_any_other_refusal_of_the_probe_proves_nothing(
    error: Exception, hms: Recording, swaps: SwapSender, base: Pointer, pool: ClientPool
) -> None:
    hms.misbehave[ALTER].append(error)
    answer = swaps.alter(base, moved_to(base, "m1"), Sending())
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert not answer.in_doubt, "no probe is carried out later"
    assert connected(pool) is CompareAndSwap.UNKNOWN
    assert pool.cas_support.protection("db") is SwapProtection.UNPROVEN
    assert swaps.alter(base, moved_to(base, "m1"), Sending()) == Swapped()
    assert hms.expected == [PROBE, TRUE]


@pytest.mark.parametrize("behaviour", ["atomic", "checked", "ignored", "broken"])
@pytest.mark.parametrize("lost", [DropBefore, DropAfter, StoreClosed])
def test_a_lost_probe_changes_nothing_and_another_connection_makes_the_swap(
    behaviour: str, lost: type[Exception], hms: Recording, swaps: SwapSender, base: Pointer
) -> None:
    hms.swap_support = behaviour
    hms.misbehave[ALTER].append(lost())
    hms.before_alter = lambda table: seen.append((table, location(hms)))
    seen: list[tuple[str, str]] = []
    assert swaps.alter(base, moved_to(base, "m1"), Sending()) == Swapped()
    assert location(hms) == "m1"
    assert {at for _, at in seen} == {"m0"}
    assert hms.expected.count(PROBE) == (2 if lost is DropAfter else 1)


def test_after_two_lost_probes_the_caller_must_check_the_table(
    hms: Recording, swaps: SwapSender, base: Pointer, pool: ClientPool
) -> None:
    hms.misbehave[ALTER] += [DropAfter(), DropAfter()]
    assert is_unanswered(swaps.alter(base, moved_to(base, "m1"), Sending()), atomic=True)
    assert location(hms) == "m0"
    assert hms.expected == [PROBE, PROBE]
    assert pool.cas_support.protection("db") is SwapProtection.UNPROVEN
    assert connected(pool) is CompareAndSwap.UNKNOWN


def test_a_server_that_carries_out_the_probe_has_made_the_swap(
    hms: Recording, server: Running, swaps: SwapSender, base: Pointer
) -> None:
    """None of Apache's does. Its answer must still not be taken for a refusal."""
    hms.alter_table_with_environment_context = lambda new_tbl, **_: hms.rows.update({NAME: new_tbl})  # type: ignore[assignment, misc]
    for number, require_cas in enumerate((False, True)):
        assert swaps.alter(base, moved_to(base, f"m{number}"), Sending(require_cas=require_cas)) == Swapped()
        assert location(hms) == f"m{number}"
        server.hang_up()


@pytest.mark.parametrize(("behaviour", "atomic"), [("atomic", True), ("checked", False)])
def test_a_lost_reply_to_the_swap_counts_as_atomic_only_on_an_atomic_server(
    behaviour: str, atomic: bool, hms: Recording, swaps: SwapSender, base: Pointer, pool: ClientPool
) -> None:
    hms.swap_support = behaviour
    hms.misbehave[ALTER] += [None, DropAfter()]
    assert is_unanswered(swaps.alter(base, moved_to(base, "m1"), Sending()), atomic=atomic)
    assert location(hms) == "m1"
    assert pool.cas_support.protection("db") is (SwapProtection.UNPROVEN if atomic else SwapProtection.BLIND)


def test_beside_a_server_that_may_overwrite_no_swap_that_arrives_late_is_safe(
    hms: Recording, swaps: SwapSender, base: Pointer, pool: ClientPool
) -> None:
    hms.swap_support = "atomic"
    pool.cas_support.learn("thrift://another:9083", "db", CompareAndSwap.IGNORED)
    hms.misbehave[ALTER] += [None, DropBefore()]
    assert is_unanswered(swaps.alter(base, moved_to(base, "m1"), Sending()), atomic=False)


def test_a_rename_is_never_atomic_since_a_table_may_be_renamed_there_and_back(
    hms: Recording, swaps: SwapSender, base: Pointer
) -> None:
    hms.swap_support = "atomic"
    renamed = moved_to(base, base.metadata_location)
    renamed.tableName = "u"
    hms.misbehave[ALTER] += [None, DropBefore()]
    assert is_unanswered(swaps.alter(base, renamed, Sending()), atomic=False)


def test_a_lost_request_is_sent_only_once(hms: Recording, swaps: SwapSender, base: Pointer) -> None:
    hms.misbehave[ALTER] += [None, DropBefore()]
    assert is_unanswered(swaps.alter(base, moved_to(base, "m1"), Sending()), atomic=True)
    assert location(hms) == "m0"
    assert hms.expected == [PROBE]


def before_the_row_is_read(hms: Recording, happens: Callable[[], object]) -> None:
    """Let something happen before the table's row is read."""
    plain = hms.get_table_req

    def get_table_req(req: Any) -> Any:
        if req.tblName == "t":
            happens()
        return plain(req)

    hms.get_table_req = get_table_req  # type: ignore[method-assign]


def test_a_swap_that_fails_because_the_row_moved_is_not_repeated_without_its_keys(
    hms: Recording, swaps: SwapSender, base: Pointer
) -> None:
    hms.swap_support = "broken"
    before_the_row_is_read(hms, lambda: hms.rows[NAME].parameters.update(metadata_location="foreign"))
    answer = swaps.alter(base, moved_to(base, "m1"), Sending())
    assert isinstance(answer, Refused)
    assert answer.conflict
    assert location(hms) == "foreign"
    assert hms.expected == [PROBE, TRUE]


def test_a_swap_that_fails_because_the_row_went_is_a_conflict(hms: Recording, swaps: SwapSender, base: Pointer) -> None:
    hms.swap_support = "broken"
    before_the_row_is_read(hms, lambda: hms.rows.pop(NAME))
    answer = swaps.alter(base, moved_to(base, "m1"), Sending())
    assert isinstance(answer, Refused)
    assert answer.conflict
    assert isinstance(answer.error, NoSuchTable)


@pytest.mark.parametrize("error", [DropBefore(), DropAfter(), MetaException("deadlock")])
def test_a_swap_that_failed_is_not_repeated_without_reading_the_row(
    error: Exception, hms: Recording, swaps: SwapSender, base: Pointer
) -> None:
    hms.swap_support = "broken"
    # The proof on the scratch row reads it three times.
    hms.misbehave["get_table_req"] += [None, None, None, error]
    answer = swaps.alter(base, moved_to(base, "m1"), Sending())
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert not hms.misbehave["get_table_req"]
    assert hms.expected == [PROBE, TRUE]


def test_a_lost_reply_to_an_alter_without_keys_is_not_atomic(hms: Recording, swaps: SwapSender, base: Pointer) -> None:
    hms.swap_support = "broken"
    # Two on the row, three on the scratch row, and one without the keys.
    hms.misbehave[ALTER] += [None] * 5 + [DropAfter()]
    assert is_unanswered(swaps.alter(base, moved_to(base, "m1"), Sending()), atomic=False)
    assert hms.expected == [PROBE, TRUE, None]


class CutBeforeKeylessAlter(MetastoreClient):
    """Its connection is closed before it sends an alter of a table without the compare-and-swap keys."""

    def call(self, method: str, /, **arguments: Any) -> Any:
        environment = arguments.get("environment_context")
        without_keys = environment is not None and "expected_parameter_key" not in environment.properties
        if without_keys and arguments["tbl_name"] == "t":
            raise NotSent("the connection was closed")
        return super().call(method, **arguments)


def test_a_repeat_that_was_not_sent_does_not_hide_the_first_alters_error(
    hms: Recording, server: Running, base: Pointer
) -> None:
    hms.swap_support = "broken"
    pool = ClientPool(
        [server.uri],
        make_client=lambda uri: CutBeforeKeylessAlter(uri, connect_timeout_ms=5_000, socket_timeout_ms=5_000),
    )
    answer = SwapSender(pool).alter(base, moved_to(base, "m1"), Sending())
    pool.close()
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert hms.expected == [PROBE, TRUE]


READ_ONLY = MetaException("ERROR: cannot execute INSERT in a read-only transaction")


def in_trouble(hms: Recording, since: str) -> None:
    """The database of the metastore fails: for one statement, or everything that writes since that call."""
    if since == "lock timeout":
        hms.misbehave[ALTER] += [None, BROKEN_SQL]
        return
    plain = hms.before_alter
    writes = []

    def fail(table: str) -> None:
        plain(table)
        writes.append(table)
        # The probe, the swap; then the probe, the swap and the plain alter of the scratch row.
        if since == "read-only" and len(writes) == 2:
            hms.misbehave["create_table"].append(READ_ONLY)
        if len(writes) == 2 or (since == "failover" and len(writes) >= 4):
            raise BROKEN_SQL

    hms.before_alter = fail


@pytest.mark.parametrize("since", ["lock timeout", "read-only", "failover"])
def test_one_sql_error_on_a_first_swap_is_an_ordinary_refusal(
    since: str, hms: Recording, swaps: SwapSender, base: Pointer, pool: ClientPool
) -> None:
    in_trouble(hms, since)
    answer = swaps.alter(base, moved_to(base, "m1"), Sending())
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert answer.in_doubt
    assert None not in hms.expected, "written without an expected value"
    assert location(hms) == "m0"
    hms.before_alter = lambda _table: None
    assert swaps.alter(base, moved_to(base, "m1"), Sending()) == Swapped()
    assert hms.expected[-1] == TRUE
    assert connected(pool) is CompareAndSwap.ATOMIC
    assert pool.cas_support.protection("db") is SwapProtection.CAS
    assert set(hms.rows) == {NAME}


def test_a_swap_on_the_scratch_row_proves_the_connection(
    hms: Recording, swaps: SwapSender, base: Pointer, pool: ClientPool
) -> None:
    in_trouble(hms, "lock timeout")
    assert isinstance(swaps.alter(base, moved_to(base, "m1"), Sending()), Refused)
    assert pool.cas_support.protection("db") is SwapProtection.CAS
    scratch_rows = hms.calls.count("create_table")
    hms.misbehave[ALTER].append(BROKEN_SQL)
    assert isinstance(swaps.alter(base, moved_to(base, "m1"), Sending()), Refused)
    assert hms.calls.count("create_table") == scratch_rows, "a server that could swap once can do it"


def test_broken_is_proved_again_after_a_while(hms: Recording, server: Running, base: Pointer) -> None:
    late = [0.0]
    pool = ClientPool([server.uri], now=lambda: late[0])
    swaps = SwapSender(pool)
    hms.swap_support = "broken"
    assert swaps.alter(base, moved_to(base, "m0"), Sending()) == Swapped()
    assert hms.expected == [PROBE, TRUE, None]
    late[0] = BROKEN_SECONDS - 1
    assert swaps.alter(base, moved_to(base, "m0"), Sending()) == Swapped()
    assert hms.expected == [PROBE, TRUE, None, None]
    assert pool.cas_support.protection("db") is SwapProtection.BLIND
    late[0] = BROKEN_SECONDS
    assert pool.cas_support.protection("db") is SwapProtection.UNPROVEN
    hms.swap_support = "atomic"
    assert swaps.alter(base, moved_to(base, "m0"), Sending()) == Swapped()
    assert hms.expected[4:] == [PROBE, TRUE]
    assert pool.cas_support.protection("db") is SwapProtection.CAS
    pool.close()


def test_a_new_connection_to_a_broken_address_is_proved_on_a_scratch_row_first(
    hms: Recording, server: Running, swaps: SwapSender, base: Pointer, pool: ClientPool
) -> None:
    hms.swap_support = "broken"
    assert swaps.alter(base, moved_to(base, "m0"), Sending()) == Swapped()
    hms.expected.clear()
    server.hang_up()
    assert swaps.alter(base, moved_to(base, "m0"), Sending()) == Swapped()
    assert hms.expected == [None]
    hms.swap_support = "atomic"
    server.hang_up()
    assert swaps.alter(base, moved_to(base, "m0"), Sending()) == Swapped()
    assert hms.expected == [None, TRUE]
    server.hang_up()
    hms.misbehave["create_table"].append(READ_ONLY)
    assert swaps.alter(base, moved_to(base, "m0"), Sending()) == Swapped()
    assert hms.expected == [None, TRUE, PROBE, TRUE], "a proof that fails proves nothing"
    assert pool.cas_support.protection("db") is SwapProtection.BLIND, "one connection was broken just now"


def in_another_database(hms: Recording, pool: ClientPool, behaviour: str) -> Pointer:
    """A table behind a proxy that sends its database to another metastore."""
    hms.add_database("other")
    hms.swap_support_of["other"] = behaviour
    pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
    name = TableName("other", "t")
    assert pointer.create(name, "m0", METADATA, None) == Swapped()
    return pointer.load(name)


@pytest.mark.parametrize("behaviour", ["checked", "ignored", "broken"])
def test_each_database_behind_a_connection_is_proved_on_its_own(
    behaviour: str, hms: Recording, swaps: SwapSender, base: Pointer, pool: ClientPool
) -> None:
    elsewhere = in_another_database(hms, pool, behaviour)
    assert swaps.alter(base, moved_to(base, "m1"), Sending()) == Swapped()
    hms.rows[TableName("other", "t")].parameters["metadata_location"] = "foreign"
    outdated = moved_to(elsewhere, "m1")
    if behaviour == "broken":
        # The swap that is right fails here. One that is outdated is refused.
        outdated = moved_to(pointer_at(elsewhere, "foreign"), "m1")
        elsewhere = pointer_at(elsewhere, "foreign")
    with pytest.raises(MetastoreUnavailable, match=f"atomically: {behaviour}"):
        swaps.alter(elsewhere, outdated, Sending(require_cas=True))
    assert hms.rows[TableName("other", "t")].parameters["metadata_location"] == "foreign"
    assert (pool.cas_support.protection("db"), pool.cas_support.protection("other")) == (
        SwapProtection.CAS,
        SwapProtection.BLIND,
    )
    assert (connected(pool), connected(pool, "other")) == (CompareAndSwap.ATOMIC, behaviour)


def test_one_error_does_not_make_a_server_broken_that_swapped_before(
    hms: Recording, swaps: SwapSender, base: Pointer, pool: ClientPool
) -> None:
    assert swaps.alter(base, moved_to(base, "m1"), Sending()) == Swapped()
    hms.misbehave[ALTER].append(BROKEN_SQL)
    next_base = Pointer(NAME, "m1", "m0", base.parameters, base.table)
    answer = swaps.alter(next_base, moved_to(base, "m2"), Sending())
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert None not in hms.expected
    assert pool.cas_support.protection("db") is SwapProtection.CAS


def test_each_connection_is_proved_on_its_own(
    hms: Recording, server: Running, swaps: SwapSender, base: Pointer, pool: ClientPool
) -> None:
    assert swaps.alter(base, moved_to(base, "m1"), Sending()) == Swapped()
    server.hang_up()
    hms.swap_support = "ignored"
    next_base = Pointer(NAME, "m1", "m0", base.parameters, base.table)
    hms.expected.clear()
    assert swaps.alter(next_base, moved_to(base, "m2"), Sending()) == Swapped()
    assert hms.expected == [PROBE, ("metadata_location", "m1")]
    assert pool.cas_support.protection("db") is SwapProtection.BLIND


def test_a_swap_that_requires_cas_is_sent_once_the_probe_proves_the_server_atomic(
    hms: Recording, swaps: SwapSender, base: Pointer, pool: ClientPool
) -> None:
    for outdated, expected in ((False, Swapped), (True, Refused)):
        assert isinstance(swaps.alter(base, moved_to(base, "m1"), Sending(require_cas=True)), expected), outdated
    assert hms.expected == [PROBE, TRUE, TRUE], "the second swap knew"
    assert hms.calls.count("create_table") == 1, "no scratch row"
    assert pool.cas_support.protection("db") is SwapProtection.CAS


@pytest.mark.parametrize("behaviour", ["checked", "ignored"])
@pytest.mark.parametrize("known", [True, False])
def test_a_swap_that_requires_cas_is_not_sent_to_any_other_server(
    behaviour: str, known: bool, hms: Recording, swaps: SwapSender, base: Pointer
) -> None:
    hms.swap_support = behaviour
    if known:
        assert swaps.alter(base, moved_to(base, "m0"), Sending()) == Swapped()
    hms.expected.clear()
    with pytest.raises(MetastoreUnavailable, match=f"not proven to compare and swap atomically: {behaviour}"):
        swaps.alter(base, moved_to(base, "m1"), Sending(require_cas=True))
    assert hms.expected == ([] if known else [PROBE])
    assert location(hms) == "m0"


def test_a_swap_that_requires_cas_is_never_repeated_without_its_keys(
    hms: Recording, swaps: SwapSender, base: Pointer
) -> None:
    hms.swap_support = "broken"
    for _ in range(2):
        with pytest.raises(CompareAndSwapUnproven, match="not proven to compare and swap atomically: broken"):
            swaps.alter(base, moved_to(base, "m1"), Sending(require_cas=True))
    assert hms.expected == [PROBE, TRUE]
    assert location(hms) == "m0"
    assert set(hms.rows) == {NAME}


@pytest.mark.parametrize("error", [MetaException("Permission denied: eve"), BROKEN_SQL])
def test_after_a_probe_that_proves_nothing_no_swap_is_sent(
    error: Exception, hms: Recording, swaps: SwapSender, base: Pointer
) -> None:
    hms.misbehave[ALTER].append(error)
    answer = swaps.alter(base, moved_to(base, "m1"), Sending(require_cas=True))
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert hms.expected == []


def test_a_scratch_row_that_stayed_is_dropped_afterwards(hms: Recording, swaps: SwapSender, base: Pointer) -> None:
    in_trouble(hms, "lock timeout")
    hms.misbehave["drop_table"].append(MetaException("busy"))
    assert isinstance(swaps.alter(base, moved_to(base, "m1"), Sending()), Refused)
    assert hms.calls.count("drop_table") == 2
    assert set(hms.rows) == {NAME}


def test_a_server_that_is_gone_takes_no_writes_and_a_scratch_row_that_stayed_is_dropped_later(
    hms: Recording, server: Running, swaps: SwapSender, base: Pointer
) -> None:
    hms.misbehave["drop_table"].append(MetaException("busy"))
    assert swaps.accepts_writes(base.name.namespace) is False
    assert len(hms.rows) == 2
    assert swaps.alter(base, moved_to(base, "m1"), Sending()) == Swapped()
    assert len(hms.rows) == 1
    assert swaps.accepts_writes(base.name.namespace) is True
    server.stop()
    assert swaps.accepts_writes(base.name.namespace) is False
