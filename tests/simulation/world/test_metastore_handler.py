"""What a handler answers, by the calls of one that the simulation makes."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.compare_and_swap.proofs import prove_cas
from iceberg_hms.metastore.compare_and_swap.scratch_row import ScratchRows
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.faults import Fault, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import Database, GetTableRequest, GetTablesRequest
from iceberg_hms.metastore.tables.table_names import TableNames
from simulation.engine.scheduler import Scheduler
from simulation.world.metastore import METADATA_LOCATION, iceberg_row
from simulation.world.metastore_handler import SwapSupport
from tests.simulation.manual_schedule import run_tasks
from tests.simulation.world.test_metastore_server import OTHER, PROBE, RIGHT, STALE, Caller, T


@pytest.mark.parametrize(
    ("swap_support", "right", "stale", "probe"),
    [
        (SwapSupport.ATOMIC, None, Fault.TABLE_MODIFIED, Fault.EXPECTED_KEY_MISSING),
        (SwapSupport.IGNORED, None, None, None),
        (SwapSupport.BROKEN, Fault.SWAP_BROKEN, Fault.TABLE_MODIFIED, Fault.EXPECTED_KEY_MISSING),
    ],
)
def test_servers_make_of_expected_values_what_their_versions_do(
    swap_support: SwapSupport, right: Fault | None, stale: Fault | None, probe: Fault | None
) -> None:
    for expected, fault in ((RIGHT, right), (STALE, stale), (PROBE, probe), (None, None)):
        caller = Caller(swap_support=swap_support)
        assert caller.alter("b", expected) is fault
        assert caller.metastore.location(T) == ("b" if fault is None else "a")


@pytest.mark.parametrize("swap_support", SwapSupport)
def test_the_drivers_probe_finds_out_what_a_server_is(swap_support: SwapSupport) -> None:
    found: list[CompareAndSwap] = []

    def work(scheduler: Scheduler) -> None:
        caller = Caller(scheduler, swap_support=swap_support)
        found.append(prove_cas(ScratchRows(ClientPool([]), SYSTEM_CLOCK), caller.call, "db").support)
        assert list(caller.metastore.rows) == [T]

    assert run_tasks(work).failure is None
    assert [each.value for each in found] == [swap_support.value]


def test_names_that_are_taken_or_missing_are_refused_in_hives_words() -> None:
    caller = Caller()
    taken, nowhere = iceberg_row(T, {}), iceberg_row(TableName("nope", "t"), {})
    assert caller.fault("create_table", tbl=taken) is Fault.ALREADY_EXISTS
    assert caller.fault("create_table", tbl=nowhere) is Fault.INVALID
    assert caller.fault("drop_table", dbname="db", name="u", deleteData=False) is Fault.NO_SUCH_OBJECT
    assert caller.fault("get_table_req", req=GetTableRequest(dbName="db", tblName="u")) is Fault.NO_SUCH_OBJECT
    assert caller.fault("get_database", name="nope") is Fault.NO_SUCH_OBJECT
    assert caller.alter("a", RIGHT, name=OTHER) is Fault.NO_SUCH_OBJECT
    assert caller.alter("a", RIGHT, to=TableName("nope", "t")) is Fault.NO_SUCH_DATABASE
    assert caller.fault("create_table", tbl=iceberg_row(OTHER, {METADATA_LOCATION: "o"})) is None
    assert caller.alter("a", RIGHT, to=OTHER) is Fault.ALREADY_EXISTS
    assert caller.fault("no_such_call") is Fault.UNKNOWN_METHOD


def test_rows_are_listed_and_found_by_their_parameters() -> None:
    caller = Caller()
    caller.call("create_table", tbl=iceberg_row(OTHER, {"uuid": "u-2", "table_type": "other"}))
    assert caller.call("get_all_tables", db_name="db") == ["t", "other"]
    rows = caller.call("get_table_objects_by_name_req", req=GetTablesRequest(dbName="db", tblNames=["other", "x"]))
    assert [row.tableName for row in rows.tables] == ["other"]

    def names(text: str, most: int = -1) -> Any:
        return caller.call("get_table_names_by_filter", dbname="db", filter=text, max_tables=most)

    assert names('hive_filter_field_params__uuid like "u-.*"') == ["other"]
    assert names('hive_filter_field_params__uuid like "u-%"') == [], "seen on Hive: it takes regular expressions"
    with pytest.raises(ServerFault, match="lexer error"):
        names('hive_filter_field_params__uuid = "u-2"')
    assert names('hive_filter_field_params__uuid like ".*"') == ["other"], "a row without it is none"
    assert names('hive_filter_field_params__table_type like ".*"', most=1) == ["t"]


def test_the_driver_s_filter_for_iceberg_tables_is_understood() -> None:
    caller = Caller()
    caller.call("create_table", tbl=iceberg_row(OTHER, {"table_type": "other"}))
    methods: list[str] = []

    class Pool:
        def ask(self, method: str, /, **arguments: Any) -> Any:
            methods.append(method)
            return caller.call(method, **arguments)

    pool: Any = Pool()
    assert TableNames(pool).iceberg_in("db") == ["t"]
    assert methods == ["get_table_names_by_filter"], "it would read all rows where the filter is refused"


def test_a_database_is_read_and_written_back() -> None:
    caller = Caller()
    database = caller.call("get_database", name="db")
    database.parameters["more"] = "2"
    assert caller.metastore.database_parameters("db") == {"mark": "1"}
    caller.call("alter_database", dbname="db", db=database)
    assert caller.metastore.database_parameters("db") == {"mark": "1", "more": "2"}
    assert caller.call("get_all_databases") == ["db"]


def test_a_reader_may_change_its_copy_of_a_row() -> None:
    caller = Caller()
    caller.call("get_table_req", req=GetTableRequest(dbName="db", tblName="t")).table.parameters["more"] = "2"
    assert "more" not in caller.metastore.rows[T].parameters


def test_databases_are_made_and_dropped_in_hives_words() -> None:
    caller = Caller()
    for name, fault in (("more", None), ("more", Fault.ALREADY_EXISTS), ("a.b", Fault.INVALID)):
        assert caller.fault("create_database", database=Database(name=name, parameters={})) is fault
    for name, fault in (("db", Fault.NOT_EMPTY), ("more", None), ("more", Fault.OTHER)):
        assert caller.fault("drop_database", name=name, deleteData=False, cascade=False) is fault
