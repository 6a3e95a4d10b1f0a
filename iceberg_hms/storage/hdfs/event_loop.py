"""One event loop in a thread of its own, in which all calls to hdfs-native run.

hdfs-native waits for a name node without any limit. A blocking call could not be given up; a coroutine is cancelled
when its time is up.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from iceberg_hms.errors import StorageRefused

Result = TypeVar("Result")

_mutex = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_is_forked = False


def _note_fork() -> None:
    # The library's threads are gone in the child, and its sockets and their poller are shared with the parent.
    global _is_forked, _mutex
    _is_forked = _loop is not None
    _mutex = threading.Lock()


os.register_at_fork(after_in_child=_note_fork)


def run(coroutine: Coroutine[Any, Any, Result], seconds: float) -> Result:
    """What a coroutine returns. Raises TimeoutError if it takes longer than so many seconds, and is cancelled then;
    StorageRefused in a process whose parent had used HDFS before it forked; RuntimeError for a panic; and what the
    coroutine raises."""
    if _is_forked:
        coroutine.close()
        raise StorageRefused(
            "This process was forked by one that had used HDFS, whose client does not survive that",
            next_step="start processes by `spawn`, or fork before HDFS is first used",
        )
    return asyncio.run_coroutine_threadsafe(_within(coroutine, seconds), _started()).result()


async def _within(coroutine: Coroutine[Any, Any, Result], seconds: float) -> Result:
    try:
        async with asyncio.timeout(seconds):
            return await coroutine
    except BaseException as error:
        # No Exception, and in no module: callers would not see to it that it is one file's failure.
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"hdfs-native panicked: {error}") from None


def _started() -> asyncio.AbstractEventLoop:
    global _loop
    with _mutex:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="hdfs", daemon=True).start()
        return _loop
