from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import (
    InvalidObjectException,
    InvalidOperationException,
    MetaException,
)
from thrift.Thrift import TApplicationException

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import HIVE_TABLE, Pointer, Refused, Sending, Swapped, TableName, Unanswered
from iceberg_hms.errors import (
    AccessDenied,
    InvalidInput,
    LockLost,
    MetastoreError,
    MetastoreUnavailable,
    NoSuchNamespace,
    NoSuchTable,
    NotAnIcebergTable,
)
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.locking.held_locks import NoLock
from iceberg_hms.metastore.connection.cas_support import SwapProtection
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.pool import ClientPool, Result
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, SerDeInfo, StorageDescriptor, Table
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.testing.contracts.table_pointer import CHECKS, Check, Place, table_metadata
from tests.metastore.fake_hms import Answer, DropAfter, DropBefore, FakeHms, Running, StoreClosed, pool_of, running

NAME = TableName("db", "t")
BEFORE = table_metadata("file:/w/t", columns=((1, "a", "string"), (2, "b", "long")))
AFTER = table_metadata("file:/w/t", columns=((2, "b", "long"),))
#: A result whose only field, a structure, has a number that our IDL does not know.
UNKNOWN_ERROR = b"\x0c\x00\x09" + b"\x00" + b"\x00"
ZONED = table_metadata("file:/w/t", columns=((1, "at", "timestamptz"),))


def hive_row(
    name: TableName,
    parameters: dict[str, str] | None = None,
    kind: str = "MANAGED_TABLE",
    location: str | None = None,
) -> Any:
    return Table(
        dbName=name.namespace,
        tableName=name.name,
        tableType=kind,
        parameters=parameters,
        sd=StorageDescriptor(cols=[FieldSchema(name="id", type="int")], location=location, serdeInfo=SerDeInfo()),
    )


@pytest.fixture
def pointer(pool: ClientPool) -> HmsTablePointer:
    return HmsTablePointer(pool, Settings.load({"user": "server"}, environ={}))


def moves(hms: FakeHms) -> int:
    return hms.calls.count("alter_table_with_environment_context")


