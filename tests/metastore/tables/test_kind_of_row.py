"""What a row is as a Hive table's and as an Iceberg table's; the contract suite checks the way there and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import InvalidOperationException, MetaException, Partition

from iceberg_hms.coordinator.hive_ports import HiveColumn, HivePartition, HiveRow
from iceberg_hms.coordinator.ports import HIVE_TABLE, Pointer, Refused, Sending, Swapped, TableName
from iceberg_hms.errors import InvalidInput, LockLost
from iceberg_hms.locking.held_locks import NoLock
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, SerDeInfo, StorageDescriptor, extended
from iceberg_hms.metastore.tables import hive_tables
from iceberg_hms.metastore.tables.hive_tables import HmsHiveTables
from iceberg_hms.metastore.tables.kind_of_row import (
    decode,
    encode,
    hive_partition,
    hive_record,
    hive_row,
    iceberg_record,
    read_row,
    unmarked_record,
)
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.testing.contracts.table_pointer import table_metadata
from tests.metastore.fake_hms import FakeHms
from tests.metastore.tables.test_hive_tables import SETTINGS
from tests.metastore.tables.test_table_pointer import hive_row as record_of

NAME = TableName("db", "t")
FOLDER = "file:/w/t"
METADATA = table_metadata(FOLDER, {"colour": "blue"})
MAX = 32_672


def record(**parameters: str) -> Any:
    made = record_of(NAME, {"transient_lastDdlTime": "100", "colour": "red", **parameters}, location=FOLDER)
    made.partitionKeys = [FieldSchema(name="p", type="string", comment="of the folders")]
    made.owner = "ada"
    made.sd.inputFormat, made.sd.bucketCols, made.sd.numBuckets = "parquet", ["id"], 4
    made.sd.serdeInfo = SerDeInfo(serializationLib="ParquetSerDe", parameters={"path": FOLDER})
    return made


def row(**parameters: str) -> HiveRow:
    return hive_row(NAME, record(**parameters))


def test_a_row_is_seen_as_it_is() -> None:
    seen = row()
    assert (seen.table_type, seen.location, seen.owner) == ("MANAGED_TABLE", FOLDER, "ada")
    assert seen.columns == (HiveColumn("id", "int"),)
    assert seen.partition_keys == (HiveColumn("p", "string", "of the folders"),)
    assert (seen.input_format, seen.serde, seen.serde_parameters) == ("parquet", "ParquetSerDe", {"path": FOLDER})
    assert (seen.bucket_columns, seen.num_buckets, seen.last_changed) == (("id",), 4, "100")


def test_a_row_without_anything_is_seen_too() -> None:
    seen = hive_row(NAME, record_of(NAME))
    assert (seen.parameters, seen.location, seen.num_buckets, seen.last_changed) == ({}, None, 0, None)
    bare = record_of(NAME)
    bare.sd = None
    assert (hive_row(NAME, bare).columns, hive_row(NAME, bare).serde) == ((), None)


def test_a_partition_without_a_folder_is_refused() -> None:
    kind = extended(Partition)
    described = StorageDescriptor(
        location="file:/p", inputFormat="orc", serdeInfo=SerDeInfo(serializationLib="OrcSerde")
    )
    assert hive_partition(NAME, kind(values=["1"], sd=described)) == HivePartition(("1",), "file:/p", "orc", "OrcSerde")
    described.serdeInfo.parameters = {"timeZone": "UTC"}
    found = hive_partition(NAME, kind(values=["1"], sd=described, parameters={"numRows": "1"}))
    assert (found.parameters, found.serde_parameters) == ({"numRows": "1"}, {"timeZone": "UTC"})
    for descriptor in (None, StorageDescriptor(location="")):
        with pytest.raises(InvalidInput, match="has no folder in the metastore"):
            hive_partition(NAME, kind(values=["1"], sd=descriptor))


def test_the_whole_record_is_kept_as_text() -> None:
    text = encode(row(note='blau "☃"\n'))
    assert decode(NAME, text).table == record(note='blau "☃"\n')


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"1":{"str":""}}', '{"1":{"i32":1}}'])
def test_any_other_text_is_no_row(text: str) -> None:
    with pytest.raises(InvalidInput, match="text of a row"):
        decode(NAME, text)


def test_an_iceberg_row_keeps_what_the_hive_row_had() -> None:
    before = row(EXTERNAL="FALSE", metadata_location="undone-1")
    made = iceberg_record(before, "file:/m0", METADATA, "file:/saved", 90, MAX)
    assert before.table == record(EXTERNAL="FALSE", metadata_location="undone-1"), "the record that was read changed"
    wanted = {"table_type": "ICEBERG", "metadata_location": "file:/m0", "EXTERNAL": "TRUE", HIVE_TABLE: "file:/saved"}
    assert made.parameters.items() >= {**wanted, "colour": "blue"}.items()
    assert "previous_metadata_location" not in made.parameters
    assert made.tableType == "EXTERNAL_TABLE"
    assert (made.partitionKeys, made.sd.cols) == (before.table.partitionKeys, before.table.sd.cols)
    assert (made.sd.location, made.sd.bucketCols) == (FOLDER, ["id"])
    assert made.sd.inputFormat == "org.apache.hadoop.mapred.FileInputFormat"


def test_a_spark_without_iceberg_does_not_take_the_files_for_the_table() -> None:
    sources = {"spark.sql.sources.provider": "parquet", "spark.sql.sources.schema": "{}"}
    made = iceberg_record(row(**sources, **{"spark.sql.create.version": "3"}), "file:/m0", METADATA, "s", 90, MAX)
    assert not sources.keys() & made.parameters.keys()
    assert made.parameters["spark.sql.create.version"] == "3"


@pytest.mark.parametrize(
    ("changed", "now", "wanted"), [("100", 90, "101"), ("100", 100, "101"), ("100", 200, "200"), ("odd", 7, "7")]
)
def test_each_change_of_kind_has_a_time_that_the_row_never_had(changed: str, now: int, wanted: str) -> None:
    before = row(transient_lastDdlTime=changed)
    assert iceberg_record(before, "m", METADATA, "s", now, MAX).parameters["transient_lastDdlTime"] == wanted
    assert unmarked_record(before, now).parameters["transient_lastDdlTime"] == wanted


def test_the_way_back_is_later_than_either_row() -> None:
    for saved, iceberg in (("100", "300"), ("300", "100")):
        now = record(transient_lastDdlTime=iceberg)
        base = Pointer(NAME, "m1", None, now.parameters, now)
        made = hive_record(base, row(transient_lastDdlTime=saved), "mark", 5)
        assert made.parameters["transient_lastDdlTime"] == "301"


def test_the_way_back_gives_the_name_that_the_table_has() -> None:
    saved = replace(row(previous_metadata_location="x"), name=TableName("db", "old"))
    now = record()
    now.dbName, now.tableName, now.catName, now.id = "other", "new", "hive", 7
    made = hive_record(Pointer(TableName("other", "new"), "m1", None, {}, now), saved, "mark", 5)
    assert (made.dbName, made.tableName, made.catName, made.id) == ("other", "new", "hive", 7)
    assert (made.parameters["metadata_location"], made.tableType, made.sd) == ("mark", "MANAGED_TABLE", saved.table.sd)
    assert "previous_metadata_location" not in made.parameters
    assert "metadata_location" not in unmarked_record(hive_row(NAME, made), 5).parameters


def test_a_row_without_a_time_has_nothing_to_compare() -> None:
    assert read_row(row()).expected == ("transient_lastDdlTime", "100")
    assert read_row(hive_row(NAME, record_of(NAME))).expected is None


def test_only_a_lock_protects_a_row_that_has_nothing_to_compare(hms: FakeHms, pool: ClientPool) -> None:
    hms.rows[NAME] = record_of(NAME, {}, location=FOLDER)
    hive = HmsHiveTables(pool, SETTINGS)
    with pytest.raises(Exception, match="no parameter that the metastore could compare"):
        hive.become_iceberg(hive.load_row(NAME), "m0", METADATA, "s", Sending(require_cas=True))
    expired = NoLock()
    expired.seconds_since_renewal = lambda: expired.lease_seconds  # type: ignore[method-assign]
    with pytest.raises(LockLost):
        hive.become_iceberg(hive.load_row(NAME), "m0", METADATA, "s", Sending((expired,)))
    assert hive.load_row(NAME).parameters == {}
    assert hive.become_iceberg(hive.load_row(NAME), "m0", METADATA, "s", Sending()) == Swapped()


#: Columns of a Hive table, with types that Iceberg lacks, and the schema that it was migrated to.
ROW_COLUMNS = (("small", "tinyint"), ("letter", "char(3)"), ("at", "timestamp"), ("flightno", "int"))
MIGRATED = ((1, "small", "int"), (2, "letter", "string"), (3, "at", "timestamptz"), (4, "flightNo", "int"))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (MIGRATED, ROW_COLUMNS),
        ((*MIGRATED, (5, "added", "long")), (*ROW_COLUMNS, ("added", "bigint"))),
        (((1, "tiny", "int"), *MIGRATED[1:]), (("tiny", "tinyint"), *ROW_COLUMNS[1:])),
        (((1, "small", "long"), *MIGRATED[1:]), (("small", "bigint"), *ROW_COLUMNS[1:])),
        (MIGRATED[1:], ROW_COLUMNS[1:]),
        (MIGRATED[:1], ROW_COLUMNS[:1]),
        (MIGRATED[::-1], ROW_COLUMNS[::-1]),
        (((9, "small", "string"), *MIGRATED[1:]), (("small", "string"), *ROW_COLUMNS[1:])),
        (((2, "small", "string"), (1, "letter", "int")), (("small", "char(3)"), ("letter", "tinyint"))),
        ((*MIGRATED, (5, "p", "string")), ROW_COLUMNS),
    ],
)
def test_the_columns_of_a_migrated_row_follow_its_schema_and_keep_hive_s_types_until_then(
    changed: tuple[tuple[int, str, str], ...],
    expected: tuple[tuple[str, str], ...],
    hms: FakeHms,
    pool: ClientPool,
) -> None:
    pointer = HmsTablePointer(pool, SETTINGS)
    before, after = (table_metadata(FOLDER, columns=each) for each in (MIGRATED, changed))
    pointer.create(NAME, "m0", before, None)
    row = hms.rows[NAME]
    row.parameters[HIVE_TABLE] = "file:/saved"
    row.partitionKeys = [FieldSchema(name="p", type="string")]
    row.sd.cols = [FieldSchema(name=name, type=type_) for name, type_ in ROW_COLUMNS]
    assert pointer.swap(pointer.load(NAME), "m1", after, before, Sending()) == Swapped()
    assert [(each.name.lower(), each.type) for each in hms.rows[NAME].sd.cols] == list(expected)
    assert pointer.swap(pointer.load(NAME), "m2", after, after, Sending()) == Swapped()
    assert [(each.name.lower(), each.type) for each in hms.rows[NAME].sd.cols] == list(expected)


HIVE_COLUMNS = (("small", "tinyint"), ("name", "string"))
#: What other programs and commits made of them.
CHANGED = [
    (("small", "bigint"), ("name", "string")),
    (("name", "string"),),
    (("name", "string"), ("small", "tinyint")),
    (("small", "tinyint"), ("name", "string"), ("added", "int")),
    (("tiny", "tinyint"), ("name", "string")),
    (),
]


@pytest.mark.parametrize("stock", [False, True])
@pytest.mark.parametrize("changed", CHANGED)
def test_the_way_back_writes_the_hive_table_s_columns_whatever_became_of_them(
    hms: FakeHms, pool: ClientPool, changed: tuple[tuple[str, str], ...], stock: bool
) -> None:
    hms.rows[NAME] = record()
    hms.rows[NAME].sd.cols = [FieldSchema(name=name, type=type_) for name, type_ in HIVE_COLUMNS]
    hive, pointer = HmsHiveTables(pool, SETTINGS), HmsTablePointer(pool, SETTINGS)
    before = hive.load_row(NAME)
    assert hive.become_iceberg(before, "m0", METADATA, "s", Sending()) == Swapped()
    hms.rows[NAME].sd.cols = [FieldSchema(name=name, type=type_) for name, type_ in changed]
    # Hive's stock setting: the types of columns at the same place may not change.
    hms.disallow_column_changes = stock
    assert hive.become_hive(pointer.load(NAME), before, "mark", Sending()) == Swapped()
    assert hive.load_row(NAME).columns == before.columns


@pytest.mark.parametrize(
    "words",
    [
        "The following columns have types incompatible with the existing columns in their respective positions",
        "Number of partitions scanned (=500) on table 't' exceeds limit (=3). This is controlled on ...",
    ],
)
def test_columns_that_the_server_does_not_take_back_are_named(hms: FakeHms, pool: ClientPool, words: str) -> None:
    hms.rows[NAME] = record()
    hive, pointer = HmsHiveTables(pool, SETTINGS), HmsTablePointer(pool, SETTINGS)
    before = hive.load_row(NAME)
    assert hive.become_iceberg(before, "m0", METADATA, "s", Sending()) == Swapped()
    alters = hms.misbehave["alter_table_with_environment_context"]
    alters.extend([InvalidOperationException(words)] * 2)
    answer = hive.become_hive(pointer.load(NAME), before, "mark", Sending())
    alters.clear()
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, InvalidInput)
    assert "disallow.incompatible.col.type.changes" in str(answer.error)
    assert pointer.load(NAME).metadata_location == "m0"


def test_the_row_without_columns_is_an_iceberg_table_s_until_the_way_back_goes_on(
    hms: FakeHms, pool: ClientPool
) -> None:
    hms.rows[NAME] = record()
    hms.rows[NAME].sd.cols = [FieldSchema(name="id", type="int")]
    hive, pointer = HmsHiveTables(pool, SETTINGS), HmsTablePointer(pool, SETTINGS)
    before = hive.load_row(NAME)
    assert hive.become_iceberg(before, "m0", METADATA, "s", Sending()) == Swapped()
    hms.rows[NAME].sd.cols = [FieldSchema(name="id", type="string")]
    hms.disallow_column_changes = True
    calls: list[Any] = []
    alter = hms.alter_table_with_environment_context

    def loses_the_third(dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any) -> None:
        calls.append(new_tbl)
        if len(calls) == 3:
            raise MetaException("out of order")
        alter(dbname, tbl_name, new_tbl, environment_context)

    hms.alter_table_with_environment_context = loses_the_third  # type: ignore[method-assign]
    answer = hive.become_hive(pointer.load(NAME), before, "mark", Sending())
    assert isinstance(answer, Refused)
    assert pointer.load(NAME).table.sd.cols == []
    assert hive.become_hive(pointer.load(NAME), before, "mark", Sending()) == Swapped()
    assert hive.load_row(NAME).columns == before.columns


def test_too_many_partitions_are_refused(hms: FakeHms, pool: ClientPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hive_tables, "PARTITIONS_MAX", 2)
    hms.rows[NAME] = record()
    hms.partitions[NAME] = {
        f"p={each}": extended(Partition)(values=[each], sd=StorageDescriptor(location=f"file:/{each}")) for each in "ab"
    }
    hive = HmsHiveTables(pool, SETTINGS)
    assert hive.partition_names(hive.load_row(NAME)) == ["p=a", "p=b"]
    hms.partitions[NAME]["p=c"] = hms.partitions[NAME]["p=a"]
    with pytest.raises(InvalidInput, match="more than 2 partitions"):
        hive.partition_names(hive.load_row(NAME))
