"""Each invariant of tables that change their kind is seen broken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import HIVE_TABLE
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.updates.create import new_table_metadata
from iceberg_hms.metastore.tables.kind_of_row import encode, hive_row
from iceberg_hms.metastore.tables.parameters import EXTERNAL_TABLE
from simulation.actors.migrators import SCHEMA
from simulation.checks.kinds import KindChecker
from simulation.engine.runtime import SimulatedRuntime
from simulation.engine.scheduler import Process, Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom
from simulation.world.history import Answer, History, KindCall, KindOfCall
from simulation.world.hive_table import FOLDER, HIVE, HIVE_MARK, hive_table_row
from simulation.world.metastore import Metastore, RowChange
from simulation.world.storage import Storage

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
SAVED = f"{FOLDER}/_iceberg/hive-table.json"


class World:
    def __init__(self) -> None:
        scheduler = Scheduler(SeededRandom(1), WorkerPool())
        self.storage = Storage(SimulatedRuntime(scheduler, Process("p"), SeededRandom(1)))
        self.history = History()
        self.metastore = Metastore(scheduler)
        self.metastore.rows[HIVE] = hive_table_row()
        self.failures: list[str] = []
        self.checker = KindChecker(self.storage, self.history, self.metastore, self.failures.append)
        self.files(SAVED, json.dumps({"record": encode(hive_row(HIVE, hive_table_row()))}).encode())

    def files(self, location: str, data: bytes) -> None:
        self.storage.files[location] = data

    def becomes(self, row: Any, replaced: str | None = None, process: str = "p") -> None:
        self.metastore.rows[HIVE] = row
        location = row.parameters.get("metadata_location")
        self.checker.on_row_change(RowChange(HIVE, location, replaced, None, process))

    def iceberg(self, location: str = "m0", *, log: str | None = None, **properties: str) -> Any:
        """The row of an Iceberg table whose metadata file is there."""

        metadata = new_table_metadata(Schema.parse(SCHEMA), None, None, FOLDER, properties, uuid=UUID, now_ms=1)
        if log is not None:
            metadata = metadata.with_metadata_log_entry(log, 1)
        self.files(location, metadata.to_bytes())
        row = hive_table_row()
        row.tableType = EXTERNAL_TABLE
        row.parameters |= {
            "EXTERNAL": "TRUE",
            "table_type": "ICEBERG",
            "metadata_location": location,
            HIVE_TABLE: SAVED,
        }
        return row

    def call(self, kind: KindOfCall, mark: str, answer: Answer | None = None, caller: str = "p") -> KindCall:
        call = KindCall(kind, caller, mark)
        self.history.kind_calls.append(call)
        if answer is not None:
            self.history.record_kind_answer(call, answer)
        return call


@pytest.fixture
def world() -> World:
    return World()


def broken(world: World) -> set[str]:
    return {failure.partition(":")[0] for failure in world.failures}


def test_a_migration_a_commit_and_an_undo_keep_them_all(world: World) -> None:
    migration, commit = world.call(KindOfCall.MIGRATE, UUID), world.call(KindOfCall.COMMIT, "p.2")
    world.becomes(world.iceberg())
    world.history.record_kind_answer(migration, Answer.COMMITTED)
    world.becomes(world.iceberg("m1", log="m0", **{"p.2": "1"}), "m0")
    world.history.record_kind_answer(commit, Answer.COMMITTED)
    undo = world.call(KindOfCall.UNDO, "p.3")
    world.becomes(hive_table_row(), "m1")
    world.history.record_kind_answer(undo, Answer.COMMITTED)
    world.checker.on_delete("m1")
    world.checker.check_at_rest(["p"])
    assert world.failures == []


def odd_iceberg_rows(world: World) -> list[Any]:
    rows = [world.iceberg() for _ in range(4)]
    rows[0].tableType = "MANAGED_TABLE"
    del rows[1].parameters["EXTERNAL"]
    rows[2].parameters["metadata_location"] = "gone"
    rows[3].parameters[HIVE_TABLE] = "gone"
    return rows


def odd_hive_rows() -> list[Any]:
    rows = [hive_table_row() for _ in range(4)]
    rows[0].tableType = EXTERNAL_TABLE
    rows[1].parameters[HIVE_TABLE] = SAVED
    rows[2].sd.inputFormat = "org.apache.hadoop.mapred.FileInputFormat"
    rows[3].sd.cols = []
    return rows


@pytest.mark.parametrize("number", range(4))
def test_a_row_is_one_or_the_other(world: World, number: int) -> None:
    world.becomes(odd_iceberg_rows(world)[number])
    assert broken(world) == {"kind-is-whole"}
    world.failures.clear()
    world.call(KindOfCall.UNDO, "p.1")
    world.becomes(odd_hive_rows()[number], "m0")
    assert broken(world) == {"kind-is-whole"}


def test_what_hive_changed_is_kept(world: World) -> None:
    world.history.hive_marks.append("1")
    world.becomes(world.iceberg())
    assert broken(world) == {"hive-change-kept"}
    world.failures.clear()
    world.call(KindOfCall.UNDO, "p.1")
    row = hive_table_row()
    row.parameters[HIVE_MARK] = "0"
    world.becomes(row, "m0")
    assert broken(world) == {"hive-change-kept"}


def test_a_swap_logs_what_it_replaces(world: World) -> None:
    world.becomes(world.iceberg())
    world.becomes(world.iceberg("m1"), "m0")
    assert broken(world) == {"kind-history"}


@pytest.mark.parametrize("answer", [None, Answer.FAILED])
def test_an_iceberg_table_becomes_hives_by_an_undo_of_that_process(world: World, answer: Answer | None) -> None:
    world.becomes(world.iceberg())
    world.call(KindOfCall.UNDO, "q.1", caller="q")
    if answer is not None:
        world.call(KindOfCall.UNDO, "p.1", answer)
    world.becomes(hive_table_row(), "m0")
    assert broken(world) == {"kind-stays"}


@pytest.mark.parametrize("kind", [KindOfCall.MIGRATE, KindOfCall.COMMIT, KindOfCall.UNDO])
@pytest.mark.parametrize("made", [True, False])
def test_answers_are_true(world: World, kind: KindOfCall, made: bool) -> None:
    call = world.call(kind, UUID)
    call.made = made
    world.history.record_kind_answer(call, Answer.UNKNOWN)
    assert world.failures == []
    world.history.record_kind_answer(call, Answer.FAILED if made else Answer.COMMITTED)
    assert broken(world) == {"kind-answer-is-true"}


def test_a_file_that_the_row_names_stays(world: World) -> None:
    world.becomes(world.iceberg())
    world.checker.on_delete("m0")
    world.checker.on_delete(SAVED)
    assert len(world.failures) == 2
    assert broken(world) == {"kind-files-kept"}


def test_who_lives_has_all_answers(world: World) -> None:
    world.call(KindOfCall.KEEP, "p.1")
    world.checker.check_at_rest([])
    assert world.failures == []
    world.checker.check_at_rest(["p"])
    assert broken(world) == {"kind-caller-answered"}