@pytest.mark.parametrize("stock", [False, True], ids=["embedded", "stock"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_pointer_keeps_the_contract(check: Check, stock: bool, hms: FakeHms, pointer: HmsTablePointer) -> None:
    hms.disallow_column_changes = stock
    hms.add_database("other")

    def add_hive_table(name: TableName, location: str) -> None:
        hms.rows[name] = hive_row(name, location=location)

    check(pointer, Place("db", "other", "file:/w/t", add_hive_table))


@pytest.mark.parametrize("bad", [DropBefore(), DropAfter()], ids=["lost request", "lost reply"])
def test_a_move_without_answer_is_unanswered_and_not_sent_again(
    bad: Exception, hms: FakeHms, pointer: HmsTablePointer
) -> None:
    assert pointer.create(NAME, "m0", BEFORE, None) == Swapped()
    base = pointer.load(NAME)
    hms.misbehave["alter_table_with_environment_context"] += [None, bad]
    answer = pointer.swap(base, "m1", BEFORE, BEFORE, Sending())
    assert isinstance(answer, Unanswered)
    assert isinstance(answer.error, MetastoreUnavailable)
    assert answer.atomic
    assert moves(hms) == 2, "the probe, and the swap once"
    assert pointer.load(NAME).metadata_location == ("m0" if isinstance(bad, DropBefore) else "m1")


@pytest.mark.parametrize("method", ["create_table", "drop_table"])
def test_creating_and_dropping_may_stay_unanswered_too(method: str, hms: FakeHms, pointer: HmsTablePointer) -> None:
    if method == "drop_table":
        pointer.create(NAME, "m0", BEFORE, None)
    hms.misbehave[method].append(DropAfter())
    answer = (
        pointer.create(NAME, "m0", BEFORE, None)
        if method == "create_table"
        else pointer.drop(pointer.load(NAME), Sending())
    )
    assert isinstance(answer, Unanswered)
    assert hms.calls.count(method) == 1


def test_a_drop_is_not_sent_if_its_lock_aged_during_the_wait_for_a_connection(
    hms: FakeHms, pointer: HmsTablePointer
) -> None:
    assert pointer.create(NAME, "m0", BEFORE, None) == Swapped()
    base = pointer.load(NAME)
    lock = NoLock()
    lock.seconds_since_renewal = lambda: lock.lease_seconds * 0.51  # type: ignore[method-assign]
    with pytest.raises(LockLost):
        pointer.drop(base, Sending([lock]))
    assert pointer.load(NAME) == base


@pytest.mark.parametrize("method", ["create_table", "alter_table_with_environment_context", "drop_table"])
def test_a_refusal_of_a_kind_that_only_newer_servers_know_is_not_taken_for_success(
    method: str, hms: FakeHms, pointer: HmsTablePointer
) -> None:
    if method == "create_table":
        hms.misbehave[method].append(Answer(UNKNOWN_ERROR))
        answer = pointer.create(NAME, "m0", BEFORE, None)
    else:
        pointer.create(NAME, "m0", BEFORE, None)
        base = pointer.load(NAME)
        # Before the swap there is the probe.
        hms.misbehave[method] += [Answer(UNKNOWN_ERROR)] if method == "drop_table" else [None, Answer(UNKNOWN_ERROR)]
        answer = (
            pointer.drop(base, Sending())
            if method == "drop_table"
            else pointer.swap(base, "m1", BEFORE, BEFORE, Sending())
        )
    assert isinstance(answer, Unanswered)
    assert hms.calls.count(method) == (2 if method.startswith("alter") else 1)


def test_an_unknown_refusal_of_the_probe_proves_nothing(
    hms: FakeHms, pool: ClientPool, pointer: HmsTablePointer
) -> None:
    pointer.create(NAME, "m0", BEFORE, None)
    hms.misbehave["alter_table_with_environment_context"] += [Answer(UNKNOWN_ERROR)] * 2
    assert isinstance(pointer.swap(pointer.load(NAME), "m1", BEFORE, BEFORE, Sending()), Unanswered)
    assert pool.cas_support.protection("db") is SwapProtection.UNPROVEN, "taken for a success it would be: ignored"


def test_a_metastore_that_is_gone_before_the_move_is_unavailable_not_unanswered(
    server: Running, pointer: HmsTablePointer
) -> None:
    pointer.create(NAME, "m0", BEFORE, None)
    base = pointer.load(NAME)
    server.stop()
    for call in (lambda: pointer.load(NAME), lambda: pointer.swap(base, "m1", BEFORE, BEFORE, Sending())):
        with pytest.raises(MetastoreUnavailable):
            call()


def test_a_refusal_that_is_no_conflict_carries_its_error(hms: FakeHms, pointer: HmsTablePointer) -> None:
    pointer.create(NAME, "m0", BEFORE, None)
    hms.misbehave["alter_table_with_environment_context"].append(MetaException("Permission denied: eve"))
    answer = pointer.swap(pointer.load(NAME), "m1", BEFORE, BEFORE, Sending())
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert isinstance(answer.error, AccessDenied)


def test_refused_columns_are_sent_once_and_remembered(hms: FakeHms, pointer: HmsTablePointer) -> None:
    hms.disallow_column_changes = True
    pointer.create(NAME, "m0", BEFORE, None)
    assert pointer.swap(pointer.load(NAME), "m1", AFTER, BEFORE, Sending()) == Swapped()
    assert moves(hms) == 3, "the probe, the new columns, the old columns"
    assert pointer.swap(pointer.load(NAME), "m2", AFTER, AFTER, Sending()) == Swapped()
    assert moves(hms) == 4
    assert [column.name for column in pointer.load(NAME).table.sd.cols] == ["a", "b"]
    assert pointer.swap(pointer.load(NAME), "m3", BEFORE, AFTER, Sending()) == Swapped()
    assert moves(hms) == 5


def test_a_row_that_stays_an_iceberg_table_s_gets_the_columns_of_its_schema(
    hms: FakeHms, pointer: HmsTablePointer
) -> None:
    pointer.create(NAME, "m0", BEFORE, None)
    hms.rows[NAME].parameters[HIVE_TABLE] = "file:/saved"
    hms.rows[NAME].partitionKeys = [FieldSchema(name="b", type="bigint")]
    hms.rows[NAME].sd.cols[0].type = "varchar(3)"
    base = pointer.load(NAME)
    assert pointer.swap(base.without_record(HIVE_TABLE), "m1", BEFORE, BEFORE, Sending()) == Swapped()
    kept = pointer.load(NAME)
    assert kept.hive_table is None
    assert [(each.name, each.type) for each in kept.table.sd.cols] == [("a", "string")], "b is a partition key"


def test_columns_for_which_the_server_may_not_read_the_partitions_are_left(
    hms: FakeHms, pointer: HmsTablePointer
) -> None:
    pointer.create(NAME, "m0", BEFORE, None)
    assert pointer.swap(pointer.load(NAME), "m1", BEFORE, BEFORE, Sending()) == Swapped()
    hms.misbehave["alter_table_with_environment_context"].append(
        MetaException("Number of partitions scanned (=500) on table 't' exceeds limit (=3). This is controlled on ...")
    )
    assert pointer.swap(pointer.load(NAME), "m2", AFTER, BEFORE, Sending()) == Swapped()
    assert [column.name for column in pointer.load(NAME).table.sd.cols] == ["a", "b"]


@pytest.mark.parametrize("behaviour", ["atomic", "checked", "ignored", "broken"])
@pytest.mark.parametrize("columns_first", [True, False])
def test_refused_columns_and_the_probe_do_not_disturb_each_other(
    behaviour: str, columns_first: bool, hms: FakeHms, pointer: HmsTablePointer
) -> None:
    hms.swap_support = behaviour
    hms.disallow_column_changes = True
    hms.columns_are_checked_first = columns_first
    pointer.create(NAME, "m0", BEFORE, None)
    for number in (1, 2):
        assert pointer.swap(pointer.load(NAME), f"m{number}", AFTER, BEFORE, Sending()) == Swapped()
        assert pointer.load(NAME).metadata_location == f"m{number}"
        assert [column.name for column in pointer.load(NAME).table.sd.cols] == ["a", "b"]


def test_refused_columns_of_a_swap_that_requires_cas(hms: FakeHms, server: Running, pointer: HmsTablePointer) -> None:
    hms.disallow_column_changes = True
    pointer.create(NAME, "m0", BEFORE, None)
    assert pointer.swap(pointer.load(NAME), "m1", AFTER, BEFORE, Sending(require_cas=True)) == Swapped()
    assert [column.name for column in pointer.load(NAME).table.sd.cols] == ["a", "b"]
    hms.swap_support = "ignored"
    server.hang_up()
    with pytest.raises(MetastoreUnavailable):
        pointer.swap(pointer.load(NAME), "m2", AFTER, BEFORE, Sending(require_cas=True))
    assert pointer.load(NAME).metadata_location == "m1"


class InterruptedPool(ClientPool):
    """after_alter: called once, after the next change was sent."""

    after_alter: Callable[[], None] | None = None

    def run(self, function: Callable[[MetastoreClient], Result], *, idempotent: bool, **more: Any) -> Result:
        try:
            return super().run(function, idempotent=idempotent, **more)
        finally:
            if not idempotent and self.after_alter is not None:
                call, self.after_alter = self.after_alter, None
                call()


def test_the_swap_with_the_old_columns_requires_cas_too(hms: FakeHms, server: Running) -> None:
    def another_server_answers() -> None:
        server.hang_up()
        hms.swap_support = "ignored"

    pool = InterruptedPool([server.uri])
    pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
    hms.disallow_column_changes = True
    pointer.create(NAME, "m0", BEFORE, None)
    base = pointer.load(NAME)
    pool.after_alter = another_server_answers
    with pytest.raises(MetastoreUnavailable):
        pointer.swap(base, "m1", AFTER, BEFORE, Sending(require_cas=True))
    assert pool.after_alter is None
    assert pointer.load(NAME).metadata_location == "m0"
    pool.close()


def test_a_lost_reply_to_the_second_try_is_unanswered(hms: FakeHms, pointer: HmsTablePointer) -> None:
    hms.disallow_column_changes = True
    pointer.create(NAME, "m0", BEFORE, None)
    base = pointer.load(NAME)
    sentence = "The following columns have types incompatible with the existing columns in their respective positions"
    hms.misbehave["alter_table_with_environment_context"] += [None, MetaException(sentence), DropAfter()]
    assert isinstance(pointer.swap(base, "m1", AFTER, BEFORE, Sending()), Unanswered)
    assert pointer.load(NAME).metadata_location == "m1"


MOVES: dict[str, Callable[[HmsTablePointer, Pointer], Any]] = {
    "alter_table_with_environment_context": lambda pointer, base: pointer.swap(base, "m1", BEFORE, BEFORE, Sending()),
    "create_table": lambda pointer, base: pointer.create(TableName("db", "u"), "m1", BEFORE, None),
    "drop_table": lambda pointer, base: pointer.drop(base, Sending()),
}
RENAME = {
    "alter_table_with_environment_context": lambda pointer, base: pointer.rename(base, TableName("db", "u"), Sending())
}


@pytest.mark.parametrize(("method", "move"), [*MOVES.items(), *RENAME.items()], ids=[*MOVES, "rename"])
def test_a_move_that_met_a_closed_store_is_no_proof_and_the_next_call_works(
    method: str, move: Callable[[HmsTablePointer, Pointer], Any], hms: FakeHms, pointer: HmsTablePointer, request: Any
) -> None:
    pointer.create(NAME, "m0", BEFORE, None)
    assert pointer.swap(pointer.load(NAME), "m0", BEFORE, BEFORE, Sending()) == Swapped()
    base = pointer.load(NAME)
    hms.misbehave[method].append(StoreClosed())
    sent = hms.calls.count(method)
    answer = move(pointer, base)
    # Some are under their lock until the server has done with them, which this one has.
    assert answer.in_doubt if isinstance(answer, Refused) else isinstance(answer, Unanswered)
    assert isinstance(answer, Refused) is (request.node.callspec.id in ("drop_table", "rename"))
    assert "Persistence Manager has been closed" in str(answer.error)
    assert hms.calls.count(method) == sent + 1
    assert pointer.load(NAME).metadata_location == "m0"
    assert move(pointer, base) == Swapped()


def test_a_swap_that_met_a_closed_store_may_be_sent_again_if_it_is_atomic(
    hms: FakeHms, pointer: HmsTablePointer
) -> None:
    pointer.create(NAME, "m0", BEFORE, None)
    assert pointer.swap(pointer.load(NAME), "m0", BEFORE, BEFORE, Sending()) == Swapped()
    hms.misbehave["alter_table_with_environment_context"].append(StoreClosed())
    base = pointer.load(NAME)
    answer = pointer.swap(base, "m1", BEFORE, BEFORE, Sending())
    assert isinstance(answer, Unanswered)
    assert answer.atomic
    assert pointer.swap(base, "m1", BEFORE, BEFORE, Sending(require_cas=True)) == Swapped()


def test_fields_of_newer_servers_survive_a_swap(hms: FakeHms, pointer: HmsTablePointer) -> None:
    pointer.create(NAME, "m0", BEFORE, None)
    row = hms.rows[NAME]
    row.catName, row.ownerType, row.writeId, row.requiredReadCapabilities = "hive", 2, 9, ["X"]
    row.sd.serdeInfo.description = "kept"
    assert pointer.swap(pointer.load(NAME), "m1", BEFORE, BEFORE, Sending()) == Swapped()
    row = hms.rows[NAME]
    assert (row.catName, row.ownerType, row.writeId, row.requiredReadCapabilities) == ("hive", 2, 9, ["X"])
    assert row.sd.serdeInfo.description == "kept"


@pytest.mark.parametrize(
    ("version", "hive"), [("3.0", "timestamp"), ("4.0.1", "timestamp with local time zone"), ("", "timestamp")]
)
def test_the_servers_version_is_asked_once_and_only_for_instants(
    version: str, hive: str, hms: FakeHms, pointer: HmsTablePointer
) -> None:
    hms.version = version
    pointer.create(NAME, "m0", BEFORE, None)
    assert "getVersion" not in hms.calls
    for number in (1, 2):
        pointer.create(TableName("db", f"z{number}"), "m0", ZONED, None)
    assert hms.calls.count("getVersion") == 1
    assert hms.rows[TableName("db", "z2")].sd.cols[0].type == hive


@pytest.mark.parametrize(
    ("parameters", "kind", "found"),
    [
        (None, "MANAGED_TABLE", "MANAGED_TABLE"),
        ({"table_type": "ICEBERG-VIEW", "metadata_location": "m"}, "VIRTUAL_VIEW", "table_type=ICEBERG-VIEW"),
        ({"table_type": "ICEBERG"}, "EXTERNAL_TABLE", "without metadata_location"),
        ({"table_type": "DELTA"}, "EXTERNAL_TABLE", "table_type=DELTA"),
    ],
)
def test_what_is_no_iceberg_table_is_named(
    parameters: dict[str, str] | None, kind: str, found: str, hms: FakeHms, pointer: HmsTablePointer
) -> None:
    hms.rows[NAME] = hive_row(NAME, parameters, kind)
    with pytest.raises(NotAnIcebergTable) as raised:
        pointer.load(NAME)
    assert found in raised.value.found
    assert raised.value.is_view is ("VIEW" in found)


def test_owner_of_a_row(hms: FakeHms, pointer: HmsTablePointer) -> None:
    owned = table_metadata("file:/w/t", {"hive.metastore.table.owner": "grace"})
    pointer.create(NAME, "m0", owned, "ada")
    pointer.create(TableName("db", "u"), "m0", owned, None)
    pointer.create(TableName("db", "v"), "m0", BEFORE, None)
    assert [hms.rows[TableName("db", name)].owner for name in "tuv"] == ["ada", "grace", "server"]


def test_names_that_hive_refuses_are_bad_input(hms: FakeHms, pointer: HmsTablePointer) -> None:
    answer = pointer.create(TableName("db", "a b"), "m0", BEFORE, None)
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, InvalidInput)
    pointer.create(NAME, "m0", BEFORE, None)
    hms.misbehave["alter_table_with_environment_context"].append(
        InvalidOperationException("a b is not a valid object name")
    )
    answer = pointer.rename(pointer.load(NAME), TableName("db", "a b"), Sending())
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, InvalidInput)


