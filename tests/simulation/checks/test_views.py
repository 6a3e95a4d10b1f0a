"""Each invariant of views is seen broken."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS
from iceberg_hms.format.views import view_file
from iceberg_hms.format.views.view_metadata import ViewMetadata
from simulation.checks.views import ViewChecker
from simulation.engine.runtime import SimulatedRuntime
from simulation.engine.scheduler import Process, Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom
from simulation.world.history import Answer, History, ViewCall, ViewCallKind
from simulation.world.metastore import RowChange
from simulation.world.storage import Storage
from tests.format.views.samples import spec_example

VIEW = TableName("db", "v")


class World:
    def __init__(self) -> None:
        scheduler = Scheduler(SeededRandom(1), WorkerPool())
        self.storage = Storage(SimulatedRuntime(scheduler, Process("p"), SeededRandom(1)))
        self.history = History()
        self.failures: list[str] = []
        self.checker = ViewChecker(self.storage, self.history, self.failures.append)

    def change(self, location: str | None, *marks: str, process: str = "p", there: bool = True, **more: Any) -> None:
        uuid = more.pop("uuid", spec_example()["view-uuid"])
        if location is not None and there:
            raw = {**spec_example(), "view-uuid": uuid, "properties": dict.fromkeys(marks, "1")}
            self.storage.files[location] = view_file.encode(ViewMetadata.parse(raw), DEFAULT_BOUNDS)
        self.checker.on_row_change(RowChange(VIEW, location, None, None, process, **more))

    def call(self, kind: ViewCallKind, answer: Answer | None = None) -> ViewCall:
        call = ViewCall(kind, "p", VIEW, "mark")
        self.history.view_calls.append(call)
        if answer is not None:
            self.history.record_view_answer(call, answer)
        return call

    @property
    def broken(self) -> set[str]:
        return {each.partition(":")[0] for each in self.failures}


@pytest.fixture
def world() -> World:
    return World()


def test_a_view_whose_changes_are_kept_breaks_nothing(world: World) -> None:
    call = world.call(ViewCallKind.REPLACE)
    world.change("a.metadata.json")
    world.change("b.metadata.json", "mark")
    world.history.record_view_answer(call, Answer.COMMITTED)
    world.checker.on_delete("a.metadata.json")
    world.change(None)
    world.checker.check_at_rest({"p"})
    assert not world.failures


def test_a_file_that_is_not_there_and_one_that_is_deleted(world: World) -> None:
    world.change("a.metadata.json", there=False)
    assert world.broken == {"view-is-whole"}
    world.change("a.metadata.json")
    world.checker.on_delete("a.metadata.json")
    assert world.broken == {"view-is-whole", "view-files-kept"}


def test_an_acknowledged_replacement_that_is_lost(world: World) -> None:
    call = world.call(ViewCallKind.REPLACE)
    world.change("b.metadata.json", "mark")
    world.history.record_view_answer(call, Answer.COMMITTED)
    world.change("c.metadata.json")
    assert world.broken == {"acknowledged-is-in-view"}


def test_a_refused_replacement_that_was_made(world: World) -> None:
    world.call(ViewCallKind.REPLACE, Answer.FAILED)
    world.change("b.metadata.json", "mark")
    assert world.broken == {"refused-is-not-in-view"}


@pytest.mark.parametrize("back", [False, True])
def test_a_refused_creation_whose_view_was_dropped_before_the_answer(world: World, back: bool) -> None:
    """It is excused only while the view is gone."""
    call = world.call(ViewCallKind.CREATE)
    world.change("a.metadata.json", "mark")
    world.change(None)
    world.history.record_view_answer(call, Answer.FAILED)
    assert not world.failures
    if back:
        world.change("a.metadata.json", "mark")
    assert world.broken == ({"refused-is-not-in-view"} if back else set())


def test_another_view_under_the_same_row(world: World) -> None:
    world.change("a.metadata.json")
    world.change("b.metadata.json", uuid="11111111-7681-40c8-86dc-e36561f83385")
    assert world.broken == {"view-stays-itself"}


def test_a_refused_drop_that_was_made_and_an_acknowledged_one_that_was_not(world: World) -> None:
    world.change("a.metadata.json")
    call = world.call(ViewCallKind.DROP)
    world.change(None)
    world.history.record_view_answer(call, Answer.FAILED)
    assert world.broken == {"view-answer-is-true"}
    world.failures.clear()
    call.answer = Answer.UNKNOWN
    world.call(ViewCallKind.DROP, Answer.COMMITTED)
    assert world.broken == {"view-answer-is-true"}


def test_a_late_drop_is_that_of_the_call_whose_outcome_was_unknown(world: World) -> None:
    world.change("a.metadata.json")
    unknown, refused = world.call(ViewCallKind.DROP, Answer.UNKNOWN), world.call(ViewCallKind.DROP, Answer.FAILED)
    world.change(None)
    assert (unknown.made, refused.made) == (True, False)
    assert not world.failures


def test_a_process_without_an_answer(world: World) -> None:
    world.call(ViewCallKind.REPLACE)
    world.checker.check_at_rest({"other"})
    assert not world.failures
    world.checker.check_at_rest({"p"})
    assert world.broken == {"view-user-answered"}
