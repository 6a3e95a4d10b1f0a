"""Each verb alone: what it sends is what `cells.json` says. A client whose requests change is seen here.

With MATRIX_WRITE=1 in its environment a run of all of them writes the file anew.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from labs.matrix import cells, replayed, shapes
from labs.matrix.cells import Shape
from labs.matrix.rows import anomaly
from labs.matrix.verb import Verb
from labs.matrix.verbs import all_verbs
from labs.matrix.writers import World

#: PyIceberg says so of each delete or overwrite that matched nothing.
pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match any records")

WRITE = bool(os.environ.get("MATRIX_WRITE"))
VERBS = all_verbs()


@pytest.fixture(scope="module")
def captured() -> Iterator[dict[str, list[Shape]]]:
    found: dict[str, list[Shape]] = {}
    yield found
    if WRITE and set(found) == set(VERBS):
        found |= {replayed.name(each): [shapes.shape(replayed.sent(each))] for each in replayed.recordings()}
        cells.write(cells.group(found, VERBS))


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())
def test_a_verb_alone_does_what_it_means_and_sends_what_is_known(
    world: World, captured: dict[str, list[Shape]], verb: Verb
) -> None:
    writer = world.writers["a"]
    table = world.new_name() if verb.creates else world.new_table(verb.properties)
    if verb.prepare is not None:
        verb.prepare(writer, table)
    head = Counter() if verb.creates else world.rows(table)
    writer.gate.close()
    writer.gate.open()
    verb.run(writer, table)
    sends = [shapes.shape(each) for each in writer.gate.sent]
    assert anomaly(head, {"a": verb.meaning}, world.rows(table)) is None
    captured[verb.name] = sends
    if not WRITE:
        cell = cells.cell_of(cells.read(), verb.name)
        assert sends == ([] if cell is None else cell.sends)
