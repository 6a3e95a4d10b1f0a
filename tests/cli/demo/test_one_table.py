"""Scenes 4 and 5: every layer of a table is shown, and the demo believes only what it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.cli.demo import one_table
from iceberg_hms.errors import EngineError
from tests.cli.demo import tables
from tests.cli.demo.stages import ScriptedSpark, printed, stage, statements


class Counting(ScriptedSpark):
    """Counts 4 rows, and 3 between the rollback and the way forward, if rolling back works."""

    def __init__(self, answers: Any, *, works: bool) -> None:
        super().__init__(answers)
        self.works = works

    def sql(self, statement: str) -> Any:
        frame = super().sql(statement)
        if statement == "SELECT count(*) FROM logging.events":
            back = self.works and "rollback_to_snapshot" in self.statements[-2]
            frame.rows = [(3 if back else 4,)]
        return frame


ANSWERS: dict[str, Any] = {
    "VERSION AS OF": [("ERROR", 1, "a")] * 3,
    "TIMESTAMP AS OF": [(3,)],
    "SELECT * FROM logging.events": [("ERROR", 1, "a", None)] * 3 + [("INFO", 2, "b", "node-7")],
    "logging.events.files": [(0, "2021-04-01", None, 1), (1, "2021-04-03", "WARN", 1)],
}


def play(folder: Path, answers: dict[str, Any], *, works: bool = True) -> Any:
    with tables.catalog() as catalog:
        made = stage(folder, catalog=catalog)
        spark: Any = Counting(answers, works=works)
        made.session = spark
        one_table.travel(made)
        return made, catalog.load("logging.events").metadata.snapshots


def test_the_statements_name_the_tables_own_snapshots(tmp_path: Path) -> None:
    made, (first, second) = play(tmp_path, ANSWERS)
    ran = statements(made)
    assert any(f"VERSION AS OF {first.snapshot_id}" in text for text in ran)
    assert f"CALL spark_catalog.system.rollback_to_snapshot('logging.events', {first.snapshot_id})" in ran
    assert f"CALL spark_catalog.system.set_current_snapshot('logging.events', {second.snapshot_id})" in ran
    changes = [text for text in ran if text.startswith("ALTER TABLE logging.events")]
    assert [text.split()[3] for text in changes] == ["ADD", "RENAME", "DROP", "ADD"]


def test_the_pointer_is_shown_in_full_and_json_is_cut(tmp_path: Path) -> None:
    made, _ = play(tmp_path, ANSWERS)
    text = printed(made)
    assert "previous_metadata_location" in text
    assert "metadata_location" in text
    assert one_table.shortened("file:" + "x" * 500) == "file:" + "x" * 500
    assert one_table.shortened("{" + "x" * 500).endswith("... (501 characters)")


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"TIMESTAMP AS OF": [(4,)]}, "3 rows then"),
        ({"SELECT * FROM logging.events": [("WARN", 1, "a", None)]}, "reads old rows"),
        ({"logging.events.files": [(1, "2021-04-03", "WARN", 1)]}, "both partition specs"),
    ],
)
def test_a_claim_that_does_not_hold_fails_the_demo(tmp_path: Path, change: dict[str, Any], claim: str) -> None:
    with pytest.raises(EngineError, match=claim):
        play(tmp_path, ANSWERS | change)


def test_a_rollback_that_did_nothing_fails_the_demo(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="after the rollback"):
        play(tmp_path, ANSWERS, works=False)


def test_every_layer_is_shown(tmp_path: Path) -> None:
    with tables.catalog() as catalog:
        made = stage(tmp_path, catalog=catalog)
        one_table.take_apart(made)
        snapshot = catalog.load("logging.events").metadata.current_snapshot
        location = catalog.load("logging.events").metadata_location
    text = printed(made)
    assert snapshot is not None
    assert str(location).rpartition("/")[2] in text.replace("\n", "").replace(" ", "")
    assert f'"snapshot-id": {snapshot.snapshot_id}' in text
    assert "event_time_day: 2021-04-01 .. 2021-04-02" in text
    assert "18718.parquet" in text
    assert "event_time_day=2021-04-01" in text
    assert "ERROR" in text
    assert "WARN" in text


def test_a_table_without_a_snapshot_is_an_error(tmp_path: Path) -> None:
    with tables.catalog() as catalog:
        catalog.drop_table("logging.events")
        catalog.create_table("logging.events", tables.EVENTS)
        with pytest.raises(EngineError, match="no snapshot"):
            one_table.take_apart(stage(tmp_path, catalog=catalog))
