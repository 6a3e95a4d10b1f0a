from __future__ import annotations

import pytest

from simulation.actors import requests
from simulation.world.cluster import TABLE
from simulation.world.history import Answer, CatalogCallKind
from simulation.world.metastore import METADATA_LOCATION, iceberg_row
from tests.simulation.manual_schedule import OTHER, ManualSchedule


def test_what_is_dropped_and_not_purged_may_be_registered() -> None:
    for kind, pool in ((CatalogCallKind.DROP, 1), (CatalogCallKind.PURGE, 0)):
        manual = ManualSchedule(catalog_callers=1)
        location = manual.location
        manual.caller(kind, "caller1")
        manual.drop("caller1")
        assert manual.schedule.checker.registrable == [location][:pool]


def test_a_move_is_made_by_its_own_process_and_as_good_by_any() -> None:
    manual = ManualSchedule(catalog_callers=2)
    mine, other = manual.caller(CatalogCallKind.RENAME, "caller1"), manual.caller(CatalogCallKind.RENAME, "caller2")
    manual.rename("caller2")
    assert (mine.made, mine.effect_seen) == (False, True)
    assert (other.made, other.effect_seen) == (True, True)


def test_a_registration_over_a_table_is_made_as_well_by_another_of_the_very_file() -> None:
    manual = ManualSchedule(catalog_callers=2)
    mine, other = manual.caller(CatalogCallKind.OVERWRITE, "caller1"), manual.caller(CatalogCallKind.DROP, "caller2")
    mine.source = manual.location
    manual.drop("caller2")
    assert not mine.effect_seen
    manual.schedule.metastore.insert(TABLE, iceberg_row(TABLE, {METADATA_LOCATION: mine.source}), process="caller2")
    assert (mine.made, mine.effect_seen) == (False, True)
    assert other.made


def test_a_move_that_comes_after_the_answer_does_not_make_it_true() -> None:
    manual = ManualSchedule(catalog_callers=2)
    mine = manual.caller(CatalogCallKind.RENAME, "caller1")
    manual.history.record_catalog_answer(mine, Answer.UNKNOWN)
    manual.rename("caller2")
    assert not mine.effect_seen


def test_an_attempt_has_landed_for_good_and_is_excused_when_its_table_goes() -> None:
    manual = ManualSchedule(catalog_callers=1)
    mine, nobodys = manual.attempt(1), manual.attempt(2)
    manual.append(1)
    assert (mine.landed, nobodys.landed) == (True, False)
    assert manual.schedule.checker.has(mine)
    manual.drop("caller1")
    assert not manual.schedule.checker.has(mine)
    assert (mine.landed, mine.excused) == (True, True)
    assert not nobodys.excused


def test_who_purges_one_of_two_names_of_a_table_is_to_blame_himself() -> None:
    manual = ManualSchedule(catalog_callers=2)
    location = manual.location
    manual.schedule.metastore.insert(OTHER, iceberg_row(OTHER, {METADATA_LOCATION: location}), process="caller2")
    manual.caller(CatalogCallKind.PURGE, "caller1")
    manual.drop("caller1")
    manual.storage.delete(location)
    assert manual.failure is None
    assert manual.schedule.checker.has_excused_files


@pytest.mark.parametrize(("process", "excused_files"), [("caller1", True), ("w1", False)])
def test_a_creation_that_comes_once_more_after_a_purge_is_nobodys_fault(process: str, excused_files: bool) -> None:
    """create | another purges the table | the metastore carries out the same creation again, which has no expected
    value. Any other process that points at purged files is at fault."""
    manual = ManualSchedule(catalog_callers=2)
    row = {METADATA_LOCATION: manual.location}
    manual.caller(CatalogCallKind.CREATE, "caller1")
    manual.caller(CatalogCallKind.PURGE, "caller2")
    manual.drop("caller2")
    manual.storage.delete(row[METADATA_LOCATION])
    assert manual.failure is None
    manual.schedule.metastore.insert(TABLE, iceberg_row(TABLE, row), process=process)
    assert (manual.failure is None) == excused_files
    assert manual.schedule.checker.has_excused_files == excused_files


@pytest.mark.parametrize(("moved_on", "may_fail"), [("", False), ("dropped", True), ("renamed", False)])
def test_a_creation_that_somebody_dropped_may_be_answered_as_failed(moved_on: str, may_fail: bool) -> None:
    manual = ManualSchedule(catalog_callers=2)
    manual.caller(CatalogCallKind.PURGE, "caller2")
    manual.drop("caller2")
    creation = manual.caller(CatalogCallKind.CREATE, "caller1")
    location = "file:/t/metadata/made.metadata.json"
    manual.storage.files[location] = manual.storage.files["file:/t/metadata/00000-first.metadata.json"]
    manual.schedule.metastore.insert(TABLE, iceberg_row(TABLE, {METADATA_LOCATION: location}), process="caller1")
    if moved_on == "dropped":
        manual.caller(CatalogCallKind.DROP, "caller3")
        manual.drop("caller3")
    elif moved_on == "renamed":
        manual.caller(CatalogCallKind.RENAME, "caller3")
        manual.rename("caller3")
    manual.history.record_catalog_answer(creation, Answer.FAILED)
    assert (manual.failure is None) == may_fail


def test_what_a_blind_swap_of_another_takes_away_did_not_land() -> None:
    for process, landed in (("locker1", False), ("w1", True)):
        manual = ManualSchedule(protected=frozenset())
        first = manual.location
        mine = manual.attempt(1)
        manual.append(1)
        assert mine.landed
        manual.update(manual.mark("x"), base=first, process=process)
        assert mine.landed is landed


def test_a_replacement_excuses_what_main_had_before_it() -> None:
    manual = ManualSchedule(catalog_callers=1)
    mine = manual.attempt(1)
    manual.append(1)
    manual.record_answer(mine, Answer.COMMITTED)
    manual.attempt(9, snapshot_id=None, data_file=None, mark="replaced", replaces=True)
    manual.update(requests.remove_snapshot_ref("main"), manual.mark("replaced"))
    assert mine.excused
    assert manual.failure is None
