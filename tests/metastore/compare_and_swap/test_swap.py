from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Pointer, Refused, SwapAnswer, Swapped, TableName, Unanswered
from iceberg_hms.coordinator.protocol.caller_timeouts import on_caller_timeout
from iceberg_hms.coordinator.protocol.lease_check import sending_under
from iceberg_hms.errors import CompareAndSwapUnproven, LockLost, MetastoreUnavailable, NoSuchTable
from iceberg_hms.locking.held_locks import NoLock
from iceberg_hms.metastore.compare_and_swap.findings import BROKEN_SECONDS, CompareAndSwap, Findings, SwapProtection
from iceberg_hms.metastore.compare_and_swap.scratch_row import PROBE_KEY
from iceberg_hms.metastore.compare_and_swap.swap import CompareAndSwapTables
from iceberg_hms.metastore.connection import client as client_module
from iceberg_hms.metastore.connection.faults import NotSent
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.testing.contracts.table_pointer import table_metadata
from tests.metastore.fake_hms import DropAfter, DropBefore, FakeHms, Late, Running, Silence, StoreClosed, pool_of
from tests.metastore.recording_hms import Recording

ALTER = "alter_table_with_environment_context"
NAME = TableName("db", "t")
METADATA = table_metadata("file:/w/t")
BROKEN_SQL = MetaException('Error executing SQL query "update "TABLE_PARAMS" set ...", 42818')


@pytest.fixture
def hms() -> Recording:
    return Recording()


@pytest.fixture
def fence(pool: ClientPool) -> CompareAndSwapTables:
    return CompareAndSwapTables(pool)


@pytest.fixture
def base(pool: ClientPool) -> Pointer:
    pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
    assert pointer.create(NAME, "m0", METADATA, None) == Swapped()
    return pointer.load(NAME)


def moved_to(base: Pointer, location: str) -> Any:
    table = copy.copy(base.table)
    table.parameters = {**base.parameters, "metadata_location": location}
    return table


def location(hms: FakeHms) -> str:
    found: str = hms.tables["db", "t"].parameters["metadata_location"]
    return found


def connected(pool: ClientPool, namespace: str = "db") -> CompareAndSwap:
    return pool.run(lambda client: client.findings.of(namespace), idempotent=True)


def is_unanswered(answer: SwapAnswer, *, atomic: bool) -> bool:
    return isinstance(answer, Unanswered) and answer.atomic is atomic


TRUE = ("metadata_location", "m0")
PROBE = (PROBE_KEY, "absent")


@pytest.mark.parametrize(
    ("behaviour", "sent", "then", "word"),
    [
        ("atomic", [PROBE, TRUE], ("metadata_location", "m1"), SwapProtection.CAS),
        ("checked", [PROBE, TRUE], ("metadata_location", "m1"), SwapProtection.BLIND),
        ("ignored", [PROBE, TRUE], ("metadata_location", "m1"), SwapProtection.BLIND),
        ("broken", [PROBE, TRUE, None], None, SwapProtection.BLIND),
    ],
)
def test_the_first_alter_finds_out_and_the_next_knows(
    behaviour: str,
    sent: list[Any],
    then: Any,
    word: SwapProtection,
    hms: Recording,
    fence: CompareAndSwapTables,
    base: Pointer,
    pool: ClientPool,
) -> None:
    hms.compare_and_swap = behaviour
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    assert location(hms) == "m1"
    assert hms.expected == sent
    assert connected(pool) == behaviour
    assert pool.verdicts.word("db") is word
    next_base = Pointer(NAME, "m1", "m0", base.parameters, base.table)
    assert fence.alter(next_base, moved_to(base, "m2")) == Swapped()
    assert location(hms) == "m2"
    assert hms.expected[len(sent) :] == [then]


