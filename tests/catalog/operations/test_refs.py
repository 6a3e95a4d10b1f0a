"""Branches, tags, rollback and cherry-pick, as callers use them: two of them, with table objects of different ages."""

import datetime
import itertools
from dataclasses import replace

import pytest
from hypothesis import settings

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.snapshot import Ref
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.catalog.operations.refs_model import RefsMachine

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


class NeverTwice:
    """The system's clock, whose wall clock says no millisecond twice: time travel tells no two commits of one apart."""

    def __init__(self):
        self._ticks = itertools.count(SYSTEM_CLOCK.now_ms())

    def __getattr__(self, name):
        return getattr(SYSTEM_CLOCK, name)

    def now_ms(self):
        return next(self._ticks)


@pytest.fixture(params=[1, 2, 3])
def catalog(request):
    with memory_catalog(clock=NeverTwice()) as made:
        made.create_namespace("logging")
        table = made.create_table("logging.events", SCHEMA, properties={"format-version": str(request.param)})
        assert table.metadata.format_version == request.param
        yield made


@pytest.fixture
def table(catalog):
    return catalog.load_table("logging.events")


@pytest.fixture
def other(catalog, table):
    return catalog.load_table("logging.events")


def data_file(name):
    return DataFile(f"file:/in/{name}.parquet", "PARQUET", 1, 10)


def append(table, name, **options):
    """The new snapshot's id."""
    return table.append([data_file(name)], **options).snapshot_ids[0]


def live(catalog, ref="main"):
    table = catalog.load_table("logging.events")
    manifests = catalog.services.ports.manifests()
    head = table.snapshot_by_id(table.refs()[ref].snapshot_id)
    entries = manifests.entries(manifests.list(head))
    return sorted(entry.data_file.file_path[len("file:/in/") : -len(".parquet")] for entry in entries if entry.is_live)


def test_branches_and_tags_are_made_moved_renamed_and_removed(table, catalog):
    first, second = append(table, "a"), append(table, "b")
    table.create_branch("audit", min_snapshots_to_keep=2, max_snapshot_age_ms=3, max_ref_age_ms=4)
    table.create_tag("eod", first, 9)
    assert table.refs() == {
        "main": Ref(second),
        "audit": Ref(second, "branch", 2, 3, 4),
        "eod": Ref(first, "tag", None, None, 9),
    }
    append(table, "c", branch="audit")
    assert (live(catalog), live(catalog, "audit")) == (["a", "b"], ["a", "b", "c"])
    table.replace_branch("audit", first, max_ref_age_ms=5)
    assert table.refs()["audit"] == Ref(first, "branch", 2, 3, 5)
    table.replace_branch("audit", ref_name="main")
    table.replace_tag("eod", second)
    assert (table.refs()["audit"].snapshot_id, table.refs()["eod"]) == (second, Ref(second, "tag", None, None, 9))
    table.rename_branch("audit", "checked")
    table.set_branch_retention("checked", min_snapshots_to_keep=7)
    table.set_tag_retention("eod", 8)
    assert table.refs()["checked"] == Ref(second, "branch", 7, 3, 5)
    assert table.refs()["eod"].max_ref_age_ms == 8
    table.remove_branch("checked")
    table.remove_tag("eod")
    assert table.refs() == {"main": Ref(second)}


def test_a_branch_of_an_empty_table_gets_an_empty_snapshot(table, catalog):
    report = table.create_branch("audit", max_ref_age_ms=4)
    (made,) = table.snapshots()
    assert report.snapshot_ids == (made.snapshot_id,)
    assert table.refs() == {"audit": Ref(made.snapshot_id, "branch", None, None, 4)}
    assert (table.current_snapshot(), made.operation, live(catalog, "audit")) == (None, "append", [])


def test_a_branch_that_was_asked_for_while_the_table_was_empty_is_at_main_if_it_is_not(table, other):
    head = append(other, "a")
    report = table.create_branch("audit")
    assert report.snapshot_ids == ()
    assert table.refs()["audit"] == Ref(head)
    with pytest.raises(RequirementFailed, match="branch audit already exists"):
        other.create_branch("audit")


def test_a_tag_is_of_the_table_as_it_is(table, other):
    append(table, "a")
    head = append(other, "b")
    table.create_tag("eod")
    assert table.refs()["eod"].snapshot_id == head


def test_a_branch_is_fast_forwarded_to_what_was_audited(table, other):
    append(table, "a")
    table.create_branch("audit")
    audited = append(table, "b", branch="audit")
    later = append(other, "c", branch="audit")
    with pytest.raises(RequirementFailed, match=f"branch audit has moved .* with snapshot {later}"):
        table.fast_forward("main", "audit")
    table.refresh().fast_forward("main", "audit")
    assert (table.current_snapshot().snapshot_id, table.current_snapshot().parent_snapshot_id) == (later, audited)


def test_a_branch_with_other_commits_is_not_forwarded(table, other):
    append(table, "a")
    table.create_branch("audit")
    append(table, "b", branch="audit")
    append(other, "c")
    with pytest.raises(RequirementFailed, match="audit does not descend from main"):
        table.fast_forward("main", "audit")


