"""Create, replace, register, rename and drop views, whatever the metastore answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from iceberg_hms.changes.clients.view_commit import ViewCommit
from iceberg_hms.coordinator.locations.location_policy import ClientLocations, LocationPolicy
from iceberg_hms.coordinator.operations.view_operations import LoadedView, ViewOperations
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    AlreadyExists,
    CommitConflict,
    CommitStateUnknown,
    CompareAndSwapUnproven,
    CorruptFile,
    IcebergHmsError,
    InvalidInput,
    LocationNotAllowed,
    LockNotAcquired,
    MetastoreRefused,
    MetastoreUnavailable,
    MissingFile,
    NoSuchNamespace,
    NoSuchView,
    NotAnIcebergView,
    RequirementFailed,
)
from iceberg_hms.format.views.apply import new_view_metadata
from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from iceberg_hms.testing.memory_views import MemoryViewPointer
from tests.coordinator.harness import Harness
from tests.format.views.samples import schema, version

VIEW = TableName("db", "v")
OTHER = TableName("db", "w")
UUID = "fa6506c3-7681-40c8-86dc-e36561f83385"
#: Answers after which the change is in the metastore, and after which it is not, or not yet.
MADE = [ScriptedAnswer.TRUE, ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY]
OPEN = [ScriptedAnswer.REQUEST_LOST, ScriptedAnswer.DELAYED, ScriptedAnswer.IN_DOUBT]


class Views(Harness):
    """A harness with views, and other writers of them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.pointer.metastore.databases["other"] = {}
        self.views = MemoryViewPointer(self.pointer)
        self.operations = ViewOperations(self.ports, self.views, self.settings)

    def make(self, name: TableName = VIEW, uuid: str = UUID) -> LoadedView:
        return self.operations.create(name, metadata(uuid), owner="ada")

    def replace(self, sql: str = "select 2", locations: LocationPolicy | None = None) -> LoadedView:
        return self.operations.commit(VIEW, replacing(sql), wait_seconds=5.0, locations=locations)

    def sql(self, name: TableName = VIEW) -> str | None:
        return self.operations.load(name).metadata.current_version.sql_for("spark")

    def written(self) -> set[str]:
        return set(self.files.locations())

    def foreign(self, sql: str, name: TableName = VIEW) -> str:
        """Another writer replaces the view, and asks neither lock nor expected value."""
        after = replacing(sql).replay(self.operations.load(name).metadata, now_ms=1)
        location = f"file:/w/v/metadata/foreign-{len(self.written())}.metadata.json"
        self.files.write(location, after.to_bytes())
        self.pointer.point(name, location)
        return location


def metadata(uuid: str = UUID, sql: str = "select 1") -> ViewMetadata:
    return new_view_metadata(uuid, "file:/w/v", {}, schema(), version(1, sql), now_ms=1)


