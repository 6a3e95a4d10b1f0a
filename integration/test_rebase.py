"""The server rebases the snapshots of stock clients: no commit fails, and none is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.rest.server import RestServer
from integration import interop
from integration.faults import SCHEMA
from integration.interop import check_history
from integration.rest_clients import ALL, SNAPSHOT_ISOLATION, TOKEN, Together
from integration.rest_clients import catalog as catalog
from integration.rest_clients import java as java
from integration.rest_clients import server as server

WRITERS = 4
APPENDS = 10
#: What a table may say, so that all of these appends are rebased.
OPT_INS = {"all": ALL, "snapshot isolation": SNAPSHOT_ISOLATION}


def side_by_side(writers: Sequence[Callable[[], list[Any]]]) -> list[Any]:
    """Run each function on a thread of its own, all at once; returns their results in one list."""
    start = Barrier(len(writers))

    def run(writer: Callable[[], list[Any]]) -> list[Any]:
        start.wait(60)
        return writer()

    with ThreadPoolExecutor(len(writers)) as pool:
        return [outcome for outcomes in pool.map(run, writers) for outcome in outcomes]


def java_appender(
    spark: Any,
    catalog: Any,
    table: str,
    folder: Path,
    name: str,
    *,
    merge: bool = False,
) -> Callable[[], list[tuple[str, str | None]]]:
    """Appends files one after the other. Returns (path, error or None) of each."""

    def write() -> list[tuple[str, str | None]]:
        loaded = catalog.loadTable(interop.java_identifier(spark, table))
        outcomes: list[tuple[str, str | None]] = []
        for number in range(APPENDS):
            path = interop.small_parquet(folder / f"{name}-{number}.parquet", [number])
            append = loaded.newAppend() if merge else loaded.newFastAppend()
            append.appendFile(interop.java_data_file(spark, loaded, path))
            outcomes.append((f"file:{path}", interop.java_error(append.commit)))
        return outcomes

    return write


def python_appender(server: RestServer, table: str, name: str) -> Callable[[], list[tuple[str, str | None]]]:
    """The same by PyIceberg, which names no file: returns (id of the row, error or None)."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import CommitFailedException

    def write() -> list[tuple[str, str | None]]:
        loaded = load_catalog(name, type="rest", uri=server.uri, token=TOKEN).load_table(table)
        outcomes: list[tuple[str, str | None]] = []
        for number in range(APPENDS):
            try:
                loaded.append(pa.table({"id": [number], "name": [f"{name}-{number}"]}, schema=SCHEMA))
                outcomes.append((f"{name}-{number}", None))
            except CommitFailedException as error:
                outcomes.append((f"{name}-{number}", str(error)))
        return outcomes

    return write


@pytest.mark.parametrize(
    ("how", "version"),
    [
        ("all", 3),
        ("snapshot isolation", 2),
        pytest.param("all", 1, marks=pytest.mark.slow),
        pytest.param("all", 2, marks=pytest.mark.slow),
        pytest.param("snapshot isolation", 3, marks=pytest.mark.slow),
    ],
)
def test_java_appends_that_were_overtaken_all_land(
    spark: Any, metastore: Any, catalog: Any, namespace: str, java: Any, tmp_path: Path, how: str, version: int
) -> None:
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties={**OPT_INS[how], "format-version": str(version)})
    writers = [java_appender(spark, each, table, tmp_path, str(number)) for number, each in enumerate(java(WRITERS))]
    outcomes = side_by_side(writers)
    assert [error for _, error in outcomes if error] == []
    acknowledged = [path for path, _ in outcomes]
    assert len(acknowledged) == WRITERS * APPENDS
    assert len(check_history(metastore, table, acknowledged)) == len(acknowledged)
    if version > 2:
        check_row_ids(catalog, table)


def check_row_ids(catalog: Any, table: str) -> None:
    """Check that no two rows have one id, and that next-row-id is greater than all of them."""
    metadata = catalog.load(table).metadata
    manifests = catalog.services.ports.manifests()
    ranges = sorted(
        (each.first_row_id, each.first_row_id + each.added_rows_count + each.existing_rows_count)
        for each in manifests.list(metadata.current_snapshot)
    )
    for (_, end), (start, _) in itertools.pairwise(ranges):
        assert end <= start
    assert ranges[-1][1] <= metadata.next_row_id


