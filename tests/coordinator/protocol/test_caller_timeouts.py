from __future__ import annotations

import threading

from iceberg_hms.coordinator.protocol.caller_timeouts import overdue, when_overdue


def test_who_waits_is_told_by_whoever_waits_for_the_answer() -> None:
    told: list[str] = []
    overdue()
    with when_overdue(lambda: told.append("outer")):
        with when_overdue(lambda: told.append("inner")):
            overdue()
        overdue()
    overdue()
    assert told == ["inner", "outer"]


def test_a_heartbeat_on_its_own_thread_tells_nobody() -> None:
    told: list[str] = []
    with when_overdue(lambda: told.append("told")):
        thread = threading.Thread(target=overdue)
        thread.start()
        thread.join()
    assert told == []
