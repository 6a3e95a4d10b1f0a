"""Loads wait for a metastore that is away, as commits do.

PyIceberg's programs load a table before they commit to it, and end with the first error that is no conflict."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from iceberg_hms.clock import away_waits
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.errors import MetastoreUnavailable

logger = logging.getLogger(__name__)

Loaded = TypeVar("Loaded")

#: How long a load waits: as long as one over REST does by default, and less than a commit, since the metastore may also
#: be one that was never there.
LOAD_WAIT_SECONDS: Final = 30.0


def held_while_away(load: Callable[[], Loaded], runtime: Runtime) -> Loaded:
    """What `load` returns, which is called again while it raises MetastoreUnavailable, for LOAD_WAIT_SECONDS. Raises
    what it raises."""
    deadline, waits, is_reported = runtime.now() + LOAD_WAIT_SECONDS, away_waits(), False
    while True:
        try:
            return load()
        except MetastoreUnavailable as error:
            pause = next(waits) * (1 - runtime.jitter() / 2)
            if runtime.now() + pause >= deadline:
                raise
            if not is_reported:
                is_reported = True
                logger.warning("The metastore is away, so a load waits for up to %g s: %s", LOAD_WAIT_SECONDS, error)
        runtime.sleep(pause)
