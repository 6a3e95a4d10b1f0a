"""Appends by many writers to one table, with and without merging of manifests: rates, manifests and planning times."""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyiceberg.table import StaticTable

import iceberg_hms
from benchmarks import instruments
from benchmarks.library import WIDE_SCHEMA, records
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.local.metastore import LocalMetastore

#: Table property -> value, of the two tables.
KINDS = {
    "merged": {},
    "not merged": {"commit.manifest-merge.enabled": "false"},
}


def manifest_merging() -> None:
    """Append one file a commit to two tables in turn, one that merges its manifests and one that does not.

    All writers are threads of one process, each with a table object of its own, on one embedded metastore. After each
    part PyIceberg plans a full scan of the table, and the time that it takes is what readers feel. Metadata grows by
    one snapshot a commit in both tables, so the rate falls in both.
    """
    parser = instruments.parser(manifest_merging.__doc__)
    parser.add_argument("--commits", type=int, default=10_000, help="to each table")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--parts", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder,
        LocalMetastore(folder) as metastore,
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse, storage_fsync=False) as catalog,
    ):
        parts = list(_measure(catalog, arguments))
    _show(parts)
    instruments.keep(arguments.out, "manifest_merging", vars(arguments), parts)


def _measure(catalog: Catalog, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    catalog.create_namespace("bench")
    tables = {}
    for number, (kind, properties) in enumerate(KINDS.items()):
        tables[kind] = f"bench.t{number}"
        catalog.create_table(tables[kind], WIDE_SCHEMA, properties=properties)
    size = arguments.commits // arguments.parts
    for part in range(arguments.parts):
        # Each kind comes first in every other part.
        for kind in list(tables)[:: 1 if part % 2 else -1]:
            yield {"kind": kind, "part": part, **_part(catalog, tables[kind], size, arguments)}


def _part(catalog: Catalog, name: str, commits: int, arguments: argparse.Namespace) -> dict[str, Any]:
    files = iter(records(commits))
    shares = [list(itertools.islice(files, commits // arguments.writers)) for _ in range(arguments.writers)]

    def write(share: list[Any]) -> None:
        table = catalog.load_table(name)
        for each in share:
            table.append([each])

    started = time.perf_counter()
    with ThreadPoolExecutor(arguments.writers) as pool:
        list(pool.map(write, shares))
    seconds = time.perf_counter() - started
    table = catalog.load_table(name)
    head = table.current_snapshot()
    manifests = 0 if head is None else len(catalog.manifests().list(head))
    return {
        "rate": sum(map(len, shares)) / seconds,
        "snapshots": len(table.snapshots()),
        "manifests": manifests,
        "planning_seconds": _planning_seconds(table.metadata_location),
    }


def _planning_seconds(metadata_location: str) -> float:
    table = StaticTable.from_metadata(metadata_location)
    started = time.perf_counter()
    sum(1 for _ in table.scan().plan_files())
    return time.perf_counter() - started


def _show(parts: list[dict[str, Any]]) -> None:
    rows = [
        [
            each["kind"],
            str(each["snapshots"]),
            f"{each['rate']:.0f}",
            str(each["manifests"]),
            f"{each['planning_seconds'] * 1000:.0f}",
        ]
        for each in parts
    ]
    instruments.print_table(["", "snapshots", "commits/s", "manifests", "PyIceberg plans in ms"], rows)
    for kind in KINDS:
        rates = [each["rate"] for each in parts if each["kind"] == kind]
        print(f"{kind}: the last part has {rates[-1] / rates[0]:.2f} of the first part's rate")