def test_a_refused_creation_stays_refused_when_nothing_more_can_be_found_out(
    hms: FakeHms, pointer: HmsTablePointer
) -> None:
    """an error is raised only of what was not sent: its files would be deleted"""
    hms.misbehave["create_table"].append(InvalidObjectException("nope"))
    hms.misbehave["get_database"] += [MetaException("out of order")] * 9
    answer = pointer.create(NAME, "m0", BEFORE, None)
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, InvalidInput)


@pytest.mark.parametrize(("to", "missing"), [("nowhere", True), ("db", False)])
def test_a_refused_rename_that_only_names_the_database_is_looked_into(
    to: str, missing: bool, hms: FakeHms, pointer: HmsTablePointer
) -> None:
    pointer.create(NAME, "m0", BEFORE, None)
    said = f"Unable to change partition or table. Check metastore logs for detailed stack.database hive.{to}"
    hms.misbehave["alter_table_with_environment_context"].append(InvalidOperationException(said))
    answer = pointer.rename(pointer.load(NAME), TableName(to, "u"), Sending())
    assert isinstance(answer, Refused)
    assert not answer.conflict
    assert isinstance(answer.error, NoSuchNamespace) is missing


def test_a_refused_rename_stays_refused_when_nothing_more_can_be_found_out(
    hms: FakeHms, pointer: HmsTablePointer
) -> None:
    pointer.create(NAME, "m0", BEFORE, None)
    hms.misbehave["alter_table_with_environment_context"].append(InvalidOperationException("no more is said"))
    hms.misbehave["get_database"].append(MetaException("the database is down"))
    answer = pointer.rename(pointer.load(NAME), TableName("nowhere", "u"), Sending())
    assert isinstance(answer, Refused)
    assert "no more is said" in str(answer.error)