def replacing(sql: str) -> ViewCommit:
    return ViewCommit.parse(
        [{"type": "assert-view-uuid", "uuid": UUID}],
        [
            {"action": "add-view-version", "view-version": version(2, sql)},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
    )


@pytest.fixture
def views() -> Iterator[Views]:
    made = Views()
    yield made
    # Operations go on whose callers have left.
    made.runtime.join()


@pytest.fixture
def made(views: Views) -> Views:
    views.make()
    return views


def fail(error: Exception) -> None:
    raise error


def proves(error: IcebergHmsError) -> bool:
    return error.proved_failed


@pytest.mark.parametrize("answer", MADE)
def test_a_view_that_was_created_is_there_whatever_the_metastore_answered(answer: ScriptedAnswer, views: Views) -> None:
    views.pointer.answers.append(answer)
    created = views.make()
    assert views.operations.load(VIEW) == created
    assert views.written() == {created.metadata_location}
    assert views.pointer.rows[VIEW].owner == "ada"


@pytest.mark.parametrize("answer", OPEN)
def test_a_creation_that_may_still_be_made_is_unknown_and_keeps_its_file(answer: ScriptedAnswer, views: Views) -> None:
    views.pointer.answers.append(answer)
    with pytest.raises(CommitStateUnknown):
        views.make()
    views.pointer.deliver_delayed()
    for location in [views.pointer.rows[VIEW].parameters["metadata_location"]] if VIEW in views.pointer.rows else []:
        assert location in views.written()


def test_a_refused_creation_is_its_own_error(views: Views) -> None:
    views.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(MetastoreRefused):
        views.make()
    with pytest.raises(NoSuchNamespace):
        views.make(TableName("nowhere", "v"))


def test_a_taken_name_is_refused_with_javas_words_and_leaves_no_file(made: Views) -> None:
    made.create()
    made.pointer.add_hive_table(TableName("db", "hive"))
    files = made.written()
    for name, message in (
        ("v", "View already exists: db.v"),
        ("t", "Table with same name already exists: db.t"),
        ("hive", "Table with same name already exists: db.hive"),
    ):
        with pytest.raises(AlreadyExists) as raised:
            made.make(TableName("db", name))
        assert raised.value.message == message
    assert made.written() == files


def test_a_creation_that_lost_the_race_is_refused(views: Views) -> None:
    def race() -> None:
        views.operations.create(VIEW, metadata("u-2"), owner=None)

    views.pointer.before_moves.append(race)
    with pytest.raises(AlreadyExists, match=r"View already exists: db\.v"):
        views.make()
    assert views.operations.load(VIEW).metadata.uuid == "u-2"
    views.pointer.before_moves.append(lambda: views.pointer.add_hive_table(OTHER))
    with pytest.raises(AlreadyExists, match=r"Table with same name already exists: db\.w"):
        views.make(OTHER)
    views.pointer.before_moves.append(lambda: views.make(TableName("db", "t"), "u-3"))
    with pytest.raises(AlreadyExists, match=r"View with same name already exists: db\.t"):
        views.create()


@pytest.mark.parametrize("swaps", [1, 2, 3])
@pytest.mark.parametrize("answer", [ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
def test_a_creation_that_others_replaced_since_was_made(answer: ScriptedAnswer, swaps: int, views: Views) -> None:
    look = views.views.load

    def replaced_meanwhile(name: TableName) -> Any:
        if VIEW in views.pointer.rows:
            views.views.load = look  # type: ignore[method-assign]
            for number in range(swaps):
                views.foreign(f"select {number + 10}")
        return look(name)

    views.views.load = replaced_meanwhile  # type: ignore[method-assign]
    views.pointer.answers.append(answer)
    assert views.make().metadata.uuid == UUID


class RenamedSince:
    """The first look after a creation finds that another writer has renamed the view, and given its name away."""

    def __init__(self, views: Views, to: TableName, *, to_a_table: bool) -> None:
        self._views, self._to, self._to_a_table = views, to, to_a_table
        self._look = views.views.load
        self._done = False
        views.views.load = self._load  # type: ignore[method-assign]

    def _load(self, name: TableName) -> Any:
        rows = self._views.pointer.rows
        if VIEW in rows and not self._done:
            self._done = True
            rows[self._to] = rows.pop(VIEW)
            if self._to_a_table:
                self._views.pointer.add_hive_table(VIEW)
            else:
                self._views.operations.create(VIEW, metadata("u-2"), owner=None)
        return self._look(name)


@pytest.mark.parametrize("answer", [ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
@pytest.mark.parametrize("to_a_table", [True, False])
@pytest.mark.parametrize("to", [OTHER, TableName("other", "v")])
def test_a_creation_whose_view_was_renamed_and_its_name_taken_was_made(
    to: TableName, to_a_table: bool, answer: ScriptedAnswer, views: Views
) -> None:
    views.pointer.answers.append(answer)
    RenamedSince(views, to, to_a_table=to_a_table)
    created = views.make()
    assert views.pointer.rows[to].parameters["metadata_location"] == created.metadata_location


@pytest.mark.parametrize("to_a_table", [True, False])
def test_a_creation_whose_view_cannot_be_searched_for_is_unknown(to_a_table: bool, views: Views) -> None:
    views.pointer.answers.append(ScriptedAnswer.REFUSED_AFTER_APPLY)
    RenamedSince(views, OTHER, to_a_table=to_a_table)
    views.pointer.databases = lambda: fail(MetastoreUnavailable("no answer"))  # type: ignore
    with pytest.raises(CommitStateUnknown):
        views.make()


def test_a_creation_beside_a_view_that_cannot_be_read_is_unknown(views: Views) -> None:
    views.pointer.answers.append(ScriptedAnswer.REFUSED_AFTER_APPLY)
    RenamedSince(views, OTHER, to_a_table=True)
    read = views.files.read
    views.files.read = lambda *given, **more: fail(MissingFile("gone"))  # type: ignore
    with pytest.raises(CommitStateUnknown):
        views.make()
    views.files.read = read  # type: ignore[method-assign]


def test_a_view_that_another_renamed_during_its_drop_is_not_gone(made: Views) -> None:
    """the drop is under way, and removes what has the name when it arrives"""

    def renamed_by_another() -> None:
        made.pointer.rows[OTHER] = made.pointer.rows.pop(VIEW)

    made.pointer.answers.append(ScriptedAnswer.DELAYED)
    made.pointer.before_moves.append(renamed_by_another)
    with pytest.raises(CommitStateUnknown):
        made.operations.drop(VIEW, wait_seconds=5.0)


def test_a_creation_whose_view_was_dropped_since_is_unknown(views: Views) -> None:
    drop = views.pointer.rows.clear
    look = views.views.load

    def dropped_meanwhile(name: TableName) -> Any:
        drop()
        return look(name)

    views.pointer.answers.append(ScriptedAnswer.REFUSED_AFTER_APPLY)
    views.views.load = dropped_meanwhile  # type: ignore[method-assign]
    with pytest.raises(CommitStateUnknown):
        views.make()


def test_a_taken_name_that_is_free_again_proves_nothing(views: Views) -> None:
    """A metastore that retries inside refuses its own creation so, and another writer may have dropped it since."""
    look = views.views.load

    def dropped_meanwhile(name: TableName) -> Any:
        views.pointer.rows.pop(VIEW, None)
        return look(name)

    def race() -> None:
        views.operations.create(VIEW, metadata("u-2"), owner=None)
        views.views.load = dropped_meanwhile  # type: ignore[method-assign]

    views.pointer.before_moves.append(race)
    with pytest.raises(CommitStateUnknown):
        views.make()


def test_a_creation_that_cannot_be_looked_up_is_unknown(views: Views) -> None:
    views.pointer.answers.append(ScriptedAnswer.REFUSED)
    views.pointer.before_moves.append(lambda: views.pointer.load_errors.extend([MetastoreUnavailable("down")] * 9))
    with pytest.raises(CommitStateUnknown):
        views.make()


@pytest.mark.parametrize("answer", MADE)
def test_a_commit_that_was_made_is_reported_whatever_the_metastore_answered(
    answer: ScriptedAnswer, made: Views
) -> None:
    made.pointer.answers.append(answer)
    after = made.replace()
    assert made.operations.load(VIEW) == after
    assert made.sql() == "select 2"
    assert made.lock.acquired == 1
    assert after.metadata_location in made.written()


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("answer", OPEN)
def test_a_commit_that_may_still_be_made_is_unknown_or_made(answer: ScriptedAnswer, atomic: bool, made: Views) -> None:
    made.pointer.atomic = atomic
    made.pointer.answers.append(answer)
    files = made.written()
    try:
        made.replace()
        assert atomic, "without compare-and-swap it is not sent again"
    except CommitStateUnknown:
        assert not atomic
    made.pointer.deliver_delayed()
    assert made.operations.load(VIEW).metadata_location in made.written()
    assert len(made.written()) == len(files) + 1


def test_a_refused_commit_is_its_own_error_proved(made: Views) -> None:
    made.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(MetastoreRefused) as raised:
        made.replace()
    assert proves(raised.value)
    assert made.sql() == "select 1"


def test_a_commit_replays_on_what_others_made_meanwhile(made: Views) -> None:
    made.pointer.before_moves.extend([lambda: None, lambda: made.foreign("select 30")])
    made.pointer.before_moves.popleft()
    after = made.replace()
    assert [each.sql_for("spark") for each in after.metadata.versions] == ["select 1", "select 30", "select 2"]
    assert (after.metadata.current_version_id, made.sql()) == (3, "select 2")


def test_a_lost_reply_on_a_view_that_moved_is_replayed_where_absence_is_proved(made: Views) -> None:
    made.pointer.answers.append(ScriptedAnswer.REQUEST_LOST)
    made.pointer.before_moves.append(lambda: made.foreign("select 30"))
    assert made.replace().metadata.current_version_id == 3


@pytest.mark.parametrize("answer", [ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
@pytest.mark.parametrize("swaps", [1, 2])
def test_a_commit_under_others_is_found_by_the_location_before_and_else_unknown(
    swaps: int, answer: ScriptedAnswer, made: Views
) -> None:
    """One swap by another writer after ours leaves ours as the previous location; two leave no trace of it."""
    made.pointer.atomic = False
    made.pointer.answers.append(answer)
    look, looks = made.views.load, 0

    def moved_meanwhile(name: TableName) -> Any:
        nonlocal looks
        looks += 1
        # The first two loads are the commit's own.
        if looks == 3:
            for number in range(swaps):
                made.foreign(f"select {number + 10}")
        return look(name)

    made.views.load = moved_meanwhile  # type: ignore[method-assign]
    if swaps == 1:
        assert made.replace().metadata.current_version_id == 2
    else:
        with pytest.raises(CommitStateUnknown):
            made.replace()
    assert "10" in str(made.operations.load(VIEW).metadata.raw)


def test_others_who_win_every_time_are_a_conflict(made: Views) -> None:
    for number in range(made.settings.commit_retry_num_retries + 1):
        made.pointer.before_moves.append(lambda number=number: made.foreign(f"select {number + 50}"))  # type: ignore[misc]
    with pytest.raises(CommitConflict) as raised:
        made.replace()
    assert proves(raised.value)


def test_what_changes_nothing_takes_no_lock_and_writes_nothing(made: Views) -> None:
    once = made.replace()
    files, acquired = made.written(), made.lock.acquired
    assert made.replace() == once
    assert (made.written(), made.lock.acquired) == (files, acquired)


def test_a_failed_requirement_takes_no_lock(made: Views) -> None:
    commit = ViewCommit.parse([{"type": "assert-view-uuid", "uuid": "other"}], [])
    with pytest.raises(RequirementFailed):
        made.operations.commit(VIEW, commit, wait_seconds=5.0)
    with pytest.raises(NoSuchView):
        made.operations.commit(OTHER, commit, wait_seconds=5.0)
    assert made.lock.acquired == 0


def test_a_view_that_became_another_under_the_lock_is_not_replaced(made: Views) -> None:
    look, looks = made.views.load, 0

    def another_meanwhile(name: TableName) -> Any:
        nonlocal looks
        looks += 1
        if looks == 2:
            del made.pointer.rows[VIEW]
            made.make(uuid="u-2")
        return look(name)

    made.views.load = another_meanwhile  # type: ignore[method-assign]
    with pytest.raises(RequirementFailed):
        made.replace()
    assert made.operations.load(VIEW).metadata.uuid == "u-2"


def test_a_lock_that_is_not_acquired_is_a_proved_failure(made: Views) -> None:
    made.lock.errors.append(LockNotAcquired("busy"))
    with pytest.raises(LockNotAcquired):
        made.replace()
    assert made.sql() == "select 1"


def test_what_fails_before_anything_is_sent_is_proved_and_leaves_no_file(made: Views) -> None:
    files = made.written()
    made.lock.errors.append(MetastoreUnavailable("down"))
    with pytest.raises(MetastoreUnavailable) as raised:
        made.replace()
    assert proves(raised.value)
    # It is tried three times.
    made.pointer.before_moves += [lambda: fail(CompareAndSwapUnproven("not proven"))] * 3
    with pytest.raises(CompareAndSwapUnproven) as unproven:
        made.replace()
    assert proves(unproven.value)
    assert made.written() == files


def test_a_short_lease_that_a_server_cannot_be_proven_for_is_exchanged_for_a_full_one(made: Views) -> None:
    made.lock.short_lease_seconds = 15.0
    made.pointer.atomic = False
    files = made.written()
    after = made.replace()
    assert made.lock.acquired == 2
    assert made.written() == {*files, after.metadata_location}


@pytest.mark.parametrize("answer", MADE)
def test_a_view_that_was_renamed_or_dropped_is_gone_whatever_the_metastore_answered(
    answer: ScriptedAnswer, made: Views
) -> None:
    made.pointer.answers.append(answer)
    made.operations.rename(VIEW, OTHER, wait_seconds=5.0, what="Cannot rename")
    assert made.sql(OTHER) == "select 1"
    files = made.written()
    made.pointer.answers.append(answer)
    made.operations.drop(OTHER, wait_seconds=5.0)
    with pytest.raises(NoSuchView):
        made.operations.load(OTHER)
    assert made.written() == files, "a dropped view's files stay"


def renamed(views: Views) -> None:
    views.operations.rename(VIEW, OTHER, wait_seconds=5.0, what="Cannot rename")


def dropped(views: Views) -> None:
    views.operations.drop(VIEW, wait_seconds=5.0)


@pytest.mark.parametrize("operation", [renamed, dropped])
@pytest.mark.parametrize("answer", OPEN)
def test_a_rename_or_drop_that_may_still_be_made_is_unknown(
    answer: ScriptedAnswer, operation: Callable[[Views], None], made: Views
) -> None:
    made.pointer.answers.append(answer)
    with pytest.raises(CommitStateUnknown):
        operation(made)


@pytest.mark.parametrize("operation", [renamed, dropped])
def test_a_refused_rename_or_drop_is_its_own_error(operation: Callable[[Views], None], made: Views) -> None:
    made.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(MetastoreRefused):
        operation(made)
    assert made.sql() == "select 1"


def test_a_rename_to_a_taken_name_is_refused_with_the_callers_words(made: Views) -> None:
    made.make(OTHER, uuid="u-2")
    made.create()
    for to, kind in ((OTHER, "View"), (TableName("db", "t"), "Table")):
        with pytest.raises(AlreadyExists) as raised:
            made.operations.rename(VIEW, to, wait_seconds=5.0, what="Cannot rename V to W")
        assert raised.value.message == f"Cannot rename V to W. {kind} already exists"
    with pytest.raises(NoSuchView):
        made.operations.rename(TableName("db", "none"), TableName("db", "x"), wait_seconds=5.0, what="")


def test_a_table_is_not_dropped_as_a_view(made: Views) -> None:
    made.create()
    with pytest.raises(NotAnIcebergView):
        made.operations.drop(TableName("db", "t"), wait_seconds=5.0)
    assert TableName("db", "t") in made.pointer.rows


@pytest.mark.parametrize("answer", [*MADE, ScriptedAnswer.REQUEST_LOST])
def test_a_registered_view_points_at_the_file(answer: ScriptedAnswer, made: Views) -> None:
    location = made.operations.load(VIEW).metadata_location
    made.operations.drop(VIEW, wait_seconds=5.0)
    made.pointer.answers.append(answer)
    if answer is ScriptedAnswer.REQUEST_LOST:
        with pytest.raises(CommitStateUnknown):
            made.operations.register(OTHER, location, owner=None)
    else:
        assert made.operations.register(OTHER, location, owner="grace").metadata_location == location
        assert made.operations.load(OTHER).metadata_location == location
    assert location in made.written()


def test_a_file_that_is_no_views_is_not_registered(made: Views) -> None:
    with pytest.raises(MissingFile):
        made.operations.register(OTHER, "file:/none", owner=None)
    made.create()
    with pytest.raises(CorruptFile):
        made.operations.register(OTHER, made.location(), owner=None)
    with pytest.raises(AlreadyExists, match="Table with same name"):
        made.operations.register(TableName("db", "t"), made.location(), owner=None)
    assert OTHER not in made.pointer.rows


def policy(views: Views) -> LocationPolicy:
    return LocationPolicy(views.files, warehouse=views.settings.warehouse)


def test_a_client_moves_a_view_only_to_where_it_may() -> None:
    views = Views(warehouse="file:/wh")
    views.make()
    locations = ClientLocations(policy(views), "db", lambda _: True)
    assert views.replace(locations=locations).metadata.current_version_id == 2
    for update in (
        {"action": "set-location", "location": "file:/etc/v"},
        {"action": "set-properties", "updates": {"write.metadata.path": "file:/etc/v"}},
    ):
        with pytest.raises(LocationNotAllowed):
            views.operations.commit(VIEW, ViewCommit.parse([], [update]), wait_seconds=5.0, locations=locations)
    moved = ViewCommit.parse([], [{"action": "set-location", "location": "file:/wh/v"}])
    after = views.operations.commit(VIEW, moved, wait_seconds=5.0, locations=locations)
    assert after.metadata_location.startswith("file:/wh/v/metadata/")


def test_a_client_registers_only_files_that_it_may_read_and_learns_nothing_of_others() -> None:
    views = Views(warehouse="file:/wh")
    guard = policy(views).guard()
    views.files.write("file:/etc/v.metadata.json", metadata().to_bytes())
    views.files.write("file:/wh/secret", b"secret")
    views.files.write("file:/wh/outside", metadata().to_bytes())
    with pytest.raises(LocationNotAllowed):
        views.operations.register(VIEW, "file:/etc/v.metadata.json", owner=None, guard=guard)
    with pytest.raises(InvalidInput) as raised:
        views.operations.register(VIEW, "file:/wh/secret", owner=None, guard=guard)
    assert "secret" not in str(raised.value)
    # The file lies where it may; the folder that it names does not.
    with pytest.raises(LocationNotAllowed):
        views.operations.register(VIEW, "file:/wh/outside", owner=None, guard=guard)
    assert not views.pointer.rows
