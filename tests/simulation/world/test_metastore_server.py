from __future__ import annotations

from typing import Any

import pytest
from thrift.Thrift import TException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.compare_and_swap.row_write import ALTER, alter_arguments
from iceberg_hms.metastore.connection.faults import Fault, classify
from iceberg_hms.metastore.connection.thrift_types import (
    CheckLockRequest,
    HeartbeatRequest,
    LockComponent,
    LockRequest,
    LockState,
    ShowLocksRequest,
    UnlockRequest,
)
from simulation.engine.scheduler import Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom
from simulation.world.metastore import METADATA_LOCATION, Metastore, iceberg_row
from simulation.world.metastore_handler import SwapSupport
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


def test_locks_are_asked_for_checked_shown_renewed_and_given_back() -> None:
    caller = Caller()
    first, second = caller.lock(), caller.lock()
    assert (first.state, second.state) == (LockState.ACQUIRED, LockState.WAITING)
    shown = caller.call("show_locks", rqst=ShowLocksRequest(dbname="db", tablename="t")).locks
    assert caller.metastore.saw_queue == {first.lockid, second.lockid}
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
