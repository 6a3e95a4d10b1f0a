"""What killed writers and refused attempts leave in a table's folder: removing orphan files takes just that."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.manifest import read_manifest_list

from iceberg_hms.errors import CommitStateUnknown
from iceberg_hms.format.locations import parse
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.rest.server import RestServer
from iceberg_hms.testing.faults.script import FREEZE
from integration import interop
from integration.faults import LIMIT, SCHEMA, ReapingMetastore, Scene, Timing, in_background
from integration.rest_clients import TOKEN, BeforeCommits, Delayed

PROPERTIES = {
    # Two manifests are one too many.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "2",
    # Files that the test writes have no field ids.
    "schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}]',
}
DAY = 24 * 3_600


def paths(locations: Iterable[str]) -> set[str]:
    """Of local files: clients write `file:` and `file://` before the same one."""
    return {parse(each).path for each in locations}


class LostAnswer:
    """A commit that lands; its client gets an error instead of the answer."""

    def __init__(self, commit: Delayed) -> None:
        self._commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._commit, name)

    def result(self) -> None:
        self._commit.result()
        raise CommitStateUnknown("the answer is lost")


class AnswerLoser(BeforeCommits):
    """A catalog for a server. lists: the manifest lists that clients sent. lost: the number of the commit whose answer
    is lost, from 0."""

    def __init__(self, catalog: Any, *, lost: int) -> None:
        super().__init__(catalog, lambda: None)
        self.lists: list[str] = []
        self._lost = lost

    def submit(self, table: Any, requirements: Any, updates: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        self.lists += [each["snapshot"]["manifest-list"] for each in updates if each["action"] == "add-snapshot"]
        commit = super().submit(table, requirements, updates, **options)
        return LostAnswer(commit) if len(self.lists) - 1 == self._lost else commit


class Folder(Scene):
    """A table whose data files lie in its own folder, and can be read. rows: the ids that it must have."""

    def __init__(self, server: ReapingMetastore, folder: Path, timing: Timing) -> None:
        super().__init__(server, folder, timing, **PROPERTIES)
        self.root = Path(parse(self.table.metadata.location).path)
        (self.root / "data").mkdir()
        self.rows: list[int] = []

    def data_file(self, name: str) -> DataFile:
        path = interop.small_parquet(self.root / "data" / f"{name}.parquet", [int(name)])
        return DataFile(f"file:{path}", "PARQUET", record_count=1, file_size_in_bytes=path.stat().st_size)

    def append_row(self, number: int) -> None:
        self.append(str(number), self.catalog(self.server.uri))
        self.rows.append(number)

    def files(self) -> set[str]:
        return {str(path) for path in self.root.rglob("*") if path.is_file()}

    def killed_before_it_sends(self, number: int) -> None:
        writer = self.writer(str(number), stop_at="metadata-write")
        writer.go()
        writer.stopped()
        writer.kill()

    def killed_while_it_swaps(self, number: int) -> None:
        swap = self.on_swap(FREEZE)
        writer = self.writer(str(number))
        writer.go()
        assert swap.held(LIMIT)
        writer.kill()
        swap.drop()

    def refused_of_pyiceberg(self, first: int) -> set[str]:
        """PyIceberg is refused once; the answer to its next attempt is lost, so it deletes nothing. Returns the list
        and the manifests of the refused attempt."""
        answers = AnswerLoser(self.direct, lost=2)
        with RestServer(answers, host="127.0.0.1", port=0, token=TOKEN) as server:
            load = load_catalog("pyiceberg", type="rest", uri=server.uri, token=TOKEN).load_table
            early, late = load(str(self.name)), load(str(self.name))
            early.append(pa.table({"id": [first], "name": ["early"]}, schema=SCHEMA))
            with pytest.raises(CommitStateUnknownException):
                late.append(pa.table({"id": [first + 1], "name": ["late"]}, schema=SCHEMA))
        assert len(answers.lists) == 3, "the late one was refused once"
        self.rows += [first, first + 1]
        refused, landed = answers.lists[1:]
        table = self.by_pyiceberg()
        snapshot = table.current_snapshot()
        assert snapshot.manifest_list == landed
        lines = list(read_manifest_list(table.io.new_input(refused)))
        merged = {each.manifest_path for each in lines if each.added_snapshot_id == snapshot.snapshot_id}
        assert len(merged) == 1, "the same snapshot id each time"
        return {refused, *merged}

    def by_pyiceberg(self) -> Any:
        return interop.pyiceberg_catalog(self.server).load_table(str(self.name))

    def reachable(self) -> set[str]:
        """All that PyIceberg finds to be a part of the table."""
        table = self.by_pyiceberg()
        found = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
        for snapshot in table.snapshots():
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                found.add(manifest.manifest_path)
                found |= {each.data_file.file_path for each in manifest.fetch_manifest_entry(table.io)}
        return paths(found)

    def check_rows(self) -> None:
        assert sorted(self.by_pyiceberg().scan().to_arrow()["id"].to_pylist()) == sorted(self.rows)


@pytest.fixture
def folder(quick_lease: ReapingMetastore, tmp_path: Path) -> Iterator[Folder]:
    made = Folder(quick_lease, tmp_path, Timing(0))
    yield made
    made.close()


@pytest.mark.slow
def test_removing_orphan_files_takes_what_killed_writers_and_refused_attempts_left(
    folder: Folder, quick_lease: ReapingMetastore
) -> None:
    for number in range(3):
        folder.append_row(number)
    folder.killed_before_it_sends(10)
    folder.killed_while_it_swaps(11)
    with quick_lease.reaper():
        # It waits for the dead writer's lock.
        in_background(lambda: folder.append_row(3)).result(LIMIT)
    refused = folder.refused_of_pyiceberg(4)
    four_days_ago = time.time() - 4 * DAY
    for path in folder.files():
        os.utime(path, (four_days_ago, four_days_ago))
    late = folder.writer("6", stop_at="metadata-write")
    late.go()
    late.stopped()

    table = folder.direct.load_table(folder.name)
    young = {path for path in folder.files() if Path(path).stat().st_mtime > time.time() - DAY}
    live, before = folder.reachable(), folder.files()
    left = before - live - young
    assert {str(folder.root / "data" / f"{number}.parquet") for number in (10, 11)} <= left
    assert paths(refused) <= left
    assert len([path for path in left if path.endswith(".metadata.json")]) == 1, "of the swap that never arrived"

    dry = table.remove_orphan_files(dry_run=True)
    assert paths(dry.files.locations) == left
    assert folder.files() == before
    done = table.remove_orphan_files()
    assert paths(done.files.locations) == left
    assert not done.files.failed
    assert not done.files.stopped
    assert folder.files() == before - left
    folder.check_rows()

    late.wake()
    assert late.result()["error"] is None
    folder.rows.append(6)
    folder.check_rows()
    assert not table.remove_orphan_files().files.deleted
