"""Which snapshots and refs an expiration removes, and which commits in between it lives with."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.snapshots.expire_snapshots import UNREFERENCED, ExpireSnapshots
from iceberg_hms.changes.operations.snapshots.ref_change import SNAPSHOT_EXISTS
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.operations.histories import committed, history, tag
from tests.changes.tables import branch, table

#: 1 <- 2 <- 3 <- 4, 1 <- 5, and 6 beside them: made at 1,000 ms, 2,000 ms and so on.
PARENTS = {1: None, 2: 1, 3: 2, 4: 3, 5: 1, 6: None}
NOW = 10_000


def base_of(refs=None, version=2, **properties):
    named = {key.replace("_", "-"): str(value) for key, value in properties.items()}
    settings = {f"history.expire.{key}" if key != "gc.enabled" else key: value for key, value in named.items()}
    return history(PARENTS, {"main": 4} if refs is None else refs, version, properties=settings)


def expire(seen, **options):
    return ExpireSnapshots(seen, now_ms=NOW, **options)


def left(base, **options):
    after = committed(base, expire(base, **options), now_ms=NOW)
    return sorted(each.snapshot_id for each in after.snapshots)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_is_younger_than_five_days_stays(version):
    assert left(base_of(version=version)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("older_than", "kept"),
    [(0, [1, 2, 3, 4, 5, 6]), (2_000, [2, 3, 4, 5, 6]), (2_001, [3, 4, 5, 6]), (6_000, [4, 6]), (99_000, [4])],
)
def test_what_was_made_before_a_time_goes_but_for_the_head(older_than, kept):
    assert left(base_of(), older_than_ms=older_than) == kept


def test_a_number_of_snapshots_stays_on_each_branch():
    assert left(base_of(), older_than_ms=99_000, retain_last=2) == [3, 4]
    assert left(base_of({"main": 4, "b": 5}), older_than_ms=99_000, retain_last=2) == [1, 3, 4, 5]


def test_the_table_says_how_old_and_how_many():
    assert left(base_of(max_snapshot_age_ms=4_500)) == [4, 6]
    assert left(base_of(max_snapshot_age_ms=4_500, min_snapshots_to_keep=3)) == [2, 3, 4, 6]
    assert left(base_of(max_snapshot_age_ms=4_500, min_snapshots_to_keep=3), retain_last=1) == [4, 6]


def test_settings_of_a_branch_go_before_those_of_the_call():
    kept = {"min-snapshots-to-keep": 3}
    assert left(base_of({"main": branch(4, **kept)}), older_than_ms=99_000, retain_last=1) == [2, 3, 4]
    young = {"max-snapshot-age-ms": 8_000}
    assert left(base_of({"main": branch(4, **young)}), older_than_ms=99_000) == [2, 3, 4]


def test_a_branch_keeps_nothing_beyond_its_first_old_snapshot():
    """Writers' clocks differ: 1 is younger than its child 2."""
    raw = base_of().raw
    snapshots = [{**each, "timestamp-ms": 9_000} if each["snapshot-id"] == 1 else each for each in raw["snapshots"]]
    base = table(2, **{key.replace("-", "_"): value for key, value in {**raw, "snapshots": snapshots}.items()})
    assert left(base, older_than_ms=3_000) == [3, 4, 5, 6]


def test_a_tag_keeps_its_snapshot_and_not_the_ancestors():
    assert left(base_of({"main": 4, "t": tag(3)}), older_than_ms=99_000) == [3, 4]


def test_a_ref_that_is_too_old_goes_and_main_never_does():
    old = {"max-ref-age-ms": 4_999}
    refs = {"main": branch(4, **old), "b": branch(5, **old), "t": tag(3, **{"max-ref-age-ms": 7_000})}
    base = base_of(refs)
    after = committed(base, expire(base, older_than_ms=99_000), now_ms=NOW)
    assert set(after.refs) == {"main", "t"}
    assert left(base_of(refs, max_ref_age_ms=1), older_than_ms=99_000) == [3, 4]
    assert left(base_of({"main": 4, "t": tag(3)}, max_ref_age_ms=1), older_than_ms=99_000) == [4]


def test_named_snapshots_go_alone():
    assert left(base_of(max_snapshot_age_ms=1), snapshot_ids=[2, 6]) == [1, 3, 4, 5]
    assert left(base_of(), snapshot_ids=[6], older_than_ms=3_000) == [3, 4, 5]


def test_no_named_snapshots_are_none_and_not_all_that_are_old():
    assert left(base_of(max_snapshot_age_ms=1)) == [4]
    assert left(base_of(max_snapshot_age_ms=1), snapshot_ids=[]) == [1, 2, 3, 4, 5, 6]
    assert left(base_of(), snapshot_ids=[], older_than_ms=3_000) == [3, 4, 5, 6]


