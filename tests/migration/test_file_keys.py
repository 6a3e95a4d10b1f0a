"""The keys by which tasks compare what folders have with what a table has."""

from __future__ import annotations

from pathlib import Path

from iceberg_hms.migration.file_keys import folder_keys, manifest_keys
from tests.migration.hive_files import HiveFolder, write


def test_a_file_has_one_key_in_its_folder_and_in_its_manifest(tmp_path: Path) -> None:
    hive = HiveFolder(tmp_path / "flights")
    files = [write(hive.partition(month) / "a") for month in (1, 2)]
    hive.partition(3)  # Its folder is gone.
    work = hive.work()
    manifests = [each for one in hive.described(work) for each in one.manifests]
    listed = dict(folder_keys(work, hive.partitions))
    assert sorted(listed.values()) == files
    assert dict(pair for each in manifests for pair in manifest_keys(work.settings, True, each)) == listed


def test_links_have_keys_of_their_own(tmp_path: Path) -> None:
    hive = HiveFolder(tmp_path / "flights")
    folder = hive.partition(1)
    file = write(folder / "a")
    for name in ("link", "_hidden"):
        (folder / name).symlink_to(folder / "a")
    assert [each for _, each in folder_keys(hive.work(), hive.partitions)] == [file, f"file:{folder}/link"]
    assert len(dict(folder_keys(hive.work(), hive.partitions))) == 2
