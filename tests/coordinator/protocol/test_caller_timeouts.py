from __future__ import annotations

import threading

from iceberg_hms.coordinator.protocol.caller_timeouts import notify_caller_timeout, on_caller_timeout


def test_who_waits_is_told_by_whoever_waits_for_the_answer() -> None:
    told: list[str] = []
    notify_caller_timeout()
    with on_caller_timeout(lambda: told.append("outer")):
        with on_caller_timeout(lambda: told.append("inner")):
            notify_caller_timeout()
        notify_caller_timeout()
    notify_caller_timeout()
    assert told == ["inner", "outer"]


def test_a_heartbeat_on_its_own_thread_tells_nobody() -> None:
    told: list[str] = []
    with on_caller_timeout(lambda: told.append("told")):
        thread = threading.Thread(target=notify_caller_timeout)
        thread.start()
        thread.join()
    assert told == []
