"""The examples of the documentation, as they are printed, on a real metastore and real files."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.rest.server import RestServer
from integration import interop

ROOT = Path(__file__).parent.parent
TOKEN = "a-token-for-tests-alone"
LOGS = pa.schema([("level", pa.string()), ("event_time", pa.timestamp("us")), ("message", pa.string())])


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as made:
        yield made
        for name in made.list_tables("logging"):
            made.drop_table(name)
        made.drop_namespace("logging")


def run(page: str, names: dict[str, Any], replaced: dict[str, str] | None = None, holding: str = "") -> dict[str, Any]:
    """Run a page's examples, one after the other, among `names`. replaced: text that stands for the reader's own.
    holding: run those alone that have this text. Returns the names afterwards."""
    path = ROOT / page
    examples = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    chosen = [example for example in examples if holding in example]
    assert chosen
    for example in chosen:
        for text, own in (replaced or {}).items():
            example = example.replace(text, own)
        exec(compile(example, page, "exec"), names)
    return names


def log_file(folder: Path, name: str, day: int, rows: int = 1) -> str:
    """A Parquet file of one day of April 2021. Returns its location."""
    time = datetime.datetime(2021, 4, day, 10)  # noqa: DTZ001 - the column is without zone
    columns = {"level": ["ERROR"] * rows, "event_time": [time] * rows, "message": [name] * rows}
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns, schema=LOGS), folder / f"{name}.parquet")
    return f"file:{folder}/{name}.parquet"


def messages(spark: Any, metastore: Any) -> list[str]:
    """What Spark and PyIceberg both read of the column `message`, in order."""
    peer = interop.pyiceberg_catalog(metastore).load_table("logging.events").scan().to_arrow()
    read = [row.message for row in spark.sql("SELECT message FROM logging.events ORDER BY message").collect()]
    assert read == sorted(peer["message"].to_pylist())
    return read


def logs(catalog: Catalog) -> Any:
    catalog.create_namespace("logging")
    return catalog.create_table("logging.events", LOGS, partition_spec=["day(event_time)"])


def test_the_first_five_minutes(spark: Any, metastore: Any, catalog: Catalog, tmp_path: Path) -> None:
    location = log_file(tmp_path, "first", 1)
    own = {
        "thrift://127.0.0.1:<port>": metastore.uri,
        "file:/tmp/lake/metastore/warehouse": metastore.warehouse,
        "file:/tmp/lake/data/events-2021-04-01.parquet": location,
    }
    names = run("README.md", {}, own, holding="import pyarrow")
    assert run("README.md", names, own, holding="report = table.append")["report"].replays == 0
    names["catalog"].close()
    with RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN) as server:
        own = {"http://127.0.0.1:8181": server.uri, '"..."': f'"{TOKEN}"'}
        peer = run("README.md", {}, own, holding="load_catalog(")["catalog"]
        assert peer.load_table("logging.events").scan().to_arrow()["message"].to_pylist() == ["first"]
    assert messages(spark, metastore) == ["first"]


def test_the_page_about_files(spark: Any, metastore: Any, catalog: Catalog, tmp_path: Path) -> None:
    days = {"thursday": 1, "friday": 2, "saturday": 3, "sunday": 4, "monday": 5, "tuesday": 6}
    days |= {"thursday_again": 1, "sunday_morning": 4, "sunday_evening": 4, "all_again": 1}
    files = {name: log_file(tmp_path, name, day, 2 if name == "sunday" else 1) for name, day in days.items()}
    run("docs/files.md", {"catalog": catalog, "table": logs(catalog), **files})
    assert messages(spark, metastore) == ["tuesday"]


def test_the_page_about_branches(spark: Any, metastore: Any, catalog: Catalog, tmp_path: Path) -> None:
    days = ("monday", "tuesday", "wrong", "wednesday", "thursday")
    files = {name: [log_file(tmp_path, name, 5)] for name in days}
    run("docs/branches.md", {"table": logs(catalog), **files})
    assert messages(spark, metastore) == ["monday", "thursday", "wednesday"]


def test_the_page_about_evolution(spark: Any, metastore: Any, catalog: Catalog, tmp_path: Path) -> None:
    columns = [*LOGS, pa.field("size", pa.int32()), pa.field("place", pa.struct([("lat", pa.float32())]))]
    catalog.create_namespace("logging")
    table = catalog.create_table("logging.events", pa.schema([each for each in columns if each.name != "message"]))
    run("docs/evolution.md", {"catalog": catalog, "table": table})
    names = ["severity", "size", "price", "place", "user", "id", "region", "area", "rack"]
    assert spark.table("logging.events").columns == names
    assert interop.pyiceberg_catalog(metastore).load_table("logging.events").schema().as_arrow().names == names


def test_the_page_about_maintenance(spark: Any, metastore: Any, catalog: Catalog, tmp_path: Path) -> None:
    table = logs(catalog)
    for day in (1, 2, 3):
        table.append([log_file(tmp_path, f"day-{day}", day)])
    run("docs/maintenance.md", {"catalog": catalog})
    assert messages(spark, metastore) == ["day-1", "day-2", "day-3"]


def test_the_page_about_filters(spark: Any, metastore: Any, catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_namespace("logging")
    columns = pa.schema([*LOGS, ("a", pa.int64()), ("b", pa.int64())])
    table = catalog.create_table("logging.events", columns)
    time = datetime.datetime(2021, 4, 1, 10)  # noqa: DTZ001 - the column is without zone
    for message, level in (("goes", "ERROR"), ("stays", "INFO")):
        row = {"level": level, "event_time": time, "message": message, "a": 1, "b": 3}
        pq.write_table(pa.Table.from_pylist([row], schema=columns), tmp_path / f"{message}.parquet")
        table.append([f"file:{tmp_path}/{message}.parquet"])
    names: dict[str, Any] = {}
    run("docs/expressions.md", names)
    table.delete(names["where"])
    assert messages(spark, metastore) == ["stays"]
