"""A search by UUID finds a table while other writers rename it."""

from dataclasses import replace

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache
from iceberg_hms.coordinator.reading.uuid_lookup import UuidLookup
from iceberg_hms.errors import CorruptFile, MetastoreUnavailable, MissingFile
from tests.coordinator.harness import NAME, Harness

#: The order in which they are looked through: where the table was known first.
DATABASES = ("db", "a", "b", "c")


class Place(Harness):
    """One table, and several databases. At each look into one of them the next of `moves` is made first: the database
    that the table goes to, or None."""

    def __init__(self, *moves, **settings):
        super().__init__(**settings)
        self.create()
        self.pointer.metastore.databases.update({name: {} for name in DATABASES})
        self.uuid = self.metadata().uuid
        self.now = NAME
        self.pointer.look_ups.extend(lambda to=to: self.go(to) for to in moves)
        cache = MetadataCache(self.files, self.runtime, max_bytes=2**20)
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


def test_the_first_question_finds_a_table_in_its_last_known_database():
    place = Place()
    assert place.found() == [NAME]
    assert place.found(place.uuid.upper()) == [NAME]
    assert place.looks() == [*DATABASES, *DATABASES]


def test_every_database_is_searched_twice_for_a_table_that_is_nowhere():
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
def test_a_table_that_is_renamed_during_the_search_is_found(moves):
    place = Place(*moves)
    assert place.found()


def test_a_table_is_missed_only_if_it_is_renamed_before_both_passes_and_in_each():
    """What the docstring says of the proof: three renames into other databases, two of them at the worst moments."""
    place = Place("c", None, None, "b", None, None, "a")
    assert place.found() == []


def test_a_table_that_moves_to_a_new_database_is_found():
    place = Place("c", None, lambda: None)
    place.pointer.look_ups.clear()

    def make_and_go():
        place.pointer.metastore.databases["0new"] = {}
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


def test_a_row_without_a_uuid_is_matched_by_its_metadata():
    place = Place()
    row = place.pointer.rows[NAME]
    rival = Harness()
    rival.create()
    place.files.write(rival.location(), rival.files.read(rival.location()))
    place.pointer.rows.clear()
    place.pointer.rows.update(
        {
            TableName("a", "mine"): without_uuid(row),
            TableName("a", "another"): without_uuid(row, metadata_location=rival.location()),
            TableName("b", "ruin"): without_uuid(row, metadata_location="file:/gone"),
        }
    )
    assert place.found() == [TableName("a", "mine")]


@pytest.mark.parametrize(
    ("parameters", "says_uuid", "error"),
    [
        ({"metadata_location": "file:/gone"}, True, MissingFile),
        ({"metadata_location": "file:/damaged"}, True, CorruptFile),
        ({"metadata_location": "file:/damaged"}, False, CorruptFile),
    ],
)
def test_a_table_that_cannot_be_read_is_not_taken_for_absent(parameters, says_uuid, error):
    place = Place()
    place.files.write("file:/damaged", b"{")
    row = place.pointer.rows[NAME]
    changed = replace(row, parameters={**row.parameters, **parameters})
    place.pointer.rows[NAME] = changed if says_uuid else without_uuid(changed)
    with pytest.raises(error):
        place.found()


@pytest.mark.parametrize("milliseconds", [0, 3_000])
def test_the_search_is_bounded_in_time(milliseconds, monkeypatch):
    place = Place(uuid_lookup_total_timeout_ms=milliseconds)
    seconds = iter(range(1_000))
    monkeypatch.setattr(place.runtime, "now", lambda: float(next(seconds)))
    with pytest.raises(MetastoreUnavailable, match="timed out after") as caught:
        place.found("nowhere")
    assert "commit.uuid-lookup.total-timeout-ms" in caught.value.next_step
    assert len(place.looks()) == max(0, milliseconds // 1000 - 1)


@pytest.fixture
def empty():
    """No table yet."""
    return Harness()
