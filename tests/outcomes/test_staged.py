"""Write-audit-publish of every operation on files: staged, it changes nothing that is read; published, it does what it
would have done at once, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from iceberg_hms.errors import RequirementFailed
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.outcomes.actions import cases, copied_for, model, submit, tables_of
from tests.outcomes.stage import Stage, stage
from tests.outcomes.table import Cell, read

OPERATIONS = sorted(name for name, each in read().operations.items() if each["kind"] == "data")
#: What lands before the publication: one of each kind.
LANDED = ("append", "delete_files", "overwrite", "rewrite", "row_delta_equality", "rewrite_manifests")
#: On a main that has moved only these are published (Java: CherryPickOperation.cherrypick).
REPLAYED = ("append", "replace_partitions")


@pytest.fixture
def made(request: pytest.FixtureRequest) -> Iterator[Stage]:
    files, pointer, ids, contents = copied_for(request.param)
    with memory_catalog(files=files, pointer=pointer) as catalog:
        yield stage(catalog, files, ids, contents)


def is_refused(cell: Cell) -> bool:
    if cell.relation == "another_ref":
        return False
    if cell.in_flight == "append":
        return cell.relation == "same_file"
    return cell.in_flight not in REPLAYED or cell.relation in ("same_file", "same_partition")


CELLS = [
    cell
    for cell in read().cells
    if cell.in_flight in OPERATIONS and cell.landed in LANDED and cell.isolation != "snapshot"
]


@pytest.mark.parametrize(("made", "cell"), [(each, each) for each in CELLS], ids=[*map(str, CELLS)], indirect=["made"])
def test_what_is_staged_is_published_on_main_as_it_is_then_or_refused(made: Stage, cell: Cell) -> None:
    in_flight, landed = cases(cell)
    in_flight = replace(in_flight, wap_id="w")
    stale, other = tables_of(cell, made)
    submit(in_flight, stale, made)
    assert made.found() == made.rows.ids(), "it is to be read"
    submit(landed, other, made)
    model(landed, made)
    before = made.left()
    if is_refused(cell):
        with pytest.raises(RequirementFailed) as caught:
            made.table().publish_changes("w")
        assert caught.value.name.startswith("cherry-pick-")
        assert caught.value.proved_failed
        assert made.left() == before
    else:
        report = made.table().publish_changes("w")
        model(in_flight, made)
        assert bool(report.snapshot_ids) == (cell.relation != "another_ref")
        with pytest.raises(RequirementFailed) as caught:
            made.table().publish_changes("w")
        assert caught.value.name == "cherry-pick-once"
    assert made.found() == made.rows.ids()
