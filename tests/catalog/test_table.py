"""A table object: the state that it has, how it follows the table, and whose names its verbs have."""

import inspect
import uuid
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyiceberg.catalog
import pyiceberg.table
import pytest
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.table.update.sorting import UpdateSortOrder
from pyiceberg.table.update.spec import UpdateSpec

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.operations.builders import SchemaBuilder, SortOrderBuilder, SpecBuilder
from iceberg_hms.catalog.operations.refs import RefOperations
from iceberg_hms.catalog.table import Table
from iceberg_hms.catalog.transaction import Transaction
from iceberg_hms.errors import InvalidInput, NoSuchTable
from iceberg_hms.expressions import col
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.transforms import parse_transform
from iceberg_hms.format.schema.types import parse_type
from tests.format.missing_values import MISSING

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@pytest.fixture
def table(catalog):
    return catalog.create_table("logging.events", SCHEMA, properties={"owner": "ops"})


def data_file(name):
    return DataFile(f"file:/in/{name}.parquet", "PARQUET", 1, 10)


def live(table):
    return set(table.refresh().scan().plan().column("path").to_pylist())


def test_a_new_table_has_its_schema_and_properties_and_no_snapshot(table):
    assert [field.name for field in table.schema().fields] == ["id"]
    assert table.spec().fields == ()
    assert table.properties["owner"] == "ops"
    assert (table.current_snapshot(), table.snapshots(), table.history()) == (None, [], [])
    assert repr(table) == f"Table(logging.events, {table.metadata_location})"


def test_a_table_tells_what_its_metadata_holds(table):
    table.update_schema().add_column("level", "string").commit()
    table.update_spec().add_identity("level").commit()
    table.update_sort_order().desc("id").commit()
    table.create_branch("audit")
    assert (tuple(table.name()), str(table.name())) == (("logging", "events"), "logging.events")
    assert (table.location(), table.format_version) == (table.metadata.location, 2)
    assert (table.schemas()[1], table.specs()[1], table.sort_orders()[1]) == (
        table.schema(),
        table.spec(),
        table.sort_order(),
    )
    assert (len(table.schemas()), len(table.specs()), len(table.sort_orders())) == (2, 2, 2)
    assert table.last_sequence_number == 1
    assert table.snapshot_by_name("audit") == table.snapshot_by_id(table.refs()["audit"].snapshot_id) is not None
    assert table.snapshot_by_name("main") is None


#: Our classes and PyIceberg's.
PEERS = {
    Catalog: pyiceberg.catalog.Catalog,
    Table: pyiceberg.table.Table,
    Transaction: pyiceberg.table.Transaction,
    SchemaBuilder: UpdateSchema,
    SpecBuilder: UpdateSpec,
    SortOrderBuilder: UpdateSortOrder,
    RefOperations: ManageSnapshots,
}
#: PyIceberg's parameters that ours lack on purpose, and why.
LACKING = {
    ("append", "df"): "ours takes files",
    ("overwrite", "df"): "ours takes files",
    ("list_namespaces", "namespace"): "a metastore has one level of them",
    ("union_by_name", "format_version"): "the table's own",
    ("create_branch", "branch_name"): "the name comes first, as a snapshot need not be given",
    ("create_tag", "tag_name"): "the same",
    ("remove_branch", "branch_name"): "the same",
    ("remove_tag", "tag_name"): "the same",
    ("scan", "row_filter"): "`where`: ours finds files, not rows",
    ("scan", "selected_fields"): "`columns`: the same",
    ("scan", "limit"): "a plan has all files",
    ("scan", "options"): "there are none",
}


@pytest.mark.parametrize(
    ("ours", "verb"),
    [
        pytest.param(ours, verb, id=f"{ours.__name__}.{verb}")
        for ours, theirs in PEERS.items()
        for verb in sorted({each for each in dir(ours) if not each.startswith("_")} & set(dir(theirs)))
    ],
)
def test_a_verb_that_pyiceberg_has_too_has_its_kind_and_its_arguments(ours, verb):
    mine, its = inspect.getattr_static(ours, verb), inspect.getattr_static(PEERS[ours], verb)
    assert isinstance(mine, property) == isinstance(its, property)
    if isinstance(mine, property):
        return
    asked = [
        each.name
        for each in inspect.signature(its).parameters.values()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        and not each.name.startswith("_")
        and (verb, each.name) not in LACKING
    ]
    offered = [each for each in inspect.signature(mine).parameters if each in asked]
    assert sorted(offered) == sorted(asked)


def test_no_argument_is_said_to_be_lacking_that_is_there():
    for verb, name in LACKING:
        [ours] = [each for each, theirs in PEERS.items() if hasattr(each, verb) and verb in vars(theirs)][-1:]
        assert name in inspect.signature(getattr(PEERS[ours], verb)).parameters
        assert name not in inspect.signature(getattr(ours, verb)).parameters


def test_a_commit_brings_its_table_object_to_the_state_that_it_left(table):
    before = table.metadata_location
    report = table.append([data_file("a")])
    assert table.metadata_location == report.metadata_location != before
    assert table.current_snapshot().snapshot_id == report.snapshot_ids[0]
    assert [each.snapshot_id for each in table.snapshots()] == list(report.snapshot_ids)
    assert [each.snapshot_id for each in table.history()] == list(report.snapshot_ids)


