from __future__ import annotations

from iceberg_hms.testing.simulation.table_state import TableState
from tests.testing.simulation.worlds import World


def test_a_state_names_all_that_its_metadata_needs_and_what_of_it_is_missing() -> None:
    world = World()
    first = world.location
    world.append(1)
    state = TableState.read(world.storage, world.location)
    assert {first, world.location, "file:/t/data/1.parquet"} <= state.needed
    assert len(state.needed) == 5
    assert state.missing == ()
    world.storage.data.clear()
    assert TableState.read(world.storage, world.location).missing == ("file:/t/data/1.parquet",)


def test_a_file_that_is_not_there_is_a_state_without_metadata_that_has_nothing() -> None:
    world = World()
    state = TableState.read(world.storage, "file:/nowhere")
    assert (state.metadata, state.missing) == (None, ("file:/nowhere",))
    assert not state.has(world.attempt(1))
    assert not state.has_well(world.attempt(2))


def test_an_append_is_there_well_when_it_is_on_main_and_its_file_once() -> None:
    world = World()
    mine = world.attempt(1)
    world.append(1)
    state = TableState.read(world.storage, world.location)
    assert state.has(mine)
    assert state.has_well(mine)
    assert not state.has(world.attempt(2))
