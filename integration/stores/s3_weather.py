"""Faults of a store, one after the other, as a seed draws them: what goes wrong is the seed's, and to which request it
happens is the machine's.

    with S3Weather(proxy, random.Random(seed)):
        ...
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from random import Random
from types import TracebackType
from typing import Self

from iceberg_hms.testing.faults.script import (
    CUT_AFTER_SEND,
    CUT_BEFORE_REPLY,
    CUT_BEFORE_SEND,
    FaultStep,
    Wait,
    delay,
)
from integration.faults import LIMIT
from integration.stores import s3_proxy
from integration.stores.s3_proxy import S3Proxy

#: Longer than clients wait for an answer: `s3.request-timeout` of those who sit in this weather.
HANG_SECONDS = 5.0
CLIENT_SECONDS = 3
#: Seconds in which nobody can connect.
OUTAGE = (0.2, 2.0)
#: How many requests pass between two faults.
BETWEEN = (3, 25)
#: How many requests in a row the store refuses.
IN_A_ROW = 3


class S3Weather:
    """Until the block ends. proxy: has no other script. counts: how often each fault was drawn."""

    def __init__(self, proxy: S3Proxy, random: Random) -> None:
        self.counts: Counter[str] = Counter()
        self._proxy = proxy
        self._random = random
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weather")
        #: By name: adds a line to the script, which begins with the nth request.
        self._faults: Mapping[str, Callable[[int], object]] = {
            "request lost": lambda nth: proxy.on("", CUT_BEFORE_SEND, nth=nth),
            "answer lost": lambda nth: proxy.on("", CUT_BEFORE_REPLY, nth=nth),
            "cut while it works": lambda nth: proxy.on("", CUT_AFTER_SEND, nth=nth),
            "answer truncated": lambda nth: proxy.truncate(nth=nth),
            "delayed": lambda nth: proxy.on("", delay(0.5), nth=nth),
            "hangs before": lambda nth: proxy.on("", delay(HANG_SECONDS), nth=nth),
            "hangs after": lambda nth: proxy.on("", (FaultStep.SEND, Wait(HANG_SECONDS), FaultStep.REPLY), nth=nth),
            "lost, and arrives late": lambda nth: proxy.on(
                "", (FaultStep.CUT, Wait(HANG_SECONDS), FaultStep.SEND), nth=nth
            ),
            "slow down": lambda nth: proxy.answer("", s3_proxy.SLOW_DOWN, nth=nth, times=IN_A_ROW),
            "internal error": lambda nth: proxy.answer("", s3_proxy.INTERNAL_ERROR, nth=nth),
            "error, and took effect": lambda nth: proxy.answer("PUT", s3_proxy.INTERNAL_ERROR, nth=1, took_effect=True),
            "unreachable": lambda _: None,
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(LIMIT)
        self._proxy.clear()
        self._proxy.accept()

    def _run(self) -> None:
        for name in self._drawn():
            nth = self._random.randint(*BETWEEN)
            seen = self._proxy.count()
            self._proxy.clear()
            self._faults[name](nth)
            while not self._proxy.wait_for("", seen + nth + IN_A_ROW, 0.2):
                if self._ended.is_set():
                    return
            self.counts[name] += 1
            if name == "unreachable":
                self._proxy.refuse()
                self._ended.wait(self._random.uniform(*OUTAGE))
                self._proxy.accept()

    def _drawn(self) -> Iterator[str]:
        """All faults in some order, and again in another one, without end."""
        while True:
            yield from self._random.sample(list(self._faults), len(self._faults))