def test_a_rollback_does_not_lose_what_its_caller_has_not_seen(table, other, catalog):
    first, _ = append(table, "a"), append(table, "b")
    theirs = append(other, "c")
    for roll_back in (
        lambda: table.rollback_to_snapshot(first),
        lambda: table.rollback_to_timestamp(table.current_snapshot().timestamp_ms),
        lambda: table.set_current_snapshot(first),
        lambda: table.replace_branch("main", first),
    ):
        with pytest.raises(RequirementFailed, match=f"branch main has moved .* with snapshot {theirs}"):
            roll_back()
    assert live(catalog) == ["a", "b", "c"]
    table.rollback_to_snapshot(first, on_unseen_commits="discard")
    assert live(catalog) == ["a"]
    table.set_current_snapshot(theirs)
    assert live(catalog) == ["a", "b", "c"]


def test_main_goes_back_in_time_and_the_log_tells_when(table):
    first, second = append(table, "a"), append(table, "b")
    table.rollback_to_snapshot(first)
    assert [entry.snapshot_id for entry in table.history()] == [first, second, first]
    when = table.history()[-1].timestamp_ms
    assert table.snapshot_as_of_timestamp(when + 60_000).snapshot_id == first
    zoned = datetime.datetime.fromtimestamp(when / 1_000 + 60, datetime.UTC)
    assert table.snapshot_as_of_timestamp(zoned).snapshot_id == first
    with pytest.raises(InvalidInput, match="no time zone"):
        table.rollback_to_timestamp(datetime.datetime(2024, 1, 1))  # noqa: DTZ001 - that is the point


def test_main_goes_back_to_a_time(table):
    first, second = append(table, "a"), append(table, "b")
    table.set_current_snapshot(second)
    after = table.snapshot_by_id(second).timestamp_ms + 1
    table.rollback_to_timestamp(after)
    assert table.current_snapshot().snapshot_id == second
    with pytest.raises(RequirementFailed, match="no snapshot older than"):
        table.rollback_to_timestamp(table.snapshot_by_id(first).timestamp_ms)


def test_ancestors_are_those_of_a_snapshot_or_ref(table):
    first, second = append(table, "a"), append(table, "b")
    table.create_tag("eod", first)
    assert [each.snapshot_id for each in table.ancestors()] == [second, first]
    assert [each.snapshot_id for each in table.ancestors("eod")] == [first]
    assert [each.snapshot_id for each in table.ancestors(second)] == [second, first]
    assert table.ancestors("no such ref") == table.ancestors(7) == []
    assert table.snapshot_by_id(7) is None


def test_an_append_is_staged_audited_and_published(table, other, catalog):
    append(table, "a")
    report = table.append([data_file("b")], wap_id="nightly")
    (staged,) = report.snapshot_ids
    assert live(catalog) == ["a"]
    assert table.snapshot_by_id(staged).summary["wap.id"] == "nightly"
    append(other, "c")
    published = other.publish_changes("nightly")
    assert live(catalog) == ["a", "b", "c"]
    assert other.current_snapshot().summary["published-wap-id"] == "nightly"
    assert published.snapshot_ids == (other.current_snapshot().snapshot_id,)
    with pytest.raises(RequirementFailed, match=f"snapshot {staged} was cherry-picked already"):
        table.publish_changes("nightly")


def test_a_staged_append_that_is_next_is_published_as_it_is(table, catalog):
    append(table, "a")
    (staged,) = table.append([data_file("b")], stage_only=True).snapshot_ids
    assert live(catalog) == ["a"]
    report = table.cherry_pick(staged)
    assert (report.snapshot_ids, report.already_committed, table.current_snapshot().snapshot_id) == ((), False, staged)
    assert live(catalog) == ["a", "b"]


def test_a_dynamic_overwrite_is_staged_and_published_beside_other_partitions(catalog):
    def of(number, name):
        return DataFile(f"file:/in/{name}.parquet", "PARQUET", 1, 10, {"id": number})

    catalog.create_table("logging.parts", SCHEMA, partition_spec=["id"])
    table = catalog.load_table("logging.parts")
    table.append([of(1, "one"), of(2, "two")])
    table.replace_partitions([of(1, "again")], wap_id="first")
    table.replace_partitions([of(1, "lost")], wap_id="second")
    table.append([of(2, "more")])
    head = table.publish_changes("first").metadata.current_snapshot
    assert (head.operation, head.summary["deleted-data-files"], head.summary["total-data-files"]) == (
        "overwrite",
        "1",
        "3",
    )
    manifests = catalog.services.ports.manifests()
    live = {entry.data_file.file_path for entry in manifests.entries(manifests.list(head)) if entry.is_live}
    assert live == {f"file:/in/{name}.parquet" for name in ("again", "two", "more")}
    with pytest.raises(RequirementFailed, match="overwrote partition id=1"):
        table.publish_changes("second")