def test_merges_of_manifests_take_effect_beside_each_other(
    spark: Any, metastore: Any, catalog: Any, namespace: str, java: Any, tmp_path: Path
) -> None:
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties={**ALL, "commit.manifest.min-count-to-merge": "5"})
    writers = [
        java_appender(spark, each, table, tmp_path, str(number), merge=True)
        for number, each in enumerate(java(WRITERS))
    ]
    outcomes = side_by_side(writers)
    acknowledged = [path for path, error in outcomes if error is None]
    assert len(acknowledged) == WRITERS * APPENDS
    check_history(metastore, table, acknowledged)
    manifests = catalog.services.ports.manifests().list(catalog.load(table).metadata.current_snapshot)
    assert len(manifests) < WRITERS * APPENDS / 2


@pytest.mark.parametrize(
    "version", [3, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_java_appends_that_merge_the_same_manifests_all_land(
    spark: Any, metastore: Any, catalog: Any, namespace: str, tmp_path: Path, version: int
) -> None:
    table = f"{namespace}.t"
    merges = {"commit.manifest.min-count-to-merge": "3", "commit.retry.num-retries": "0"}
    catalog.create_table(table, SCHEMA, properties={**ALL, **merges, "format-version": str(version)})
    paths = [interop.small_parquet(tmp_path / f"{id_}.parquet", [id_]) for id_ in range(2 + WRITERS)]
    for path in paths[:2]:
        catalog.load_table(table).append([f"file:{path}"])
    opened = []
    with RestServer(Together(catalog, Barrier(WRITERS)), host="127.0.0.1", port=0, token=TOKEN) as server:

        def writer(path: Path) -> Callable[[], list[str | None]]:
            name = f"merges-{version}-{path.stem}"
            java = interop.java_catalog(spark, interop.REST_CATALOG, name, uri=server.uri, token=TOKEN)
            opened.append(java)
            loaded = java.loadTable(interop.java_identifier(spark, table))
            append = loaded.newAppend().appendFile(interop.java_data_file(spark, loaded, path))
            return lambda: [interop.java_error(append.commit)]

        errors = side_by_side([writer(path) for path in paths[2:]])
        for each in opened:
            each.close()
    assert errors == [None] * WRITERS
    snapshots = check_history(metastore, table, [f"file:{path}" for path in paths])
    merged = [each.summary["manifests-replaced"] for each in snapshots if each.summary.operation.value == "append"]
    assert merged == ["0", "0", "2", *["0"] * (WRITERS - 1)], "one merged, and the others were put after it"
    assert [each["id"] for each in interop.by_id(interop.spark_rows(spark, f"SELECT * FROM {table}"))] == list(
        range(2 + WRITERS)
    )
    if version > 2:
        check_row_ids(catalog, table)
    metadata, manifests = catalog.load(table).metadata, catalog.services.ports.manifests()
    named = {Path(each.manifest_path).name for snapshot in metadata.snapshots for each in manifests.list(snapshot)}
    there = Path(metadata.location.removeprefix("file:"), "metadata").glob("*-m*.avro")
    assert {each.name for each in there} == named, "Java deletes the manifests that it merged for nothing"


@pytest.mark.parametrize("how", sorted(OPT_INS))
def test_pyiceberg_appends_that_were_overtaken_all_land(
    metastore: Any, catalog: Any, namespace: str, server: RestServer, how: str
) -> None:
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties=OPT_INS[how])
    outcomes = side_by_side([python_appender(server, table, f"writer-{number}") for number in range(WRITERS)])
    assert [error for _, error in outcomes if error] == []
    assert len(check_history(metastore, table, [])) == WRITERS * APPENDS
    rows = interop.pyiceberg_rows(metastore, table)
    assert sorted(row["name"] for row in rows) == sorted(name for name, _ in outcomes)
