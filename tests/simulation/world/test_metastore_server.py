from __future__ import annotations

from typing import Any

import pytest
from thrift.Thrift import TException

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.compare_and_swap.proofs import prove_cas
from iceberg_hms.metastore.compare_and_swap.row_write import ALTER, alter_arguments
from iceberg_hms.metastore.compare_and_swap.scratch_row import ScratchRows
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.faults import Fault, classify
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import (
    CheckLockRequest,
    GetTableRequest,
    GetTablesRequest,
    HeartbeatRequest,
    LockComponent,
    LockRequest,
    LockState,
    ShowLocksRequest,
    UnlockRequest,
)
from iceberg_hms.metastore.tables.table_names import TableNames
from simulation.engine.scheduler import Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom
from simulation.world.metastore import METADATA_LOCATION, Metastore, SwapSupport, iceberg_row
from simulation.world.metastore_server import SimulatedServer
from tests.simulation.manual_schedule import run_tasks

T, OTHER = TableName("db", "t"), TableName("db", "other")


class Caller:
    """One process that calls one server, and gets the errors that the drivers would get."""

    def __init__(self, scheduler: Scheduler | None = None, **settings: Any) -> None:
        scheduler = scheduler or Scheduler(SeededRandom(1), WorkerPool())
        self.metastore = Metastore(scheduler, lease_seconds=60.0)
        self.metastore.add_database("db", {"mark": "1"})
        self.metastore.rows[T] = iceberg_row(T, {METADATA_LOCATION: "a"})
        self.service = SimulatedServer(scheduler, self.metastore, "thrift://a:1", **settings)

    def call(self, method: str, /, **arguments: Any) -> Any:
        try:
            return self.service.answer(method, arguments, "p")
        except TException as error:
            raise classify(error, method) from None

    def fault(self, method: str, **arguments: Any) -> Fault | None:
        try:
            self.service.answer(method, arguments, "p")
        except TException as error:
            return classify(error, method).fault
        return None

    def alter(self, location: str, expected: tuple[str, str] | None, to: TableName = T, name: TableName = T) -> Any:
        row = iceberg_row(to, {METADATA_LOCATION: location})
        return self.fault(ALTER, **alter_arguments(name, row, expected))

    def lock(self) -> Any:
        component = LockComponent(dbname="db", tablename="t")
        return self.call("lock", rqst=LockRequest(component=[component], agentInfo="me"))


RIGHT, STALE, PROBE = (METADATA_LOCATION, "a"), (METADATA_LOCATION, "z"), ("iceberg-hms.probe", "absent")


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


@pytest.mark.parametrize(
    ("swap_support", "fault"), [(SwapSupport.ATOMIC, Fault.TABLE_MODIFIED), (SwapSupport.IGNORED, None)]
)
def test_an_alter_that_waited_for_one_in_doubt_compares_what_that_left(
    swap_support: SwapSupport, fault: Fault | None
) -> None:
    found: list[Fault | None] = []

    def work(scheduler: Scheduler) -> None:
        caller = Caller(scheduler, swap_support=swap_support)
        commit = caller.metastore.prepare_call(lambda: caller.alter("b", RIGHT))
        scheduler.spawn(scheduler.current.process, "the standby is back", commit)
        found.append(caller.alter("c", RIGHT))

    run_tasks(work)
    assert found == [fault]


@pytest.mark.parametrize("swap_support", SwapSupport)
def test_the_drivers_probe_finds_out_what_a_server_is(swap_support: SwapSupport) -> None:
    found: list[CompareAndSwap] = []

    def work(scheduler: Scheduler) -> None:
        caller = Caller(scheduler, swap_support=swap_support)
        found.append(prove_cas(ScratchRows(ClientPool([]), SYSTEM_CLOCK), caller.call, "db").support)
        assert list(caller.metastore.rows) == [T]

    assert run_tasks(work).failure is None
    assert [each.value for each in found] == [swap_support.value]


@pytest.mark.parametrize(("swap_support", "most"), [(SwapSupport.ATOMIC, 1), (SwapSupport.CHECKED, 2)])
def test_between_check_and_swap_another_one_may_come_unless_they_are_one(swap_support: SwapSupport, most: int) -> None:
    swapped = []
    for seed in range(10):
        shared: list[Caller] = []
        answers: list[Any] = []

        def work(scheduler: Scheduler, to: str, shared: list[Caller] = shared, answers: list[Any] = answers) -> None:
            if not shared:
                shared.append(Caller(scheduler, swap_support=swap_support))
            answers.append(shared[0].alter(to, RIGHT))

        run_tasks(lambda s, work=work: work(s, "b"), lambda s, work=work: work(s, "c"), seed=seed)
        swapped.append(answers.count(None))
    assert max(swapped) == most


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
    assert names('hive_filter_field_params__uuid = "u-2" and hive_filter_field_params__table_type = "ICEBERG"') == []
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


def test_locks_are_asked_for_checked_shown_renewed_and_given_back() -> None:
    caller = Caller()
    first, second = caller.lock(), caller.lock()
    assert (first.state, second.state) == (LockState.ACQUIRED, LockState.WAITING)
    shown = caller.call("show_locks", rqst=ShowLocksRequest(dbname="db", tablename="t")).locks
    assert all(entry.saw_queue for entry in caller.metastore.locks)
    assert [(each.lockid, each.state, each.agentInfo, each.hostname) for each in shown] == [
        (first.lockid, LockState.ACQUIRED, "me", "p"),
        (second.lockid, LockState.WAITING, "me", "p"),
    ]
    caller.call("heartbeat", ids=HeartbeatRequest(lockid=first.lockid))
    caller.call("unlock", rqst=UnlockRequest(lockid=first.lockid))
    assert caller.call("check_lock", rqst=CheckLockRequest(lockid=second.lockid)).state == LockState.ACQUIRED
    assert caller.fault("heartbeat", ids=HeartbeatRequest(lockid=first.lockid)) is Fault.NO_SUCH_LOCK
    assert len(caller.call("show_locks", rqst=ShowLocksRequest()).locks) == 1


@pytest.mark.parametrize(("says_unsupported", "fault"), [(True, Fault.UNKNOWN_METHOD), (False, Fault.OTHER)])
def test_a_lock_api_that_is_broken_answers_no_lock_call_and_keeps_its_entries(
    says_unsupported: bool, fault: Fault
) -> None:
    caller = Caller(says_unsupported=says_unsupported)
    lock = caller.lock().lockid
    caller.metastore.lock_api_works = False
    assert caller.fault("check_lock", rqst=CheckLockRequest(lockid=lock)) is fault
    assert caller.fault("unlock", rqst=UnlockRequest(lockid=lock)) is fault
    assert caller.fault("heartbeat", ids=HeartbeatRequest(lockid=lock)) is fault
    assert caller.fault("show_locks", rqst=ShowLocksRequest()) is fault
    caller.metastore.lock_api_works = True
    assert caller.call("check_lock", rqst=CheckLockRequest(lockid=lock)).state == LockState.ACQUIRED
    assert Caller(has_locks=False).fault("show_locks", rqst=ShowLocksRequest()) is Fault.UNKNOWN_METHOD


def test_a_server_tells_its_lease_and_its_version() -> None:
    caller = Caller()
    assert caller.call("get_config_value", name="metastore.txn.timeout", defaultValue="") == "60s"
    assert caller.call("get_config_value", name="other", defaultValue="d") == "d"
    assert caller.call("getVersion") == "4.1.0"
