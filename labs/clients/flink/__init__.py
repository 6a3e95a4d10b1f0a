"""Flink with Iceberg's runtime, in a JVM of its own: SQL on an embedded cluster, batch and streaming.

Places in its source are of apache/iceberg 1.11.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from labs.clients.engines import Client
from labs.clients.flink import batch, streams
from labs.clients.flink.session import FLINK, ICEBERG, Flink, running
from labs.clients.lab import Lab, Place
from labs.clients.results import Verdict


@contextmanager
def start(lab: Lab) -> Iterator[Sequence[Client]]:
    with running(lab) as flink:
        checks = {**batch.CHECKS, **streams.CHECKS}
        yield [
            Client("Flink", f"{FLINK}, Iceberg {ICEBERG}", {name: _of(flink, each) for name, each in checks.items()})
        ]


def _of(flink: Flink, check: Callable[[Flink, Place], Verdict | None]) -> Callable[[Place], Verdict | None]:
    return partial(check, flink)