def test_another_object_of_the_table_follows_when_it_is_refreshed(table, catalog):
    other = catalog.load_table("logging.events")
    table.append([data_file("a")])
    assert other.current_snapshot() is None
    assert other.refresh().current_snapshot() == table.current_snapshot()


def test_a_dropped_table_cannot_be_refreshed(table, catalog):
    catalog.drop_table("logging.events")
    with pytest.raises(NoSuchTable):
        table.refresh()


@pytest.mark.parametrize("delete", [lambda value: col("c") != value, lambda value: col("c").not_in([value])])
@pytest.mark.parametrize("of", ["int", "double", "decimal(9, 2)", "string", "date", "timestamp", "timestamp_ns"])
def test_no_row_is_deleted_for_being_unequal_to_a_missing_value(catalog, of, delete):
    schema = {"type": "struct", "fields": [{"id": 1, "name": "c", "required": False, "type": of}]}
    table = catalog.create_table("logging.rows", schema, properties={"format-version": "3"}, partition_spec=["c"])
    stored = {"string": "a", "double": 1.5, "decimal(9, 2)": Decimal("1.50")}.get(of, 1)
    table.append([DataFile("file:/d/a", "PARQUET", 1, 10, partition={"c": stored})])
    for missing in MISSING.values():
        with pytest.raises(InvalidInput, match="nothing equals"):
            table.delete(delete(missing))
    assert live(table) == {"file:/d/a"}


def test_a_timestamp_of_another_library_deletes_the_rows_that_its_text_does(catalog):
    nanos = {"type": "struct", "fields": [{"id": 1, "name": "t", "required": False, "type": "timestamp_ns"}]}
    start, text = 1_617_235_200 * 10**9, "2021-04-01T00:00:00.000000500"
    values = [text, pd.Timestamp(text), np.datetime64(text), pa.scalar(start + 500, pa.timestamp("ns"))]
    for number, value in enumerate(values):
        table = catalog.create_table(
            f"logging.rows{number}", nanos, properties={"format-version": "3"}, partition_spec=["t"]
        )
        files = [
            DataFile(f"file:/d/{number}{at}", "PARQUET", 1, 10, partition={"t": start + at}) for at in (0, 499, 500)
        ]
        table.append(files)
        table.delete(col("t") >= value)
        assert live(table) == {f"file:/d/{number}0", f"file:/d/{number}499"}
    micros = {"type": "struct", "fields": [{"id": 1, "name": "t", "required": False, "type": "timestamp"}]}
    table = catalog.create_table("logging.micros", micros, partition_spec=["t"])
    table.append([DataFile("file:/d/m", "PARQUET", 1, 10, partition={"t": start // 1_000})])
    for value in values:
        with pytest.raises(InvalidInput, match="it takes no nanoseconds"):
            table.delete(col("t") < value)
    assert live(table) == {"file:/d/m"}


#: Types of columns, and a value of each; None: of a type without one in partitions.
VALUES = {
    "boolean": True,
    "int": 34,
    "long": 34,
    "float": 1.5,
    "double": 1.5,
    "decimal(9, 2)": Decimal("14.20"),
    "string": "iceberg",
    "uuid": uuid.UUID(int=7),
    "binary": b"abcd",
    "fixed[4]": b"abcd",
    "date": 17_486,
    "time": 81_068_000_000,
    "timestamp": 1_510_871_468 * 10**6,
    "timestamptz": -1,
    "timestamp_ns": -1,
    "timestamptz_ns": 1_510_871_468 * 10**9,
    "unknown": None,
    "variant": None,
    "geometry": None,
    "geography": None,
}
TRANSFORMS = ("identity", "bucket[4]", "truncate[3]", "year", "month", "day", "hour", "void")
#: Those that a column may not have: its type has none, or not all readers agree on the form of such values.
REFUSED = {
    *((kind, "identity") for kind in ("fixed[4]", "variant", "geometry", "geography")),
    *((kind, "void") for kind in ("variant", "geometry", "geography")),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_table_is_partitioned_by_each_transform_or_is_not_made(catalog, kind):
    of, value = parse_type(kind), VALUES[kind]
    schema = {"type": "struct", "fields": [{"id": 1, "name": "c", "required": False, "type": kind}]}
    for number, text in enumerate(TRANSFORMS):
        transform, name = parse_transform(text), f"logging.t{number}"
        options = {"partition_spec": {"fields": [{"source-id": 1, "field-id": 1000, "name": "p", "transform": text}]}}
        make = partial(catalog.create_table, name, schema, properties={"format-version": "3"}, **options)
        if (kind, text) in REFUSED or not transform.can_transform(of):
            with pytest.raises(InvalidInput):
                make()
            assert not catalog.table_exists(name)
            continue
        table = make()
        partitions = {"file:/in/a": transform.apply(value, of), "file:/in/b": None}
        table.append([DataFile(path, "PARQUET", 1, 10, {"p": each}) for path, each in partitions.items()])
        assert live(table) == set(partitions)
        plan = table.scan(col("c").is_not_null()).plan().column("path").to_pylist()
        assert "file:/in/a" in plan or value is None
        table.delete("true")
        assert live(table) == set()
