import pytest

from iceberg_hms.catalog.maintenance.reachable_files import (
    ReachableFiles,
    in_batches,
    manifests_of,
    named_by,
    statistics_of,
)
from iceberg_hms.errors import CorruptFile, MissingFile
from tests.catalog.maintenance.lab import Lab


@pytest.fixture
def lab():
    return Lab(**{"commit.manifest.min-count-to-merge": "100"})


def reached_by(lab, told=None):
    services = lab.catalog.services
    return ReachableFiles(
        services.ports, services.manifest_columns, lambda what, count: told is not None and told.append(count)
    )


def test_a_version_leads_to_its_lists_manifests_files_and_logs(lab):
    lab.append()
    lab.append()
    lab.table.delete_files(["file:/warehouse/db.db/t/data/1.parquet"])
    found = set(reached_by(lab).all_new(lab.table.metadata))
    assert found == set(lab.files.locations()) - {lab.table.metadata_location}


def test_a_later_version_gives_what_is_new(lab):
    lab.append()
    told: list[int] = []
    reached = reached_by(lab, told)
    first = set(reached.all_new(lab.table.metadata))
    lab.append()
    second = set(reached.all_new(lab.table.metadata)) - set(named_by(lab.table.metadata))
    assert len(second) == 2
    assert second.isdisjoint(first)
    assert told == [1, 2]


def test_a_list_that_is_missing_raises(lab):
    lab.append()
    lab.files.delete(lab.table.current_snapshot().manifest_list)
    fresh = Lab()
    ports = fresh.catalog.services.ports
    with pytest.raises(MissingFile):
        list(manifests_of(ports, lab.table.snapshots()))


@pytest.mark.parametrize("key", ["statistics", "partition-statistics", "metadata-log"])
@pytest.mark.parametrize("odd", [[7], [{}], [{"statistics-path": 5, "metadata-file": 5}], {"a": 1}, 7])
def test_an_entry_that_names_a_file_in_no_known_way_raises(lab, key, odd):
    metadata = lab.table.metadata.replace(**{key.replace("-", "_"): odd})
    with pytest.raises(CorruptFile):
        list(named_by(metadata))


def test_statistics_have_their_snapshot_and_length(lab):
    entries = [{"snapshot-id": 1, "statistics-path": "a", "file-size-in-bytes": 5}, {"statistics-path": "b"}]
    metadata = lab.table.metadata.replace(statistics=entries[:1], partition_statistics=entries[1:])
    assert list(statistics_of(metadata)) == [(1, "a", 5), (0, "b", None)]


@pytest.mark.parametrize(("count", "expected"), [(2, [(1, 2), (3,)]), (3, [(1, 2, 3)]), (9, [(1, 2, 3)])])
def test_batches_have_at_most_so_many_items(count, expected):
    assert list(in_batches([1, 2, 3], count)) == expected
    assert list(in_batches([], count)) == []
