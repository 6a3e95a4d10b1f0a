"""A table is looked for by its UUID while others rename it."""

from dataclasses import replace

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.protocol.metadata_cache import MetadataCache
from iceberg_hms.coordinator.protocol.uuid_lookup import UuidLookup
from iceberg_hms.errors import CommitStateUnknown, CorruptFile, MetastoreUnavailable, MissingFile
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator.creations import OTHER, before_look, creation, rename, rival_table
from tests.coordinator.harness import NAME, Harness

#: The order in which they are looked through: where the table was known first.
DATABASES = ("db", "a", "b", "c")


class Place(Harness):
    """One table, and several databases. At each look into one of them the next of `moves` is made first: the database
    that the table goes to, or None."""

    def __init__(self, *moves, **settings):
        super().__init__(**settings)
        self.create()
        self.pointer.namespaces.update(DATABASES)
        self.uuid = self.metadata().uuid
        self.now = NAME
        self.pointer.look_ups.extend(lambda to=to: self.go(to) for to in moves)
        cache = MetadataCache(self.files, self.runtime, max_bytes=2**20, read_retries=0)
        self.whereabouts = UuidLookup(self.ports, cache, self.settings)

    def go(self, to):
        if to is not None:
            name = TableName(to, "t")
            self.pointer.rows[name] = self.pointer.rows.pop(self.now)
            self.now = name

    def found(self, uuid=None):
        return [base.pointer.name for base in self.whereabouts.find(uuid or self.uuid, NAME)]

    def looks(self):
        return [name.namespace for method, name in self.pointer.calls if method == "find_by_uuid"]


def test_a_table_is_found_by_the_first_question_where_it_was_known():
    place = Place()
    assert place.found() == [NAME]
    assert place.found(place.uuid.upper()) == [NAME]
    assert place.looks() == [*DATABASES, *DATABASES]


def test_a_table_that_is_nowhere_is_looked_for_twice_in_each_database():
    place = Place()
    assert place.found("another") == []
    assert place.looks() == [*DATABASES, *DATABASES]


@pytest.mark.parametrize(
    "moves",
    [
        ("c",),
        # Away before the first look, and behind its back in one of the two.
        ("c", None, None, "a"),
        ("c", None, None, "a", "c", None, None, None),
        ("b", None, "a", None, None, None, None, None),
        # There and back again.
        ("c", None, None, "db", None, None, None, None),
    ],
    ids=str,
)
def test_a_table_that_is_renamed_while_it_is_looked_for_is_found(moves):
    place = Place(*moves)
    assert place.found()


def test_a_table_goes_unseen_only_if_it_is_renamed_before_both_looks_and_in_each():
    """What the docstring says of the proof: three renames into other databases, two of them at the worst moments."""
    place = Place("c", None, None, "b", None, None, "a")
    assert place.found() == []


def test_a_table_that_goes_to_a_database_that_was_just_made_is_found():
    place = Place("c", None, lambda: None)
    place.pointer.look_ups.clear()

    def make_and_go():
        place.pointer.namespaces.add("0new")
        place.go("0new")

    place.go("c")
    place.pointer.look_ups.extend([lambda: None, lambda: None, make_and_go])
    assert place.found() == [place.now]


def test_a_table_that_was_registered_twice_is_found_twice():
    place = Place()
    again = TableName("c", "again")
    place.pointer.rows[again] = place.pointer.rows[NAME]
    assert place.found() == [NAME, again]


def without_uuid(row, **parameters):
    kept = {key: value for key, value in row.parameters.items() if key != "uuid"}
    return replace(row, parameters={**kept, **parameters})


def test_a_row_that_says_no_uuid_is_known_by_its_metadata():
    place = Place()
    row = place.pointer.rows[NAME]
    rival = Harness()
    rival.create()
    place.files.write(rival.location(), rival.files.read(rival.location()))
    place.pointer.rows = {
        TableName("a", "mine"): without_uuid(row),
        TableName("a", "another"): without_uuid(row, metadata_location=rival.location()),
        TableName("b", "ruin"): without_uuid(row, metadata_location="file:/gone"),
    }
    assert place.found() == [TableName("a", "mine")]


