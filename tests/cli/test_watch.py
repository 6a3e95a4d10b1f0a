"""`iceberg-hms watch`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.cli.fakes import run

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    with memory_catalog() as made:
        made.create_namespace("nyc")
        yield made


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("nyc.flights", SCHEMA)


def append(table: Table, name: str) -> int:
    return table.append([DataFile(f"file:/in/{name}.parquet", "PARQUET", 1, 10)]).snapshot_ids[0]


def lines(catalog: Catalog, *arguments: str) -> list[Any]:
    result = run("watch", "nyc", "--once", *arguments, catalog=catalog)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_change_is_a_line_and_the_next_start_goes_on(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    place = ("--token-file", str(tmp_path / "token"))
    append(table, "before")
    assert lines(catalog, *place) == []
    first, second = append(table, "a"), append(table, "b")
    found = lines(catalog, *place)
    assert [(each["event"], each["table"], each["snapshot_id"]) for each in found] == [
        ("snapshot", "nyc.flights", first),
        ("snapshot", "nyc.flights", second),
    ]
    assert (found[1]["parent_id"], found[1]["operation"]) == (first, "append")
    assert found[1]["summary"]["added-data-files"] == "1"
    assert lines(catalog, *place) == []
    table.rollback_to_snapshot(first)
    catalog.rename_table("nyc.flights", "nyc.moved")
    assert lines(catalog, *place)[0] == {"event": "renamed", "table": "nyc.moved", "previous_name": "nyc.flights"}
    assert [each.name for each in tmp_path.iterdir()] == ["token"]


def test_it_may_begin_with_the_oldest_snapshots(catalog: Catalog, table: Table) -> None:
    first, second = append(table, "a"), append(table, "b")
    assert lines(catalog) == []
    assert [each["snapshot_id"] for each in lines(catalog, "--from-beginning")] == [first, second]
    table.expire_snapshots(snapshot_ids=[first])
    [gap] = lines(catalog, "--from-beginning")
    assert (gap["event"], gap["expired"]) == ("gap", [first])


def test_a_place_that_cannot_be_used_is_an_error(catalog: Catalog, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_text("{}")
    result = run("watch", "nyc", "--once", "--token-file", str(damaged), catalog=catalog)
    assert (result.exit_code, damaged.read_text()) == (2, "{}")
    assert "The token of the watch is of something else" in result.stderr
    for place in (tmp_path, tmp_path / "missing" / "token"):
        result = run("watch", "nyc", "--once", "--token-file", str(place), catalog=catalog)
        assert result.exit_code == 1
        assert "cannot be used" in result.stderr


def test_what_nothing_has_is_an_error(catalog: Catalog) -> None:
    result = run("watch", "nowhere", "--once", catalog=catalog)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nowhere" in result.stderr