def test_a_rename_expects_what_was_read(hms: FakeHms, pointer: HmsTablePointer) -> None:
    pointer.create(NAME, "m0", BEFORE, None)
    answer = pointer.rename(replace(pointer.load(NAME), metadata_location="older"), TableName("db", "u"), Sending())
    assert isinstance(answer, Refused)
    assert answer.conflict
    assert TableName("db", "t") in hms.rows


def many_tables(hms: FakeHms) -> list[str]:
    """Rows for more calls than one, and the names of those that are Iceberg's."""
    for number in range(205):
        name = TableName("db", f"t{number:03}")
        hms.rows[TableName("db", name.name)] = hive_row(name, {"table_type": "ICEBERG" if number % 2 else "hive"})
    return [f"t{number:03}" for number in range(205) if number % 2]


@pytest.mark.parametrize("filters", [True, False])
def test_iceberg_tables_are_listed_with_and_without_the_servers_filter(
    filters: bool, hms: FakeHms, pointer: HmsTablePointer
) -> None:
    hms.filter_works = filters
    expected = many_tables(hms)
    assert pointer.list_tables("db") == expected
    assert pointer.list_tables("db") == expected
    assert hms.calls.count("get_table_names_by_filter") == (2 if filters else 1)
    assert hms.calls.count("get_table_objects_by_name_req") == (0 if filters else 6)


