"""The table of expected outcomes: complete, without contradictions, and shown as it is."""

from tests.outcomes import table


def test_every_pair_of_operations_has_its_cells_and_every_refusal_is_one_of_them() -> None:
    outcomes = table.read()
    assert outcomes.refused.keys() <= set(outcomes.cells)
    assert len(set(outcomes.cells)) == len(outcomes.cells)


def test_a_refusal_under_snapshot_isolation_is_one_under_serializable_isolation() -> None:
    refused = table.read().refused
    weaker = [cell for cell in refused if cell.isolation == "snapshot"]
    assert weaker
    for cell in weaker:
        assert table.Cell(cell.in_flight, cell.landed, cell.relation, "serializable") in refused


def test_the_page_shows_the_table_as_it_is() -> None:
    shown = table.DOCS.read_text(encoding="utf-8")
    assert table.page(shown, table.read()) == shown, "run python -m tests.outcomes.table"
