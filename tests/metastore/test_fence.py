from __future__ import annotations

import copy
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Pointer, Refused, SwapAnswer, Swapped, TableName, Unanswered
from iceberg_hms.errors import MetastoreUnavailable, NoSuchTable
from iceberg_hms.metastore.faults import NotSent
from iceberg_hms.metastore.fence import Fence
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.scratch import PROBE_KEY
from iceberg_hms.metastore.tables import HmsTablePointer
from iceberg_hms.metastore.verdict import CompareAndSwap, Word
from iceberg_hms.testing.contracts.table_pointer import table_metadata
from tests.metastore.fake_hms import DropAfter, DropBefore, FakeHms, Running
from tests.test_forks import said_by

ALTER = "alter_table_with_environment_context"
NAME = TableName("db", "t")
METADATA = table_metadata("file:/w/t")
BROKEN_SQL = MetaException('Error executing SQL query "update "TABLE_PARAMS" set ...", 42818')


class Recording(FakeHms):
    """expected: key and value that each alter carried, None for an alter without them."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[tuple[str, str] | None] = []

    def alter_table_with_environment_context(self, environment_context: Any, **arguments: Any) -> None:
        properties = environment_context.properties
        if "expected_parameter_key" in properties:
            self.expected.append((properties["expected_parameter_key"], properties["expected_parameter_value"]))
        else:
            self.expected.append(None)
        super().alter_table_with_environment_context(environment_context=environment_context, **arguments)


@pytest.fixture
def hms() -> Recording:
    return Recording()


@pytest.fixture
def fence(pool: ClientPool) -> Fence:
    return Fence(pool)


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


def connected(pool: ClientPool) -> CompareAndSwap:
    return pool.run(lambda client: client.compare_and_swap, idempotent=True)


def is_unanswered(answer: SwapAnswer, *, fenced: bool) -> bool:
    return isinstance(answer, Unanswered) and answer.fenced is fenced


TRUE = ("metadata_location", "m0")
PROBE = (PROBE_KEY, "absent")


@pytest.mark.parametrize(
    ("behaviour", "sent", "then", "word"),
    [
        ("atomic", [PROBE, TRUE], ("metadata_location", "m1"), Word.CAS),
        ("checked", [PROBE, TRUE], ("metadata_location", "m1"), Word.BLIND),
        ("ignored", [PROBE], ("metadata_location", "m1"), Word.BLIND),
        ("broken", [PROBE, TRUE, None], None, Word.BLIND),
    ],
)
def test_the_first_alter_finds_out_and_the_next_knows(
    behaviour: str,
    sent: list[Any],
    then: Any,
    word: Word,
    hms: Recording,
    fence: Fence,
    base: Pointer,
    pool: ClientPool,
) -> None:
    hms.compare_and_swap = behaviour
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    assert location(hms) == "m1"
    assert hms.expected == sent
    assert connected(pool) == behaviour
    assert pool.verdicts.word is word
    next_base = Pointer(NAME, "m1", "m0", base.parameters, base.table)
    assert fence.alter(next_base, moved_to(base, "m2")) == Swapped()
    assert location(hms) == "m2"
    assert hms.expected[len(sent) :] == [then]


@pytest.mark.parametrize("behaviour", ["atomic", "checked"])
def test_an_outdated_alter_on_a_new_connection_changes_nothing(
    behaviour: str, hms: Recording, fence: Fence, base: Pointer
) -> None:
    hms.compare_and_swap = behaviour
    hms.tables["db", "t"].parameters["metadata_location"] = "foreign"
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert answer.conflict
    assert location(hms) == "foreign"


def test_the_probe_expects_a_parameter_that_the_row_never_has(hms: Recording, fence: Fence, base: Pointer) -> None:
    hms.tables["db", "t"].parameters[PROBE_KEY] = "absent"
    table = moved_to(base, "m1")
    table.parameters[f"{PROBE_KEY}-"] = "absent"
    odd = Pointer(NAME, "m0", None, {**base.parameters, PROBE_KEY: "absent"}, base.table)
    assert fence.alter(odd, table) == Swapped()
    assert hms.expected == [(f"{PROBE_KEY}--", "absent"), TRUE]


@pytest.mark.parametrize("error", [MetaException("Permission denied: eve"), MetaException("deadlock"), BROKEN_SQL])
def test_any_other_error_to_the_probe_tells_nothing(
    error: Exception, hms: Recording, fence: Fence, base: Pointer, pool: ClientPool
) -> None:
    hms.misbehave[ALTER].append(error)
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert connected(pool) is CompareAndSwap.UNKNOWN
    assert pool.verdicts.word is Word.UNPROVEN
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    assert hms.expected == [PROBE, TRUE]


@pytest.mark.parametrize(("behaviour", "at"), [("ignored", "m1"), ("atomic", "m0")])
def test_a_lost_reply_to_the_probe_is_not_fenced(
    behaviour: str, at: str, hms: Recording, fence: Fence, base: Pointer, pool: ClientPool
) -> None:
    hms.compare_and_swap = behaviour
    hms.misbehave[ALTER].append(DropAfter())
    assert is_unanswered(fence.alter(base, moved_to(base, "m1")), fenced=False)
    assert location(hms) == at
    assert hms.expected == [PROBE]
    assert pool.verdicts.word is Word.UNPROVEN
    assert connected(pool) is CompareAndSwap.UNKNOWN


@pytest.mark.parametrize(("behaviour", "fenced"), [("atomic", True), ("checked", False)])
def test_a_lost_reply_to_the_true_alter_is_fenced_on_an_atomic_server_alone(
    behaviour: str, fenced: bool, hms: Recording, fence: Fence, base: Pointer, pool: ClientPool
) -> None:
    hms.compare_and_swap = behaviour
    hms.misbehave[ALTER] += [None, DropAfter()]
    assert is_unanswered(fence.alter(base, moved_to(base, "m1")), fenced=fenced)
    assert location(hms) == "m1"
    assert pool.verdicts.word is (Word.UNPROVEN if fenced else Word.BLIND)


@pytest.mark.parametrize("at", [0, 1])
def test_a_lost_request_is_sent_once_and_tells_nothing(at: int, hms: Recording, fence: Fence, base: Pointer) -> None:
    hms.misbehave[ALTER] += [None] * at + [DropBefore()]
    assert is_unanswered(fence.alter(base, moved_to(base, "m1")), fenced=at == 1)
    assert location(hms) == "m0"
    assert hms.expected == [PROBE] * at


def test_a_swap_that_fails_because_the_row_moved_is_not_repeated_without_its_keys(
    hms: Recording, fence: Fence, base: Pointer, pool: ClientPool
) -> None:
    plain = hms.get_table_req

    def another_writer_was_first(req: Any) -> Any:
        hms.tables["db", "t"].parameters["metadata_location"] = "foreign"
        return plain(req)

    hms.get_table_req = another_writer_was_first  # type: ignore[method-assign]
    hms.misbehave[ALTER] += [None, BROKEN_SQL]
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert answer.conflict
    assert location(hms) == "foreign"
    assert connected(pool) is CompareAndSwap.ATOMIC


def test_a_swap_that_fails_because_the_row_went_is_a_conflict(hms: Recording, fence: Fence, base: Pointer) -> None:
    plain = hms.get_table_req

    def dropped(req: Any) -> Any:
        hms.tables.clear()
        return plain(req)

    hms.get_table_req = dropped  # type: ignore[method-assign]
    hms.misbehave[ALTER] += [None, BROKEN_SQL]
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert answer.conflict
    assert isinstance(answer.error, NoSuchTable)


@pytest.mark.parametrize("error", [DropBefore(), DropAfter(), MetaException("deadlock")])
def test_a_swap_that_failed_is_not_repeated_without_a_look(
    error: Exception, hms: Recording, fence: Fence, base: Pointer
) -> None:
    hms.misbehave[ALTER] += [None, BROKEN_SQL]
    hms.misbehave["get_table_req"].append(error)
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert hms.calls.count(ALTER) == 2


def test_a_lost_reply_without_the_keys_is_not_fenced(hms: Recording, fence: Fence, base: Pointer) -> None:
    hms.compare_and_swap = "broken"
    hms.misbehave[ALTER] += [None, None, DropAfter()]
    assert is_unanswered(fence.alter(base, moved_to(base, "m1")), fenced=False)


def test_a_repeat_that_was_not_sent_does_not_hide_the_first_alters_error(
    hms: Recording, fence: Fence, base: Pointer, pool: ClientPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hms.compare_and_swap = "broken"
    client = pool.run(lambda client: client, idempotent=True)
    plain = client.call

    def call(method: str, /, **arguments: Any) -> Any:
        environment = arguments.get("environment_context")
        if environment is not None and "expected_parameter_key" not in environment.properties:
            raise NotSent("the connection was closed")
        return plain(method, **arguments)

    monkeypatch.setattr(client, "call", call)
    answer = fence.alter(base, moved_to(base, "m1"))
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert hms.expected == [PROBE, TRUE]


def test_a_server_that_swapped_before_is_not_called_broken_for_one_error(
    hms: Recording, fence: Fence, base: Pointer, pool: ClientPool
) -> None:
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    hms.misbehave[ALTER].append(BROKEN_SQL)
    next_base = Pointer(NAME, "m1", "m0", base.parameters, base.table)
    answer = fence.alter(next_base, moved_to(base, "m2"))
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert None not in hms.expected
    assert pool.verdicts.word is Word.CAS


def test_the_verdict_belongs_to_the_connection(
    hms: Recording, server: Running, fence: Fence, base: Pointer, pool: ClientPool
) -> None:
    assert fence.alter(base, moved_to(base, "m1")) == Swapped()
    server.hang_up()
    hms.compare_and_swap = "ignored"
    next_base = Pointer(NAME, "m1", "m0", base.parameters, base.table)
    hms.expected.clear()
    assert fence.alter(next_base, moved_to(base, "m2")) == Swapped()
    assert hms.expected == [PROBE]
    assert pool.verdicts.word is Word.BLIND


def test_what_must_be_fenced_proves_a_new_connection_on_a_scratch_row_first(
    hms: Recording, fence: Fence, base: Pointer, pool: ClientPool
) -> None:
    for outdated, expected in ((False, Swapped), (True, Refused)):
        assert isinstance(fence.alter(base, moved_to(base, "m1"), only_fenced=True), expected), outdated
    assert hms.calls.count("create_table") == 2  # the table and one scratch row: the second swap knew
    assert [expectation for expectation in hms.expected if expectation == TRUE] == [TRUE, TRUE]
    assert set(hms.tables) == {("db", "t")}
    assert pool.verdicts.word is Word.CAS


@pytest.mark.parametrize("behaviour", ["checked", "ignored", "broken"])
@pytest.mark.parametrize("known", [True, False])
def test_what_must_be_fenced_is_sent_to_no_other_server(
    behaviour: str, known: bool, hms: Recording, fence: Fence, base: Pointer
) -> None:
    hms.compare_and_swap = behaviour
    if known:
        assert fence.alter(base, moved_to(base, "m0")) == Swapped()
    with pytest.raises(MetastoreUnavailable, match=f"not proven to compare and swap atomically: {behaviour}"):
        fence.alter(base, moved_to(base, "m1"), only_fenced=True)
    assert location(hms) == "m0"
    assert set(hms.tables) == {("db", "t")}


def test_a_proof_that_does_not_work_sends_nothing(hms: Recording, fence: Fence, base: Pointer) -> None:
    hms.misbehave["create_table"].append(MetaException("Permission denied"))
    with pytest.raises(MetastoreUnavailable, match="atomically: unknown"):
        fence.alter(base, moved_to(base, "m1"), only_fenced=True)
    assert hms.expected == []


def test_a_scratch_row_that_stayed_is_dropped_afterwards(hms: Recording, fence: Fence, base: Pointer) -> None:
    hms.misbehave[ALTER].append(DropAfter())
    hms.misbehave["drop_table"].append(MetaException("busy"))
    with pytest.raises(MetastoreUnavailable):
        fence.alter(base, moved_to(base, "m1"), only_fenced=True)
    assert len(hms.tables) == 2
    assert fence.alter(base, moved_to(base, "m1"), only_fenced=True) == Swapped()
    assert set(hms.tables) == {("db", "t")}


def test_what_must_be_fenced_is_never_repeated_without_its_keys(
    hms: Recording, fence: Fence, base: Pointer, pool: ClientPool
) -> None:
    outdated = Pointer(NAME, "older", None, base.parameters, base.table)
    assert isinstance(fence.alter(outdated, moved_to(base, "m1")), Refused)
    assert connected(pool) is CompareAndSwap.ATOMIC
    hms.misbehave[ALTER].append(BROKEN_SQL)
    answer = fence.alter(base, moved_to(base, "m1"), only_fenced=True)
    assert isinstance(answer, Refused)
    assert None not in hms.expected
    assert location(hms) == "m0"


FORKING = """
import os, signal, sys
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Swapped, TableName
from iceberg_hms.metastore.fence import Fence
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.tables import HmsTablePointer
from tests.metastore.test_fence import METADATA, NAME, moved_to

pool = ClientPool([sys.argv[1]])
pointer, fence = HmsTablePointer(pool, Settings.load({}, environ={})), Fence(pool)
pointer.create(NAME, "m0", METADATA, None)
base = pointer.load(NAME)
fence._remember_left(TableName("db", "scratch"))
fence._mutex.acquire()
child = os.fork()
if child == 0:
    signal.alarm(10)
    left = fence._left
    os._exit(0 if fence.alter(base, moved_to(base, "m1"), only_fenced=True) == Swapped() and not left else 1)
fence._mutex.release()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), pointer.load(NAME).metadata_location, *fence._left)
"""


def test_a_forked_child_alters_and_leaves_its_parents_scratch_rows_to_it(server: Running) -> None:
    assert said_by(FORKING, server.uri) == "0 m1 db.scratch\n"