def test_a_server_that_lacks_the_filter_is_not_asked_again(hms: FakeHms, pointer: HmsTablePointer) -> None:
    expected = many_tables(hms)
    hms.misbehave["get_table_names_by_filter"].append(
        TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name")
    )
    for _ in range(3):
        assert pointer.list_tables("db") == expected
    assert hms.calls.count("get_table_names_by_filter") == 1


@pytest.mark.parametrize(
    "trouble",
    [
        MetaException("Unable to acquire a connection to the database"),
        MetaException("Deadlock found when trying to get lock; try restarting transaction"),
        TApplicationException(TApplicationException.PROTOCOL_ERROR, "Required field 'x' is unset!"),
    ],
    ids=["outage", "deadlock", "protocol"],
)
def test_a_fault_of_the_moment_does_not_end_filtering_at_the_server(
    trouble: Exception, hms: FakeHms, pointer: HmsTablePointer
) -> None:
    expected = many_tables(hms)
    hms.misbehave["get_table_names_by_filter"] += [trouble, None, trouble]
    for _ in range(4):
        assert pointer.list_tables("db") == expected
    assert hms.calls.count("get_table_names_by_filter") == 4
    assert hms.calls.count("get_all_tables") == 2


def test_an_outage_does_not_end_filtering_at_the_server(hms: FakeHms, pointer: HmsTablePointer) -> None:
    expected = many_tables(hms)
    for _ in range(3):
        for method in ("get_table_names_by_filter", "get_all_tables"):
            hms.misbehave[method].append(MetaException("the database is down"))
        with pytest.raises(MetastoreError, match="down"):
            pointer.list_tables("db")
    hms.misbehave["get_table_names_by_filter"] += [DropAfter(), DropAfter()]
    with pytest.raises(MetastoreUnavailable):
        pointer.list_tables("db")
    assert pointer.list_tables("db") == expected
    assert hms.calls[-1] == "get_table_names_by_filter"


