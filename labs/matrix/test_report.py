"""The docs say what the results say."""

from __future__ import annotations

import pytest

from labs.matrix import cells, report, results
from labs.matrix.cells import Cell
from labs.matrix.results import Result

SENDS = [{"snapshots": [{"operation": "append"}]}]
CELLS = [Cell(("Engine overwrite", "Engine append"), SENDS), Cell(("Other delete",), SENDS)]


def test_the_committed_table_is_that_of_the_committed_results() -> None:
    page = report.DOCS.read_text(encoding="utf-8")
    assert report.replaced(page, report.generate(cells.read(), results.read())) == page


def test_no_committed_result_is_wrong_where_the_clients_are_relied_on() -> None:
    found = results.read()
    assert {each.mode for each in found} == {"plain", "none", "all"}
    assert [each for each in found if each.mode != "all" and each.anomaly is not None] == []


def test_each_result_is_of_verbs_that_are_there() -> None:
    names = {name for cell in cells.read() for name in cell.verbs}
    assert {name for each in results.read() for name in (each.first, each.second)} <= names


def test_an_anomaly_is_named_and_counted() -> None:
    found = [
        Result("plain", "Engine overwrite", "Engine overwrite", "409, refused by its client"),
        Result("all", "Engine overwrite", "Engine overwrite", "rebased", "both insert"),
        Result("all", "Engine overwrite", "Engine append", "rebased"),
    ]
    text = report.generate(CELLS, found)
    assert "| Engine overwrite | 409, its client refuses | not run | rebased; **both insert** (1) |" in text
    assert "| Engine append | not run | not run | rebased |" in text
    assert "- Engine overwrite: Engine append" in text
    assert "\n- Other delete" in text


def test_a_page_without_a_place_for_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no"):
        report.replaced("a page", "a table")
