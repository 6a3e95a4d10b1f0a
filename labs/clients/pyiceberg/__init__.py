"""Stock PyIceberg over REST. Places in its source are of the version that this project installs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from labs.clients.engines import Client
from labs.clients.lab import Lab
from labs.clients.pyiceberg import access, rows, tables, views


@contextmanager
def start(_lab: Lab) -> Iterator[Sequence[Client]]:
    import pyiceberg

    yield [
        Client("PyIceberg", pyiceberg.__version__, {**tables.CHECKS, **rows.CHECKS, **views.CHECKS, **access.CHECKS})
    ]