def test_a_server_that_says_the_same_twice_while_it_reads_rows_cannot_filter(
    hms: FakeHms, pointer: HmsTablePointer
) -> None:
    expected = many_tables(hms)
    # Hive 3.1.3 on Derby: what its database said is not passed on.
    said = "Exception thrown when executing query : SELECT A0.TBL_NAME FROM TBLS A0 WHERE C0.PARAM_VALUE = ?"
    hms.misbehave["get_table_names_by_filter"] += [MetaException(said), MetaException(said)]
    for _ in range(4):
        assert pointer.list_tables("db") == expected
    assert hms.calls.count("get_table_names_by_filter") == 2


def test_an_empty_namespace_lists_no_tables_and_a_missing_one_raises(pointer: HmsTablePointer) -> None:
    assert pointer.list_tables("db") == []
    with pytest.raises(NoSuchNamespace):
        pointer.list_tables("nope")


def test_all_tables_are_listed_when_asked_for(server: Running, hms: FakeHms) -> None:
    hms.rows[TableName("db", "hive")] = hive_row(TableName("db", "hive"))
    with pool_of(server) as pool:
        everything = HmsTablePointer(pool, Settings.load({"list-all-tables": True}, environ={}))
        assert everything.list_tables("db") == ["hive"]


def test_another_spelling_of_a_name_that_the_metastore_knows_is_no_table(
    hms: FakeHms, pointer: HmsTablePointer
) -> None:
    pointer.create(TableName("db", "t"), "file:/m0", table_metadata("file:/w/db.db/t"), None)
    row = hms.rows[NAME]
    for spelling in (TableName("db", "t\u0301"), TableName("@hive#db", "t")):
        hms.rows[spelling] = row
        with pytest.raises(NoSuchTable):
            pointer.load(spelling)
    row.dbName = row.dbName.upper()
    assert pointer.load(TableName("db", "t")).metadata_location == "file:/m0"


