from __future__ import annotations

from collections import Counter

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from simulation.actors.client_snapshots import CommitKind
from simulation.checks.contents import Contents, ContentsReader
from simulation.world.storage import Storage
from tests.simulation.manual_schedule import ManualSchedule, sent_commit

A, B = "file:/t/data/1.parquet", "file:/t/data/2.parquet"


def of_main(storage: Storage, metadata: TableMetadata) -> Contents:
    return ContentsReader(storage).read(metadata.current_snapshot)


def test_a_snapshot_holds_files_rows_and_all_that_its_list_names() -> None:
    manual = ManualSchedule()
    manual.append(1)
    manual.append(2)
    held = of_main(manual.storage, manual.metadata())
    assert held.files == held.rows == Counter((A, B))
    assert len(held.named) == 5
    assert (held.gone, held.findings) == (frozenset(), ())
    assert ContentsReader(manual.storage).read(None) == Contents()


def test_a_list_is_read_once_and_again_while_something_of_it_is_missing() -> None:
    manual = ManualSchedule()
    manual.append(1)
    snapshot = manual.metadata().current_snapshot
    [manifest] = manual.storage.store.manifests
    kept = manual.storage.store.manifests.pop(manifest)
    reader = ContentsReader(manual.storage)
    assert reader.read(snapshot).files == Counter()
    manual.storage.store.manifests[manifest] = kept
    assert reader.read(snapshot).files == Counter((A,))
    assert reader.read(snapshot) is reader.read(snapshot)


def test_a_deleted_row_is_gone_and_a_rewritten_one_is_there_once() -> None:
    for commit_kind, rows in ((CommitKind.DELETE, 1), (CommitKind.MASK, 1), (CommitKind.REWRITE, 2)):
        made = sent_commit(commit_kind)
        held = of_main(made.storage, made.metadata)
        assert held.rows.total() == rows
        assert held.gone >= {A, B} - held.rows.keys()
    assert held.files.total() == 1
