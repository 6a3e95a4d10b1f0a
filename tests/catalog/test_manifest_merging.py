"""What clients leave is merged after their commits."""

import threading

import pytest

from iceberg_hms.catalog import manifest_merging
from iceberg_hms.catalog.manifest_merging import ManifestMerging
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles

MIN_COUNT = "commit.manifest.min-count-to-merge"
MERGE_ENABLED = "commit.manifest-merge.enabled"

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
LIMIT = 30


class Watched:
    """A catalog whose clients leave small manifests."""

    def __init__(self, catalog, files):
        self.catalog, self.files = catalog, files
        self.merging = ManifestMerging(lambda: catalog.services, LIMIT)
        self.merged = threading.Event()
        catalog.subscribe(self.see)
        catalog.subscribe(self.merging)
        catalog.create_namespace("logging")
        self.table = catalog.create_table("logging.events", SCHEMA, properties={MERGE_ENABLED: "false", MIN_COUNT: "4"})

    def see(self, event):
        head = event["report"].metadata.current_snapshot
        if head is not None and head.operation == "replace":
            self.merged.set()

    def append(self, count):
        """As clients that do not merge."""
        for number in range(count):
            self.table.append([DataFile(f"file:/in/{number}.parquet", "PARQUET", 1, 10)], check_duplicate_files=False)

    def commit(self, **properties):
        update = {"action": "set-properties", "updates": properties}
        self.catalog.commit("logging.events", requirements=[], updates=[update])

    def manifests(self):
        return list(self.catalog.manifests().list(self.table.refresh().current_snapshot()))


@pytest.fixture
def watched():
    files = MemoryFiles()
    with memory_catalog(files=files) as catalog:
        yield Watched(catalog, files)


def test_the_commit_that_leaves_too_many_has_them_merged(watched):
    watched.append(5)
    assert len(watched.manifests()) == 5
    assert not watched.merged.is_set()
    watched.commit(**{MERGE_ENABLED: "true"})
    assert watched.merged.wait(LIMIT)
    (manifest,) = watched.manifests()
    assert (manifest.existing_files_count, manifest.added_files_count) == (5, 0)
    summary = watched.table.current_snapshot().summary
    assert (summary["manifests-replaced"], summary["total-data-files"]) == ("5", "5")


def test_fewer_are_left_alone(watched):
    watched.append(3)
    watched.commit(**{MERGE_ENABLED: "true"})
    watched.commit(a="b")
    assert len(watched.manifests()) == 3


def test_a_merge_that_fails_is_tried_again_after_a_while(watched, monkeypatch):
    watched.append(5)
    damaged = watched.manifests()[2].manifest_path
    data = watched.files.read(damaged)
    watched.files.replace(damaged, b"damaged")
    failed = threading.Event()
    monkeypatch.setattr(manifest_merging.logger, "warning", lambda *_: failed.set())
    watched.commit(**{MERGE_ENABLED: "true"})
    assert failed.wait(LIMIT)
    watched.files.replace(damaged, data)
    watched.commit(a="b")
    assert len(watched.manifests()) == 5, "it waits before it tries again"
    now = watched.catalog.services.ports.runtime.now
    monkeypatch.setattr(watched.catalog.services.ports.runtime, "now", lambda: now() + manifest_merging.RETRY_SECONDS)
    watched.commit(a="c")
    assert watched.merged.wait(LIMIT)
    assert len(watched.manifests()) == 1


def test_so_many_run_at_a_time_and_the_others_wait_for_a_later_commit(monkeypatch):
    """A store that hangs holds one each for as long as it hangs."""
    monkeypatch.setattr(manifest_merging, "MERGES_MAX", 2)
    with memory_catalog() as catalog:
        runtime, begun = catalog.services.ports.runtime, []
        spawn = runtime.spawn

        def hang(name, function, **more):
            if name.startswith("iceberg-hms-merge-"):
                begun.append((name, function))
            else:
                spawn(name, function, **more)

        monkeypatch.setattr(runtime, "spawn", hang)
        merging = ManifestMerging(lambda: catalog.services, LIMIT)
        catalog.create_namespace("logging")
        events = []
        for table in "abc":
            made = catalog.create_table(f"logging.{table}", SCHEMA, properties={MERGE_ENABLED: "false", MIN_COUNT: "4"})
            for number in range(5):
                made.append(
                    [DataFile(f"file:/{table}/{number}.parquet", "PARQUET", 1, 10)], check_duplicate_files=False
                )
            update = {"action": "set-properties", "updates": {MERGE_ENABLED: "true"}}
            events.append({"event": "committed", "report": catalog.commit(f"logging.{table}", [], [update])})
        for event in events:
            merging(event)
        assert [name for name, _ in begun] == ["iceberg-hms-merge-logging.a", "iceberg-hms-merge-logging.b"]
        begun.pop(0)[1]()
        update = {"action": "set-properties", "updates": {"a": "b"}}
        merging({"event": "committed", "report": catalog.commit("logging.c", [], [update])})
        assert begun[-1][0] == "iceberg-hms-merge-logging.c"


def test_the_commits_of_a_group_are_looked_at_once(monkeypatch):
    with memory_catalog() as catalog:
        merging = ManifestMerging(lambda: catalog.services, LIMIT)
        catalog.create_namespace("logging")
        table = catalog.create_table("logging.events", SCHEMA)
        looks = []
        monkeypatch.setattr(manifest_merging, "is_enabled", lambda metadata: bool(looks.append(metadata)))
        first = table.append([DataFile("file:/1.parquet", "PARQUET", 1, 10)], check_duplicate_files=False)
        second = table.append([DataFile("file:/2.parquet", "PARQUET", 1, 10)], check_duplicate_files=False)
        for report in (first, first, second, second, first):
            merging({"event": "committed", "report": report})
        assert looks == [first.metadata, second.metadata, first.metadata]
