from __future__ import annotations

from iceberg_hms.metastore.connection.cas_support import SwapProtection
from iceberg_hms.metastore.locks.holder_identity import AGENT_INFO_MAX, parse
from simulation.world.process_identity import ProcessIdentity


def test_what_a_process_says_of_itself_is_what_the_drivers_read_and_never_the_same_twice() -> None:
    identity = ProcessIdentity(1)
    request = "0" * 36
    said = [identity.agent_info(request, each) for each in SwapProtection]
    assert [holder.protection for holder in map(parse, said) if holder is not None] == list(SwapProtection)
    assert len(set(said)) == len(said)
    assert all(len(each) <= AGENT_INFO_MAX for each in said)
