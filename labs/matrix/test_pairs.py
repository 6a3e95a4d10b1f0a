"""Each pair of cells, planned on one head and delivered one after the other.

A pair is right under `plain` and `none` if the rows are those of an order that the clients promise. Under `all` the
operator gave that promise up, and the result names what may happen.

`make matrix` runs every pair in every mode; with MATRIX_WRITE=1 in its environment a run writes `results.json` anew.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from labs.matrix import cells, results
from labs.matrix.cells import Cell
from labs.matrix.pairs import MODES, Outcome, deliver
from labs.matrix.results import Result
from labs.matrix.verbs import all_verbs
from labs.matrix.writers import World

#: What PyIceberg tells its callers: that a delete found nothing, and that it rewrites files where others write deletes.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Delete operation did not match any records"),
    pytest.mark.filterwarnings("ignore:Merge on read is not yet supported"),
]

WRITE = bool(os.environ.get("MATRIX_WRITE"))
VERBS = all_verbs()


def _pairs() -> Iterator[tuple[Cell, Cell]]:
    """A verb that makes its table can only meet itself."""
    known = [cell for cell in cells.read() if cell.name in VERBS]
    for first, second in itertools.product(known, repeat=2):
        if not (VERBS[first.name].creates or VERBS[second.name].creates) or first is second:
            yield first, second


def _most_telling_first(pair: tuple[Cell, Cell]) -> tuple[bool, bool, bool]:
    """Two of one kind, then two appends, then an append that is overtaken: a run may be interrupted."""
    first, second = pair
    return first is not second, not (first.appends and second.appends), not second.appends


def _verbs() -> Iterator[tuple[str, str]]:
    """The strictest verbs of each two cells; and where a cell has verbs that no client validates, one of them too."""
    for first, second in sorted(_pairs(), key=_most_telling_first):
        yield first.name, second.name
        blind = second.blind(VERBS)
        if first is second and blind is not None:
            yield from ((first.name, blind), (blind, blind), (blind, first.name))


PAIRS = {f"{first} / {second}": (first, second) for first, second in _verbs()}


def _keep_or_compare(result: Result) -> None:
    """Write a result at once, since a run of all pairs may be interrupted and resumed; or compare it with the one that
    is kept. A pair that was never delivered before has none."""
    known = results.read()
    if WRITE:
        results.write(results.merged(known, [result]))
        return
    kept = next((each for each in known if each.key == result.key), result)
    assert result == kept


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES, ids=[f"under_{mode}" for mode in MODES])
@pytest.mark.parametrize("pair", PAIRS, ids=PAIRS)
def test_a_pair_leaves_the_rows_of_an_order_that_its_clients_promise(world: World, pair: str, mode: str) -> None:
    first, second = PAIRS[pair]
    outcome = deliver(world, VERBS[first], VERBS[second], mode)
    if mode != "all":
        assert outcome.anomaly is None, outcome
    _keep_or_compare(Result(mode, first, second, outcome.second, outcome.anomaly))


#: The most telling pairs: first, second, what happens to the second one by default, and what `all` would make of them.
SAMPLE = [
    ("PyIceberg overwrite, no row matches", "PyIceberg overwrite, no row matches", "409, refused by its client"),
    ("PyIceberg append", "PyIceberg delete + append in one transaction, no row matches", "409, refused by its client"),
    ("Spark INSERT", "Spark INSERT", "409, came back"),
    *(
        (name, name, "409, refused by its client")
        for mode in ("copy-on-write", "merge-on-read")
        for name in [f"Spark MERGE update + insert of a new key, {mode}"]
    ),
    ("Spark INSERT", "Java newRowDelta, rows added, validated, in Spark's driver", "409, refused by its client"),
    ("Duckdb merge-insert-no-match", "Duckdb merge-insert-no-match", "409, did not come back"),
]


@pytest.mark.parametrize(("first", "second", "expected"), SAMPLE)
def test_a_client_that_validates_is_refused_and_one_that_does_not_retries(
    world: World, first: str, second: str, expected: str
) -> None:
    outcome: Outcome = deliver(world, VERBS[first], VERBS[second], "plain")
    assert outcome.anomaly is None, outcome
    assert outcome.second == expected, outcome


@pytest.mark.parametrize("verb", ["PyIceberg overwrite, no row matches", "Duckdb merge-insert-no-match"])
def test_the_matrix_sees_what_is_wrong(world: World, verb: str) -> None:
    """The control: where the operator says that nobody validates, both insert."""
    outcome = deliver(world, VERBS[verb], VERBS[verb], "all")
    assert (outcome.second, outcome.anomaly) == ("rebased", "both insert")
