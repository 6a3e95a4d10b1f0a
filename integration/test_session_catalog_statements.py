"""SQL statements and DataFrame calls in each kind of session catalog, beside Java's HiveCatalog on one metastore."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from integration.session_catalog import table
from integration.session_catalog.chapters import CHAPTERS
from integration.session_catalog.compare import (
    HIVE,
    KIND_SECONDS,
    OURS,
    Run,
    allowing,
    differing_answers,
    lost_rows,
    recorded,
    run_kinds,
)
from integration.session_catalog.differences import REASONS, listed
from integration.session_catalog.sessions import served


def test_the_page_shows_the_table_as_it_is() -> None:
    text = table.DOCS.read_text(encoding="utf-8")
    assert table.page(text) == text, "run python -m integration.session_catalog.table"


def test_each_difference_is_one_of_a_statement_of_its_chapter_and_listed_once() -> None:
    keys = [(kind, key) for reason in REASONS for kind in reason.kinds for key in reason.statements]
    assert len(set(keys)) == len(keys)
    statements = {(chapter.name, statement) for chapter in CHAPTERS for statement in chapter.statements}
    assert {key for _, key in keys} <= statements


@pytest.fixture(scope="module")
def runs(metastore: Any, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    """All chapters in a session of each kind; the sessions run at the same time."""
    folder = tmp_path_factory.mktemp("session_catalog")
    names = [chapter.name for chapter in CHAPTERS]
    with served(metastore, folder / "server.log", *allowing(folder)) as uri:
        return run_kinds(metastore, (HIVE, *OURS), uri, names, folder)


@pytest.mark.slow
@pytest.mark.timeout(2 * KIND_SECONDS)
@pytest.mark.parametrize("kind", OURS)
def test_every_statement_is_answered_as_with_type_hive_or_its_difference_is_listed(
    runs: Mapping[str, Run], kind: str
) -> None:
    differing = differing_answers(runs[kind], runs[HIVE])
    assert differing - listed(kind) == set(), "cure it, or list it in differences.py with its reason"
    assert listed(kind) - differing == set(), "no longer a difference"


@pytest.mark.slow
@pytest.mark.timeout(2 * KIND_SECONDS)
def test_plain_spark_reads_every_row_of_the_hive_tables_that_are_left(
    runs: Mapping[str, Run], metastore: Any, tmp_path: Path
) -> None:
    assert lost_rows(metastore, list(runs), CHAPTERS, tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(2 * KIND_SECONDS)
def test_type_hive_answers_the_sample_as_it_is_recorded(runs: Mapping[str, Run]) -> None:
    again = "run python -m integration.session_catalog --record"
    assert runs[HIVE].answers["sample"] == recorded().answers["sample"], again