@pytest.mark.parametrize(
    ("name", "metadata", "owner"),
    [
        (TableName("db", "t" * 129), BEFORE, None),
        (NAME, BEFORE, "o" * 768),
        (NAME, table_metadata("file:/w/t", {"hive.metastore.table.owner": "a\0"}), None),
        (NAME, table_metadata("file:/" + "d" * 4_000), None),
    ],
)
def test_what_the_metastore_cannot_hold_of_a_new_table_is_refused_before_it_is_sent(
    name: TableName, metadata: Any, owner: str | None, hms: FakeHms, pointer: HmsTablePointer
) -> None:
    with pytest.raises(InvalidInput, match="cannot store"):
        pointer.create(name, "m0", metadata, owner)
    assert "create_table" not in hms.calls


def test_a_table_gets_no_name_that_the_metastore_cannot_lock(hms: FakeHms, pointer: HmsTablePointer) -> None:
    assert pointer.create(NAME, "m0", BEFORE, None) == Swapped()
    long = TableName("db", "t" * 129)
    with pytest.raises(InvalidInput, match="the table's name"):
        pointer.rename(pointer.load(NAME), long, Sending())
    assert not moves(hms)


@pytest.mark.parametrize(("version", "held"), [("3.0", "d" * 253 + "..."), ("4.0.1", "d" * 300)])
def test_a_long_comment_is_cut_to_what_the_release_holds(version: str, held: str, hms: FakeHms) -> None:
    hms.version = version
    with running(hms) as server, pool_of(server) as pool:
        pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
        metadata = table_metadata("file:/w/t")
        column = {"id": 1, "name": "a", "required": False, "type": "int", "doc": "d" * 300}
        schema = {"type": "struct", "schema-id": 0, "fields": [column]}
        pointer.create(NAME, "m0", TableMetadata.parse({**metadata.raw, "schemas": [schema]}), None)
        pointer.create(TableName("db", "u"), "m0", TableMetadata.parse({**metadata.raw, "schemas": [schema]}), None)
    assert [column.comment for column in hms.rows[NAME].sd.cols] == [held]
    assert hms.calls.count("getVersion") == 1