@pytest.mark.parametrize(
    ("parameters", "says_uuid", "error"),
    [
        ({"metadata_location": "file:/gone"}, True, MissingFile),
        ({"metadata_location": "file:/damaged"}, True, CorruptFile),
        ({"metadata_location": "file:/damaged"}, False, CorruptFile),
    ],
)
def test_what_cannot_be_read_is_not_taken_for_absent(parameters, says_uuid, error):
    place = Place()
    place.files.write("file:/damaged", b"{")
    row = place.pointer.rows[NAME]
    changed = replace(row, parameters={**row.parameters, **parameters})
    place.pointer.rows[NAME] = changed if says_uuid else without_uuid(changed)
    with pytest.raises(error):
        place.found()


@pytest.mark.parametrize("milliseconds", [0, 3_000])
def test_the_time_is_bounded(milliseconds, monkeypatch):
    place = Place(uuid_lookup_total_timeout_ms=milliseconds)
    seconds = iter(range(1_000))
    monkeypatch.setattr(place.runtime, "now", lambda: float(next(seconds)))
    with pytest.raises(MetastoreUnavailable, match="no time is left") as caught:
        place.found("nowhere")
    assert "commit.uuid-lookup.total-timeout-ms" in caught.value.next_step
    assert len(place.looks()) == max(0, milliseconds // 1000 - 1)


@pytest.fixture
def empty():
    """No table yet."""
    return Harness()


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("to", [OTHER, TableName("elsewhere", "t")])
@pytest.mark.parametrize("answer", [ScriptedAnswer.REFUSED_AFTER_APPLY, ScriptedAnswer.REPLY_LOST])
def test_a_creation_that_was_made_and_renamed_by_another_was_made(empty, taken, to, answer):
    """create: made, refused after all | another renames it | the name is free, or a third creates it"""
    empty.pointer.namespaces.add("elsewhere")
    empty.pointer.answers.append(answer)
    rows = {NAME: rival_table(empty)} if taken else {}
    before_look(empty, 2, lambda: (rename(empty, to=to), empty.pointer.rows.update(rows)))
    report = empty.coordinator.operations.create(NAME, creation())
    assert not report.already_committed
    assert empty.pointer.rows[to].parameters["metadata_location"] == report.metadata_location
    assert empty.files.read(report.metadata_location)


def test_a_creation_that_was_made_renamed_and_committed_to_was_made(empty):
    """create: made, refused after all | another renames it, and a third commits to it and keeps no uuid in its row"""
    empty.pointer.answers.append(ScriptedAnswer.REFUSED_AFTER_APPLY)

    def move_on():
        empty.foreign_commit(colour="red")
        row = empty.pointer.rows[NAME]
        silent = {key: value for key, value in row.parameters.items() if key != "uuid"}
        empty.pointer.rows[NAME] = replace(row, parameters=silent)
        rename(empty)

    before_look(empty, 2, move_on)
    report = empty.coordinator.operations.create(NAME, creation())
    assert empty.files.read(report.metadata_location)


@pytest.mark.parametrize("trouble", ["dropped", "nobody can look", "nobody is to look"])
def test_a_creation_that_was_refused_and_whose_name_is_free_may_have_been_made(empty, trouble):
    """create: made, refused after all | another drops it, or renames it and the metastore is gone"""
    if trouble == "nobody is to look":
        empty = Harness(uuid_lookup_total_timeout_ms=0)
    empty.pointer.answers.append(ScriptedAnswer.REFUSED_AFTER_APPLY)
    before_look(empty, 2, lambda: empty.pointer.rows.pop(NAME) if trouble == "dropped" else rename(empty))
    if trouble == "nobody can look":

        def gone(*_, **__):
            raise MetastoreUnavailable("gone")

        empty.pointer.find_by_uuid = gone
    files = set(empty.files.locations())
    with pytest.raises(CommitStateUnknown, match="delete nothing"):
        empty.create()
    assert len(set(empty.files.locations()) - files) == 1, "its metadata file stays"


def test_a_creation_that_lost_a_race_is_unknown_where_nobody_can_look(empty):
    taken = rival_table(empty)
    empty.pointer.before_moves.append(lambda: empty.pointer.rows.update({NAME: taken}))
    silent = {key: value for key, value in taken.parameters.items() if key != "uuid"}
    empty.pointer.rows[OTHER] = replace(taken, parameters={**silent, "metadata_location": "file:/damaged"})
    empty.files.write("file:/damaged", b"{")
    with pytest.raises(CommitStateUnknown):
        empty.create()
