from __future__ import annotations

import pytest

from iceberg_hms.coordinator.ports import Refused, Sending, Swapped, TableName, Unanswered
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.testing.contracts.table_pointer import CHECKS, Check, Place, made, table_metadata
from iceberg_hms.testing.memory_pointer import MemoryTablePointer, ScriptedAnswer

NAME = TableName("db", "t")
METADATA = table_metadata("memory:/t")


def place_of(pointer: MemoryTablePointer) -> Place:
    return Place("db", "other", "memory:/t", pointer.add_hive_table)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_memory_pointer_keeps_the_contract(check: Check) -> None:
    pointer = MemoryTablePointer({"db", "other"})
    check(pointer, place_of(pointer))


@pytest.mark.parametrize(
    ("answer", "expected", "moved"),
    [
        (ScriptedAnswer.TRUE, Swapped, True),
        (ScriptedAnswer.REFUSED, Refused, False),
        (ScriptedAnswer.REFUSED_AFTER_APPLY, Refused, True),
        (ScriptedAnswer.REPLY_LOST, Unanswered, True),
        (ScriptedAnswer.REQUEST_LOST, Unanswered, False),
        (ScriptedAnswer.DELAYED, Unanswered, False),
    ],
)
def test_a_scripted_answer_is_given_once(answer: ScriptedAnswer, expected: type, moved: bool) -> None:
    pointer = MemoryTablePointer()
    base = made(pointer, place_of(pointer))
    pointer.answers.append(answer)
    assert isinstance(pointer.swap(base, "memory:/1", METADATA, METADATA, Sending()), expected)
    now = pointer.load(NAME)
    assert now.metadata_location == ("memory:/1" if moved else base.metadata_location)
    assert pointer.swap(now, "memory:/2", METADATA, METADATA, Sending()) == Swapped()


@pytest.mark.parametrize("atomic", [True, False])
def test_an_unanswered_swap_says_whether_its_server_is_atomic(atomic: bool) -> None:
    pointer = MemoryTablePointer()
    base = made(pointer, place_of(pointer))
    pointer.atomic = atomic
    pointer.answers += [ScriptedAnswer.REQUEST_LOST] * 3
    swapped = pointer.swap(base, "memory:/1", METADATA, METADATA, Sending())
    assert isinstance(swapped, Unanswered)
    assert swapped.atomic is atomic
    for answer in (pointer.rename(base, TableName("db", "u"), Sending()), pointer.drop(base, Sending())):
        assert isinstance(answer, Unanswered)
        assert not answer.atomic


def test_a_swap_that_requires_compare_and_swap_is_not_sent_without_it() -> None:
    pointer = MemoryTablePointer()
    base = made(pointer, place_of(pointer))
    pointer.atomic = False
    sent = len(pointer.calls)
    with pytest.raises(MetastoreUnavailable):
        pointer.swap(base, "memory:/1", METADATA, METADATA, Sending(require_cas=True))
    assert len(pointer.calls) == sent
    assert pointer.load(NAME).metadata_location == base.metadata_location


def test_a_delayed_swap_lands_later_unless_the_table_moved() -> None:
    pointer = MemoryTablePointer()
    base = made(pointer, place_of(pointer))
    pointer.answers += [ScriptedAnswer.DELAYED, ScriptedAnswer.DELAYED]
    pointer.swap(base, "memory:/1", METADATA, METADATA, Sending())
    pointer.swap(base, "memory:/2", METADATA, METADATA, Sending())
    first, second = pointer.deliver_delayed()
    assert first == Swapped()
    assert isinstance(second, Refused)
    assert pointer.load(NAME).metadata_location == "memory:/1"
    assert pointer.deliver_delayed() == []


def test_another_writer_swaps_just_before_us() -> None:
    pointer = MemoryTablePointer()
    base = made(pointer, place_of(pointer))
    pointer.before_moves.append(lambda: pointer.point(NAME, "memory:/foreign"))
    answer = pointer.swap(base, "memory:/1", METADATA, METADATA, Sending())
    assert isinstance(answer, Refused)
    assert answer.conflict
    now = pointer.load(NAME)
    assert (now.metadata_location, now.previous_metadata_location) == ("memory:/foreign", base.metadata_location)


def test_an_unreachable_metastore_can_be_scripted() -> None:
    pointer = MemoryTablePointer()
    made(pointer, place_of(pointer))
    pointer.load_errors.append(MetastoreUnavailable("down"))
    with pytest.raises(MetastoreUnavailable):
        pointer.load(NAME)
    pointer.load(NAME)


def test_calls_are_counted_and_tables_listed() -> None:
    pointer = MemoryTablePointer()
    made(pointer, place_of(pointer))
    pointer.add_hive_table(TableName("db", "hive"))
    assert pointer.calls == [("create", NAME), ("load", NAME)]
    assert pointer.list_tables("db") == ["t"]