@pytest.mark.parametrize("refs", [{"main": 4, "x": 6}, {"main": 4, "x": tag(6)}, {"main": 6}])
def test_a_named_snapshot_that_has_a_ref_is_refused(refs):
    with pytest.raises(RequirementFailed, match=r"snapshot 6 cannot expire: (branch|tag) (x|main) names it") as refused:
        expire(base_of(refs), snapshot_ids=[5, 6]).check(base_of(refs))
    assert (refused.value.name, refused.value.rests_on) == (UNREFERENCED, {6})


def test_a_named_snapshot_that_got_a_ref_meanwhile_is_refused():
    change = expire(base_of(), snapshot_ids=[6])
    change.check(base_of())
    moved = base_of({"main": 4, "kept": tag(6)})
    for call in (lambda: change.check(moved), lambda: change.stage(moved, MemoryManifestStore().open())):
        with pytest.raises(RequirementFailed, match="snapshot 6 cannot expire: tag kept names it"):
            call()


def test_a_named_snapshot_that_never_was_is_refused_and_one_that_is_gone_is_not():
    with pytest.raises(RequirementFailed, match="snapshot 77 is not in the table") as refused:
        expire(base_of(), snapshot_ids=[77])
    assert refused.value.name == SNAPSHOT_EXISTS
    change = expire(base_of(), snapshot_ids=[5, 6])
    gone = history({id_: parent for id_, parent in PARENTS.items() if id_ != 6}, {"main": 4})
    assert [each.snapshot_id for each in committed(gone, change).snapshots] == [1, 2, 3, 4]


def test_an_expiration_is_worked_out_again_on_the_state_that_it_lands_on():
    change = expire(base_of(), older_than_ms=99_000)
    assert [each.snapshot_id for each in committed(base_of(), change).snapshots] == [4]
    moved = base_of({"main": 4, "kept": branch(5, **{"min-snapshots-to-keep": 2})})
    assert [each.snapshot_id for each in committed(moved, change).snapshots] == [1, 4, 5]
    assert set(change.staged.snapshot_ids) == {2, 3, 6}


def test_ages_count_from_one_time_on_every_base():
    change = expire(base_of(), older_than_ms=None)
    aged = base_of(max_snapshot_age_ms=NOW - 3_000)
    assert [each.snapshot_id for each in committed(aged, change, now_ms=NOW + 9_000_000).snapshots] == [3, 4, 5, 6]


@pytest.mark.parametrize("value", ["false", "FALSE", "no", ""])
def test_a_table_whose_files_are_shared_is_refused(value):
    base = base_of(**{"gc.enabled": value})
    with pytest.raises(InvalidInput, match=r"its property gc.enabled is"):
        expire(base).check(base)


@pytest.mark.parametrize("name", ["max_snapshot_age_ms", "min_snapshots_to_keep", "max_ref_age_ms"])
def test_a_malformed_property_is_refused(name):
    base = base_of({"main": 4, "b": 5}, **{name: "five"})
    with pytest.raises(InvalidInput, match=r"must be a whole number from .*, but is 'five'"):
        expire(base).check(base)


def test_at_least_one_snapshot_is_kept():
    with pytest.raises(InvalidInput, match="at least 1 snapshot is kept, but retain_last is 0"):
        expire(base_of(), retain_last=0)


def test_another_table_of_the_name_is_refused():
    change = expire(base_of())
    for base in (None, base_of().replace(table_uuid="0c12d441-03fe-4693-9a96-a0705ddf69c1")):
        with pytest.raises(RequirementFailed):
            change.check(base)


def test_an_empty_table_has_nothing_to_expire():
    assert committed(table(), expire(table())).snapshot_rows == []


def test_schemas_that_no_snapshot_uses_go_if_asked_for():
    base = base_of()
    schemas = [{**base.fields["schemas"][0], "schema-id": number} for number in range(3)]
    snapshots = [{**each, "schema-id": 1 if each["snapshot-id"] == 6 else 0} for each in base.raw["snapshots"]]
    base = base.replace(schemas=schemas, current_schema_id=2, snapshots=snapshots)
    options = {"older_than_ms": 6_000, "clean_expired_metadata": True}
    assert [each.schema_id for each in committed(base, expire(base, older_than_ms=6_000)).schemas] == [0, 1, 2]
    assert [each.schema_id for each in committed(base, expire(base, **options)).schemas] == [0, 1, 2]
    gone = expire(base, snapshot_ids=[6], clean_expired_metadata=True)
    assert [each.schema_id for each in committed(base, gone).schemas] == [0, 2]
