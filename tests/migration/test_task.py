from __future__ import annotations

import os
from pathlib import Path

import pytest

from iceberg_hms.errors import CorruptFile
from iceberg_hms.migration.task import MigrationTask
from tests.migration.hive_files import HiveFolder


def test_tasks_of_one_process_share_what_reads_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = HiveFolder(tmp_path / "a").work()
    other = HiveFolder(tmp_path / "b").work(snapshot_id=9)
    shared = MigrationTask.of(one).stores
    assert MigrationTask.of(other).stores is shared
    # As in a forked child.
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert MigrationTask.of(one).stores is not shared


def test_metadata_that_is_none_fails_the_task(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile):
        MigrationTask.of(HiveFolder(tmp_path).work(metadata=b"{}"))