@pytest.mark.parametrize("behaviour", ["atomic", "checked"])
def test_an_outdated_alter_on_a_new_connection_changes_nothing(
    behaviour: str, hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.compare_and_swap = behaviour
    hms.tables["db", "t"].parameters["metadata_location"] = "foreign"
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert answer.conflict
    assert location(hms) == "foreign"


def test_the_probe_expects_a_parameter_that_the_row_never_has(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.tables["db", "t"].parameters[PROBE_KEY] = "absent"
    table = moved_to(base, "m1")
    table.parameters[f"{PROBE_KEY}-"] = "absent"
    odd = Pointer(NAME, "m0", None, {**base.parameters, PROBE_KEY: "absent"}, base.table)
    assert fence.alter(odd, table) == Swapped()
    assert hms.expected == [(f"{PROBE_KEY}--", "absent"), TRUE]


@pytest.mark.parametrize("error", [MetaException("Permission denied: eve"), MetaException("deadlock"), BROKEN_SQL])
def test_any_other_error_to_the_probe_tells_nothing(
    error: Exception, hms: Recording, fence: CompareAndSwapTables, base: Pointer, pool: ClientPool
) -> None:
    hms.misbehave[ALTER].append(error)
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert not answer.in_doubt, "no probe is carried out later"
    assert connected(pool) is CompareAndSwap.UNKNOWN
    assert pool.verdicts.word("db") is SwapProtection.UNPROVEN
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    assert hms.expected == [PROBE, TRUE]


@pytest.mark.parametrize("behaviour", ["atomic", "checked", "ignored", "broken"])
@pytest.mark.parametrize("lost", [DropBefore, DropAfter, StoreClosed])
def test_a_probe_changes_nothing_so_another_connection_may_go_on_after_a_lost_one(
    behaviour: str, lost: type[Exception], hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.compare_and_swap = behaviour
    hms.misbehave[ALTER].append(lost())
    hms.before_alter = lambda table: seen.append((table, location(hms)))
    seen: list[tuple[str, str]] = []
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    assert location(hms) == "m1"
    assert {at for _, at in seen} == {"m0"}
    assert hms.expected.count(PROBE) == (2 if lost is DropAfter else 1)


def test_two_lost_probes_leave_it_to_the_caller_to_look(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer, pool: ClientPool
) -> None:
    hms.misbehave[ALTER] += [DropAfter(), DropAfter()]
    assert is_unanswered(fence.alter(base, moved_to(base, "m1")), atomic=True)
    assert location(hms) == "m0"
    assert hms.expected == [PROBE, PROBE]
    assert pool.verdicts.word("db") is SwapProtection.UNPROVEN
    assert connected(pool) is CompareAndSwap.UNKNOWN


def test_a_server_that_carries_out_a_probe_has_made_the_swap(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    """None of Apache's does. Its answer must still not be taken for a refusal."""
    hms.alter_table_with_environment_context = lambda new_tbl, **_: hms.tables.update({("db", "t"): new_tbl})  # type: ignore[assignment, misc]
    for number, require_cas in enumerate((False, True)):
        assert fence.alter(base, moved_to(base, f"m{number}"), require_cas=require_cas) == Swapped()
        assert location(hms) == f"m{number}"
        fence._pool._drop_idle()


@pytest.mark.parametrize(("behaviour", "atomic"), [("atomic", True), ("checked", False)])
def test_a_lost_reply_to_the_true_alter_is_fenced_on_an_atomic_server_alone(
    behaviour: str, atomic: bool, hms: Recording, fence: CompareAndSwapTables, base: Pointer, pool: ClientPool
) -> None:
    hms.compare_and_swap = behaviour
    hms.misbehave[ALTER] += [None, DropAfter()]
    assert is_unanswered(fence.alter(base, moved_to(base, "m1")), atomic=atomic)
    assert location(hms) == "m1"
    assert pool.verdicts.word("db") is (SwapProtection.UNPROVEN if atomic else SwapProtection.BLIND)


def test_a_lost_request_is_sent_once_and_tells_nothing(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.misbehave[ALTER] += [None, DropBefore()]
    assert is_unanswered(fence.alter(base, moved_to(base, "m1")), atomic=True)
    assert location(hms) == "m0"
    assert hms.expected == [PROBE]


def when_looked_at(hms: Recording, happens: Callable[[], object]) -> None:
    """It happens before the table's row is read."""
    plain = hms.get_table_req

    def get_table_req(req: Any) -> Any:
        if req.tblName == "t":
            happens()
        return plain(req)

    hms.get_table_req = get_table_req  # type: ignore[method-assign]


def test_a_swap_that_fails_because_the_row_moved_is_not_repeated_without_its_keys(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.compare_and_swap = "broken"
    when_looked_at(hms, lambda: hms.tables["db", "t"].parameters.update(metadata_location="foreign"))
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert answer.conflict
    assert location(hms) == "foreign"
    assert hms.expected == [PROBE, TRUE]


def test_a_swap_that_fails_because_the_row_went_is_a_conflict(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.compare_and_swap = "broken"
    when_looked_at(hms, lambda: hms.tables.pop(("db", "t")))
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert answer.conflict
    assert isinstance(answer.error, NoSuchTable)


@pytest.mark.parametrize("error", [DropBefore(), DropAfter(), MetaException("deadlock")])
def test_a_swap_that_failed_is_not_repeated_without_a_look(
    error: Exception, hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.compare_and_swap = "broken"
    # The proof on the scratch row reads it three times.
    hms.misbehave["get_table_req"] += [None, None, None, error]
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert not hms.misbehave["get_table_req"]
    assert hms.expected == [PROBE, TRUE]


def test_a_lost_reply_without_the_keys_is_not_fenced(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.compare_and_swap = "broken"
    # Two on the row, three on the scratch row, and one without the keys.
    hms.misbehave[ALTER] += [None] * 5 + [DropAfter()]
    assert is_unanswered(fence.alter(base, moved_to(base, "m1")), atomic=False)
    assert hms.expected == [PROBE, TRUE, None]


def test_a_repeat_that_was_not_sent_does_not_hide_the_first_alters_error(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer, pool: ClientPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hms.compare_and_swap = "broken"
    client = pool.run(lambda client: client, idempotent=True)
    plain = client.call

    def call(method: str, /, **arguments: Any) -> Any:
        environment = arguments.get("environment_context")
        if (
            environment is not None
            and arguments["tbl_name"] == "t"
            and "expected_parameter_key" not in environment.properties
        ):
            raise NotSent("the connection was closed")
        return plain(method, **arguments)

    monkeypatch.setattr(client, "call", call)
    answer = fence.alter(base, moved_to(base, "m1"))
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
    since: str, hms: Recording, fence: CompareAndSwapTables, base: Pointer, pool: ClientPool
) -> None:
    in_trouble(hms, since)
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert answer.in_doubt
    assert None not in hms.expected, "written without a fence"
    assert location(hms) == "m0"
    hms.before_alter = lambda _table: None
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    assert hms.expected[-1] == TRUE
    assert connected(pool) is CompareAndSwap.ATOMIC
    assert pool.verdicts.word("db") is SwapProtection.CAS
    assert set(hms.tables) == {("db", "t")}


def test_where_the_scratch_row_could_be_swapped_the_connection_is_proven(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer, pool: ClientPool
) -> None:
    in_trouble(hms, "lock timeout")
    assert isinstance(fence.alter(base, moved_to(base, "m1")), Refused)
    assert pool.verdicts.word("db") is SwapProtection.CAS
    scratch_rows = hms.calls.count("create_table")
    hms.misbehave[ALTER].append(BROKEN_SQL)
    assert isinstance(fence.alter(base, moved_to(base, "m1")), Refused)
    assert hms.calls.count("create_table") == scratch_rows, "a server that could swap once can do it"


def test_broken_is_found_out_anew_after_a_while(
    hms: Recording, server: Running, base: Pointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [0.0]
    monkeypatch.setattr(client_module, "Findings", lambda: Findings(lambda: late[0]))
    pool = ClientPool([server.uri], now=lambda: late[0])
    fence = CompareAndSwapTables(pool)
    hms.compare_and_swap = "broken"
    assert fence.alter(base, moved_to(base, "m0")) == Swapped()
    assert hms.expected == [PROBE, TRUE, None]
    late[0] = BROKEN_SECONDS - 1
    assert fence.alter(base, moved_to(base, "m0")) == Swapped()
    assert hms.expected == [PROBE, TRUE, None, None]
    assert pool.verdicts.word("db") is SwapProtection.BLIND
    late[0] = BROKEN_SECONDS
    assert pool.verdicts.word("db") is SwapProtection.UNPROVEN
    hms.compare_and_swap = "atomic"
    assert fence.alter(base, moved_to(base, "m0")) == Swapped()
    assert hms.expected[4:] == [PROBE, TRUE]
    assert pool.verdicts.word("db") is SwapProtection.CAS
    pool.close()


def test_where_an_address_is_broken_another_connection_asks_a_scratch_row_first(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer, pool: ClientPool
) -> None:
    hms.compare_and_swap = "broken"
    assert fence.alter(base, moved_to(base, "m0")) == Swapped()
    hms.expected.clear()
    pool._drop_idle()
    assert fence.alter(base, moved_to(base, "m0")) == Swapped()
    assert hms.expected == [None]
    hms.compare_and_swap = "atomic"
    pool._drop_idle()
    assert fence.alter(base, moved_to(base, "m0")) == Swapped()
    assert hms.expected == [None, TRUE]
    pool._drop_idle()
    hms.misbehave["create_table"].append(READ_ONLY)
    assert fence.alter(base, moved_to(base, "m0")) == Swapped()
    assert hms.expected == [None, TRUE, PROBE, TRUE], "a proof that does not work tells nothing"
    assert pool.verdicts.word("db") is SwapProtection.BLIND, "one connection was broken just now"


def in_another_database(hms: Recording, pool: ClientPool, behaviour: str) -> Pointer:
    """A table behind a proxy that sends its database to another metastore."""
    hms.add_database("other")
    hms.compare_and_swap_of["other"] = behaviour
    pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
    name = TableName("other", "t")
    assert pointer.create(name, "m0", METADATA, None) == Swapped()
    return pointer.load(name)


@pytest.mark.parametrize("behaviour", ["checked", "ignored", "broken"])
def test_one_connection_has_a_verdict_for_each_database(
    behaviour: str, hms: Recording, fence: CompareAndSwapTables, base: Pointer, pool: ClientPool
) -> None:
    elsewhere = in_another_database(hms, pool, behaviour)
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    hms.tables["other", "t"].parameters["metadata_location"] = "foreign"
    outdated = moved_to(elsewhere, "m1")
    if behaviour == "broken":
        # The swap that is right fails here. One that is outdated is refused.
        outdated = moved_to(pointer_at(elsewhere, "foreign"), "m1")
        elsewhere = pointer_at(elsewhere, "foreign")
    with pytest.raises(MetastoreUnavailable, match=f"atomically: {behaviour}"):
        fence.alter(elsewhere, outdated, require_cas=True)
    assert hms.tables["other", "t"].parameters["metadata_location"] == "foreign"
    assert (pool.verdicts.word("db"), pool.verdicts.word("other")) == (SwapProtection.CAS, SwapProtection.BLIND)
    assert (connected(pool), connected(pool, "other")) == (CompareAndSwap.ATOMIC, behaviour)


def pointer_at(base: Pointer, location: str) -> Pointer:
    return Pointer(base.name, location, None, {**base.parameters, "metadata_location": location}, base.table)


def test_a_server_that_swapped_before_is_not_called_broken_for_one_error(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer, pool: ClientPool
) -> None:
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    hms.misbehave[ALTER].append(BROKEN_SQL)
    next_base = Pointer(NAME, "m1", "m0", base.parameters, base.table)
    answer = fence.alter(next_base, moved_to(base, "m2"))
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert None not in hms.expected
    assert pool.verdicts.word("db") is SwapProtection.CAS


def test_the_verdict_belongs_to_the_connection(
    hms: Recording, server: Running, fence: CompareAndSwapTables, base: Pointer, pool: ClientPool
) -> None:
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    server.hang_up()
    hms.compare_and_swap = "ignored"
    next_base = Pointer(NAME, "m1", "m0", base.parameters, base.table)
    hms.expected.clear()
    assert fence.alter(next_base, moved_to(base, "m2")) == Swapped()
    assert hms.expected == [PROBE, ("metadata_location", "m1")]
    assert pool.verdicts.word("db") is SwapProtection.BLIND


def test_what_must_be_fenced_goes_out_when_the_probe_was_answered_as_atomic(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer, pool: ClientPool
) -> None:
    for outdated, expected in ((False, Swapped), (True, Refused)):
        assert isinstance(fence.alter(base, moved_to(base, "m1"), require_cas=True), expected), outdated
    assert hms.expected == [PROBE, TRUE, TRUE], "the second swap knew"
    assert hms.calls.count("create_table") == 1, "no scratch row"
    assert pool.verdicts.word("db") is SwapProtection.CAS


@pytest.mark.parametrize("behaviour", ["checked", "ignored"])
@pytest.mark.parametrize("known", [True, False])
def test_what_must_be_fenced_is_sent_to_no_other_server(
    behaviour: str, known: bool, hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.compare_and_swap = behaviour
    if known:
        assert fence.alter(base, moved_to(base, "m0")) == Swapped()
    hms.expected.clear()
    with pytest.raises(MetastoreUnavailable, match=f"not proven to compare and swap atomically: {behaviour}"):
        fence.alter(base, moved_to(base, "m1"), require_cas=True)
    assert hms.expected == ([] if known else [PROBE])
    assert location(hms) == "m0"


def test_what_must_be_fenced_is_never_repeated_without_its_keys(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.compare_and_swap = "broken"
    for _ in range(2):
        with pytest.raises(CompareAndSwapUnproven, match="not proven to compare and swap atomically: broken"):
            fence.alter(base, moved_to(base, "m1"), require_cas=True)
    assert hms.expected == [PROBE, TRUE]
    assert location(hms) == "m0"
    assert set(hms.tables) == {("db", "t")}


@pytest.mark.parametrize("error", [MetaException("Permission denied: eve"), BROKEN_SQL])
def test_a_probe_that_tells_nothing_sends_nothing(
    error: Exception, hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.misbehave[ALTER].append(error)
    answer = fence.alter(base, moved_to(base, "m1"), require_cas=True)
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert hms.expected == []


def test_a_scratch_row_that_stayed_is_dropped_afterwards(
    hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    in_trouble(hms, "lock timeout")
    hms.misbehave["drop_table"].append(MetaException("busy"))
    assert isinstance(fence.alter(base, moved_to(base, "m1")), Refused)
    assert hms.calls.count("drop_table") == 2
    assert set(hms.tables) == {("db", "t")}
    hms.misbehave["drop_table"] += [MetaException("busy")] * 2
    fence._remember_left(TableName("db", "gone"))
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    assert fence._left == [TableName("db", "gone")]


def test_a_trial_that_is_left_behind_is_dropped_later_and_a_server_that_is_gone_takes_no_writes(
    hms: Recording, server: Running, fence: CompareAndSwapTables, base: Pointer
) -> None:
    hms.misbehave["drop_table"].append(MetaException("busy"))
    assert fence.accepts_writes(base.name.namespace) is False
    assert len(hms.tables) == 2
    fence._drop_left()
    assert len(hms.tables) == 1
    assert fence.accepts_writes(base.name.namespace) is True
    server.stop()
    assert fence.accepts_writes(base.name.namespace) is False


@pytest.mark.parametrize("kind", ["checked", "ignored", "broken"])
def test_a_swap_that_nothing_fences_is_waited_for_on_its_connection(
    kind: str, hms: Recording, server: Running, base: Pointer
) -> None:
    hms.compare_and_swap = kind
    with pool_of(server, timeout_ms=50) as pool:
        fence = CompareAndSwapTables(pool)
        assert fence.alter(base, moved_to(base, "m0")) == Swapped()  # the verdict is there
        late = Late()
        hms.misbehave[ALTER].append(late)
        with on_caller_timeout(late.go.set):
            assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    assert late.go.is_set()
    assert location(hms) == "m1"


def test_the_first_swap_of_a_connection_is_waited_for(hms: Recording, server: Running, base: Pointer) -> None:
    hms.compare_and_swap = "checked"
    late = Late()
    hms.misbehave[ALTER] += [None, late]
    with pool_of(server, timeout_ms=50) as pool, on_caller_timeout(late.go.set):
        assert CompareAndSwapTables(pool).alter(base, moved_to(base, "m1")) == Swapped()
    assert late.go.is_set()


def test_a_swap_that_is_fenced_has_the_ordinary_time(hms: Recording, server: Running, base: Pointer) -> None:
    with pool_of(server, timeout_ms=100) as pool:
        fence = CompareAndSwapTables(pool)
        assert fence.alter(base, moved_to(base, "m0")) == Swapped()
        hms.misbehave[ALTER].append(Silence())
        told: list[bool] = []
        with on_caller_timeout(lambda: told.append(True)):
            assert is_unanswered(fence.alter(base, moved_to(base, "m1")), atomic=True)
    assert told == []


def test_it_is_told_how_long_an_answer_was_waited_for(hms: Recording, server: Running, base: Pointer) -> None:
    hms.compare_and_swap = "checked"
    hms.misbehave[ALTER] += [None, Late()]
    pool = ClientPool([server.uri], connect_timeout_ms=5_000, socket_timeout_ms=500, patience_ms=600)
    answer = CompareAndSwapTables(pool).alter(base, moved_to(base, "m1"))
    pool.close()
    assert isinstance(answer, Unanswered)
    assert answer.waited_seconds >= 0.6


class Aged(NoLock):
    lease_seconds = 300.0
    age = 0.0

    def seconds_since_renewal(self) -> float:
        return self.age


@pytest.mark.parametrize(
    ("behaviour", "asked", "raised"),
    [("checked", [PROBE], True), ("ignored", [PROBE], True), ("broken", [PROBE, TRUE], False)],
)
def test_an_alter_that_nothing_fences_is_not_sent_if_its_lock_aged_while_the_server_was_asked(
    behaviour: str, asked: list[Any], raised: bool, hms: Recording, fence: CompareAndSwapTables, base: Pointer
) -> None:
    """Another may have the lock by now. Where a first alter was sent the caller has to look."""
    hms.compare_and_swap = behaviour
    lock = Aged()
    hms.before_alter = lambda _table: setattr(lock, "age", 150.1 if hms.expected == asked else 0.0)
    with sending_under([lock]):
        if raised:
            with pytest.raises(LockLost):
                fence.alter(base, moved_to(base, "m1"))
        else:
            answer = fence.alter(base, moved_to(base, "m1"))
            assert isinstance(answer, Refused)
            assert (answer.conflict, type(answer.error)) == (True, LockLost)
    assert hms.expected == asked
    assert location(hms) == "m0"