def test_a_picked_overwrite_takes_the_deletion_vectors_of_its_files_along():
    def of(number, name, **more):
        return DataFile(f"file:/in/{name}", "PARQUET", 2, 10, {"id": number}, **more)

    vector = replace(of(1, "v.puffin"), file_format="PUFFIN", content=1, record_count=1)
    vector = replace(vector, referenced_data_file="file:/in/one", content_offset=4, content_size_in_bytes=6)
    with memory_catalog(clock=NeverTwice()) as catalog:
        catalog.create_namespace("logging")
        properties = {"format-version": "3"}
        table = catalog.create_table("logging.parts", SCHEMA, partition_spec=["id"], properties=properties)
        table.append([of(1, "one"), of(2, "two")])
        table.row_delta(deletes=[vector])
        table.replace_partitions([of(1, "again")], wap_id="w")
        table.append([of(2, "more")])
        head = table.publish_changes("w").metadata.current_snapshot
        manifests = catalog.services.ports.manifests()
        live = {entry.data_file.file_path for entry in manifests.entries(manifests.list(head)) if entry.is_live}
        assert live == {f"file:/in/{name}" for name in ("again", "two", "more")}
        assert (head.summary["removed-dvs"], head.summary["total-delete-files"]) == ("1", "0")


def test_a_job_that_stages_runs_once_and_is_known_where_it_was_published(table, other):
    append(table, "a")
    first = table.append([data_file("b")], wap_id="w", idempotency_key="job")
    again = other.append([data_file("b")], wap_id="w", idempotency_key="job")
    assert (again.already_committed, again.snapshot_ids) == (True, first.snapshot_ids)
    append(other, "c")
    published = table.publish_changes("w")
    rerun = other.append([data_file("b")], idempotency_key="job")
    assert (rerun.already_committed, rerun.snapshot_ids) == (True, published.snapshot_ids)


def test_a_rolled_back_job_runs_again(table, other, catalog):
    first = append(table, "a")
    append(table, "b", idempotency_key="job")
    table.rollback_to_snapshot(first)
    assert not other.append([data_file("b")], idempotency_key="job").already_committed
    assert live(catalog) == ["a", "b"]


def test_steps_of_a_transaction_see_the_refs_of_the_steps_before_them(table, catalog):
    append(table, "a")
    with table.transaction() as tx:
        tx.append([data_file("b")])
        tx.create_tag("after-b")
        tx.create_branch("audit")
        tx.append([data_file("c")], branch="audit")
        tx.fast_forward("main", "audit")
        tx.remove_branch("audit")
    assert (live(catalog), live(catalog, "after-b")) == (["a", "b", "c"], ["a", "b"])
    assert set(table.refs()) == {"main", "after-b"}
    assert len(tx.report.snapshot_ids) == 2


def test_steps_follow_a_branch_but_do_not_publish_what_others_put_beneath_them(table, other, catalog):
    append(table, "a")
    table.create_branch("audit")
    other.refresh()
    tx = table.transaction()
    tx.append([data_file("b")], branch="audit")
    tx.fast_forward("main", "audit")
    theirs = append(other, "not audited", branch="audit")
    with pytest.raises(RequirementFailed, match=f"branch audit has moved .* with snapshot {theirs}"):
        tx.commit()
    assert live(catalog) == ["a"]


def test_a_pick_in_a_transaction_that_moves_main_forward_adds_only_the_other_snapshots(table, catalog):
    append(table, "a")
    (staged,) = table.append([data_file("b")], stage_only=True).snapshot_ids
    with table.transaction() as tx:
        tx.cherry_pick(staged)
        tx.append([data_file("c")])
    assert tx.report.snapshot_ids == (table.current_snapshot().snapshot_id,)
    assert live(catalog) == ["a", "b", "c"]


def test_bad_input_is_refused_and_changes_nothing(table):
    append(table, "a")
    table.create_tag("eod")
    before = table.metadata_location
    calls = {
        "not both": lambda: table.replace_branch("main"),
        "and not both": lambda: table.set_current_snapshot(1, ref_name="main"),
        'must be "refuse" or "discard"': lambda: table.remove_branch("b", on_unseen_commits="keep"),
        "a WAP id is a text": lambda: table.publish_changes(7),
        "must not be empty": lambda: table.publish_changes(""),
        "one WAP id": lambda: table.append([data_file("b")], wap_id=" "),
        "main cannot be removed": lambda: table.remove_branch("main"),
        "main cannot be renamed": lambda: table.rename_branch("main", "trunk"),
        "no tag can have that name": lambda: table.create_tag("main"),
        "main never expires": lambda: table.set_branch_retention("main", max_ref_age_ms=1),
        "no setting of": lambda: table.set_branch_retention("main"),
        "eod is a tag, not a branch": lambda: table.replace_branch("eod", ref_name="main"),
        "needs a name": lambda: table.create_branch(""),
    }
    for message, call in calls.items():
        with pytest.raises(InvalidInput, match=message):
            call()
    assert table.refresh().metadata_location == before


class TestTwoCallers(RefsMachine.TestCase):
    """Whatever two callers do, the table is the model, and no caller takes out what it has not seen."""

    settings = settings(max_examples=40, stateful_step_count=30)
