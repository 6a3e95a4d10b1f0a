from __future__ import annotations

from iceberg_hms.metastore.connection.cas_support import SwapProtection
from iceberg_hms.metastore.locks.holder_identity import AGENT_INFO_MAX, parse
from simulation.engine.scheduler import Process
from simulation.world.machines import Machines


def test_what_a_process_says_of_itself_is_what_the_drivers_read_and_never_the_same_twice() -> None:
    identity = Machines().begin(Process("p"), 1)
    request = "0" * 36
    said = [identity.agent_info(request, each) for each in SwapProtection]
    assert [holder.protection for holder in map(parse, said) if holder is not None] == list(SwapProtection)
    assert len(set(said)) == len(said)
    assert all(len(each) <= AGENT_INFO_MAX for each in said)


def test_who_is_on_the_same_machine_sees_that_a_process_has_ended_and_nobody_else_does() -> None:
    machines, dead = Machines(), Process("dead")
    holder = parse(machines.begin(dead, 0).agent_info("r", SwapProtection.CAS))
    same, other = machines.begin(Process("same"), 0), machines.begin(Process("other"), 1)
    assert holder is not None
    assert not same.has_ended(holder)
    dead.alive = False
    assert same.has_ended(holder)
    assert not other.has_ended(holder)
