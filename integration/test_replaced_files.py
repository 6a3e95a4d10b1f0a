"""The files of a refused attempt of PyIceberg that it leaves when the answer to its next attempt is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.manifest import read_manifest_list

from iceberg_hms.assembly import assemble
from iceberg_hms.clock import SystemClock
from iceberg_hms.config import Settings
from iceberg_hms.errors import CommitStateUnknown
from iceberg_hms.rest.server import RestServer
from integration import interop
from integration.faults import SCHEMA
from integration.rest_clients import TOKEN, BeforeCommits, Delayed

#: Two manifests are one too many.
MERGES = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}


class LateClock(SystemClock):
    """The real clock, and the seconds that a test adds to it."""

    def __init__(self) -> None:
        self.late = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.late


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

    def __init__(self, catalog: Any, *, lost: int | None) -> None:
        super().__init__(catalog, lambda: None)
        self.lists: list[str] = []
        self._lost = lost

    def submit(self, table: Any, requirements: Any, updates: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        self.lists += [each["snapshot"]["manifest-list"] for each in updates if each["action"] == "add-snapshot"]
        commit = super().submit(table, requirements, updates, **options)
        return LostAnswer(commit) if len(self.lists) - 1 == self._lost else commit


def is_there(location: str) -> bool:
    return Path(location.removeprefix("file:")).exists()


def listed_files(table: Any) -> set[str]:
    """All manifest lists and manifests of a table, each of which can be read."""
    found = set()
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            assert manifest.fetch_manifest_entry(table.io)
            found.add(manifest.manifest_path)
    return found


@pytest.mark.parametrize(
    ("settings", "is_answered", "is_left"),
    [
        pytest.param({}, False, False, id="lost"),
        pytest.param({"replaced_list_age_ms": 0}, False, True, id="lost, and nothing is deleted"),
        pytest.param({}, True, False, id="answered, and PyIceberg deletes them"),
    ],
)
def test_the_files_of_a_refused_attempt_are_deleted_after_their_age(
    metastore: Any, namespace: str, settings: dict[str, Any], is_answered: bool, is_left: bool
) -> None:
    name = f"{namespace}.t"
    clock = LateClock()
    chosen = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse, **settings}
    with assemble(Settings.load(chosen, environ={}), clock=clock) as catalog:
        catalog.create_table(name, SCHEMA, properties=MERGES)
        answers = AnswerLoser(catalog, lost=None if is_answered else 5)
        with RestServer(answers, host="127.0.0.1", port=0, token=TOKEN) as server:
            load = load_catalog("pyiceberg", type="rest", uri=server.uri, token=TOKEN).load_table

            def append(table: Any, number: int) -> None:
                table.append(pa.table({"id": [number], "name": [str(number)]}, schema=SCHEMA))

            first = load(name)
            append(first, 0)
            append(first, 1)
            # Manifests of one spec are not merged with those of another, so that one that was merged stays as it is.
            with first.update_spec() as spec:
                spec.add_identity("name")
            append(first, 2)
            early, late = load(name), load(name)
            append(early, 3)
            if is_answered:
                append(late, 4)
            else:
                with pytest.raises(CommitStateUnknownException):
                    append(late, 4)
        *_, refused, landed = answers.lists
        assert len(answers.lists) == 6, "the late one was refused once"
        table = interop.pyiceberg_catalog(metastore).load_table(name)
        snapshot = table.current_snapshot()
        assert snapshot.manifest_list == landed
        assert is_there(refused) is not is_answered
        merged = []
        if not is_answered:
            lines = list(read_manifest_list(table.io.new_input(refused)))
            merged = [each.manifest_path for each in lines if each.added_snapshot_id == snapshot.snapshot_id]
            assert merged, "the same id each time"
            assert len(lines) > len(merged)
        # The first commit to the table after their age deletes them.
        clock.late = catalog.settings.replaced_list_age_ms / 1000 + 1
        for number in range(2):
            catalog.commit(name, [], [{"action": "set-properties", "updates": {"n": str(number)}}])
        table.refresh()
        assert [is_there(each) for each in (refused, *merged)] == [is_left for _ in (refused, *merged)]
        assert not {refused, *merged} & listed_files(table)
        assert [row["id"] for row in interop.pyiceberg_rows(metastore, name)] == [0, 1, 2, 3, 4]
        assert len(interop.check_history(metastore, name, [])) == 5
