"""Whose place a location is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.coordinator.locations.placement import (
    EVERYWHERE,
    Grant,
    NamespaceFolders,
    Placement,
    is_granted,
    overlaps_another,
)
from iceberg_hms.format.locations import parse
from iceberg_hms.name_pattern import NamePattern
from iceberg_hms.storage.files import RoutedFiles
from tests.coordinator.harness import Harness

FOLDERS = {
    "default": ["file:/wh"],
    "a": ["file:/wh/a.db"],
    "b": ["file:/wh/b.db", "s3://managed/b"],
    "inner": ["file:/wh/a.db/inner.db"],
    "nowhere": [],
}


def placed(location: str, *others: str, granted: tuple[str, ...] = (), kept: tuple[str, ...] = ()) -> bool:
    """Whether a caller may put something there who may write in `a` and in these."""
    folders = {name: [parse(each) for each in found] for name, found in FOLDERS.items()}
    grants, stays = [Grant(parse(each)) for each in granted], [parse(each) for each in kept]
    return Placement(lambda: folders, grants, "a", {"a", *others}.__contains__, lambda: stays).allows(parse(location))


@pytest.mark.parametrize(
    ("location", "owner"),
    [
        ("file:/wh/a.db/t", "a"),
        ("file:///wh//a.db/t/deeper", "a"),
        ("file:/wh/a.db", None),
        ("file:/wh/a.db2", "default"),
        ("file:/wh/x", "default"),
        ("file:/wh", None),
        ("file:/", None),
        ("file:/wh/b.db/t", "b"),
        ("file:/wh/b.db", None),
        ("s3://managed/b/t", "b"),
        ("s3://managed/t", None),
        ("file:/wh/a.db/inner.db/t", "inner"),
        ("file:/wh/a.db/inner.db", None),
        ("file:/wh/c.db", "default"),
        ("s3://managed/", None),
    ],
)
def test_a_place_is_that_of_the_innermost_namespace_around_it(location: str, owner: str | None) -> None:
    assert placed(location) == (owner == "a")
    for other in ("default", "b", "inner", "nowhere"):
        assert placed(location, other) == (owner in ("a", other)), other
    assert placed(location, EVERYWHERE)


@pytest.mark.parametrize(
    ("granted", "location", "is_open"),
    [
        ("s3://shared/x", "s3://shared/x/t", True),
        ("s3://shared/x", "s3a://shared/x", True),
        ("s3://shared/x", "s3://shared/y", False),
        ("file:/", "file:/wh/b.db/t", False),
        ("file:/wh", "file:/wh/t", True),
        ("file:/wh/b.db", "file:/wh/b.db/t", True),
        ("file:/wh/b.db/shared", "file:/wh/b.db/shared/t", True),
        ("file:/wh/b.db/shared", "file:/wh/b.db/t", False),
    ],
)
def test_a_folder_of_the_settings_is_open_but_for_namespaces_in_it(granted: str, location: str, is_open: bool) -> None:
    assert placed(location, granted=(granted,)) == is_open


@pytest.mark.parametrize(
    ("namespace", "location", "is_open"),
    [
        ("sales", "s3://lake/sales/t", True),
        ("market_x", "s3://lake/sales/t", True),
        ("market", "s3://lake/sales/t", False),
        ("other", "s3://lake/t", True),
        ("sales", "s3://lake/sales/inner/t", False),
        ("inner", "s3://lake/sales/inner/t", True),
        ("inner", "s3://elsewhere/t", False),
    ],
)
def test_of_granted_folders_the_innermost_says_whom_it_is_for(namespace: str, location: str, is_open: bool) -> None:
    sales = (NamePattern("sales"), NamePattern("market_*"))
    grants = [
        Grant(parse("s3://lake/")),
        Grant(parse("s3://lake/sales"), sales),
        Grant(parse("s3://lake/sales/inner"), (NamePattern("inner"),)),
    ]
    assert is_granted(grants, namespace, parse(location)) == is_open
    assert is_granted(reversed(grants), namespace, parse(location)) == is_open


def test_what_a_table_has_already_it_keeps() -> None:
    assert placed("file:/wh/b.db/mine/data2", kept=("file:/wh/b.db/mine",))
    assert not placed("file:/wh/b.db/mine2", kept=("file:/wh/b.db/mine",))


@pytest.mark.parametrize(
    ("location", "overlaps"),
    [
        ("file:/wh/new.db", False),
        ("file:/wh/a.db", True),
        ("file:/wh/b.db", True),
        ("file:/wh/b.db/new.db", True),
        ("file:/wh/a.db/inner.db/x", True),
        ("file:/wh", True),
        ("s3://managed/", True),
        ("s3://managed/c", False),
    ],
)
def test_namespaces_overlap_with_all_but_the_one_that_has_the_warehouse(location: str, overlaps: bool) -> None:
    folders = {name: [parse(each) for each in found] for name, found in FOLDERS.items()}
    assert overlaps_another(folders, "a", parse(location), [parse("file:/wh")]) == overlaps


class Known:
    """The folders of a metastore's namespaces, and what was asked of it."""

    def __init__(self) -> None:
        self.harness = Harness()
        self.folders = NamespaceFolders(self.harness.ports)

    def asked(self) -> list[str]:
        self.folders.all()
        calls = [method for method, _ in self.harness.pointer.calls]
        self.harness.pointer.calls.clear()
        return calls


def test_folders_are_asked_for_again_after_a_while_and_at_once_for_a_new_namespace() -> None:
    known = Known()
    assert known.asked() == ["databases", "database_folders"]
    assert known.asked() == ["databases"]
    known.harness.runtime.skipped += 61.0
    assert known.asked() == ["databases", "database_folders"]
    known.harness.pointer.metastore.databases["new"] = {}
    known.harness.pointer.folders["new"] = ["no location", "s3://new/db"]
    assert known.asked() == ["databases", "database_folders"]
    assert known.folders.all()["new"] == (parse("s3://new/db"),)


def test_a_folder_counts_without_its_links_too(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    harness = Harness()
    files: Any = RoutedFiles(fsync=False)
    harness.replace_ports(files=files)
    harness.pointer.folders["db"] = [f"file:{tmp_path}/link"]
    found = NamespaceFolders(harness.ports).all()["db"]
    assert found == (parse(f"file:{tmp_path}/link"), parse(f"file:{tmp_path}/real"))
