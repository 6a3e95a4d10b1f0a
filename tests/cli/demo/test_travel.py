"""Scene 4 names the table's own snapshots in its statements, and believes only what it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.cli.demo import travel
from iceberg_hms.errors import EngineError
from tests.cli.demo import tables
from tests.cli.demo.theatre import ScriptedSpark, printed, stage, statements


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
        travel.play(made)
        return made, catalog.load("logging.events").metadata.snapshots


def test_the_tables_own_snapshots_are_travelled_to(tmp_path: Path) -> None:
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
    assert travel._short("file:" + "x" * 500) == "file:" + "x" * 500
    assert travel._short("{" + "x" * 500).endswith("... (501 characters)")


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"TIMESTAMP AS OF": [(4,)]}, "3 rows then"),
        ({"SELECT * FROM logging.events": [("WARN", 1, "a", None)]}, "old rows are read"),
        ({"logging.events.files": [(1, "2021-04-03", "WARN", 1)]}, "both partition specs"),
    ],
)
def test_what_does_not_hold_fails_the_demo(tmp_path: Path, change: dict[str, Any], claim: str) -> None:
    with pytest.raises(EngineError, match=claim):
        play(tmp_path, ANSWERS | change)


def test_a_rollback_that_did_nothing_fails_the_demo(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="after the rollback"):
        play(tmp_path, ANSWERS, works=False)
