from __future__ import annotations

import threading

from iceberg_hms.coordinator.sending.caller_timeouts import notify_caller_timeout, on_caller_timeout


def test_a_timeout_is_reported_to_the_innermost_sender() -> None:
    notified: list[str] = []
    notify_caller_timeout()
    with on_caller_timeout(lambda: notified.append("outer")):
        with on_caller_timeout(lambda: notified.append("inner")):
            notify_caller_timeout()
        notify_caller_timeout()
    notify_caller_timeout()
    assert notified == ["inner", "outer"]


def test_a_timeout_on_another_thread_is_reported_to_no_sender() -> None:
    notified: list[str] = []
    with on_caller_timeout(lambda: notified.append("notified")):
        thread = threading.Thread(target=notify_caller_timeout)
        thread.start()
        thread.join()
    assert notified == []
