"""Is the server alive, and can it work: for load balancers, and for whoever starts it.

/health/live: this process answers. /health/ready: the metastore does, too.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from iceberg_hms.rest.answers import json_response
from iceberg_hms.rest.counters import CONTENT_TYPE
from iceberg_hms.rest.dispatch import Context, Incoming
from iceberg_hms.rest.errors import error_response

logger = logging.getLogger(__name__)

LIVE_PATH: Final = "/health/live"
READY_PATH: Final = "/health/ready"
METRICS_PATH: Final = "/metrics"

#: How long a health check waits for the metastore. Probes usually give up after some seconds themselves.
READY_SECONDS: Final = 5.0
_METHODS: Final = ("GET", "HEAD")
#: Any namespace does: whether it is there does not matter, that the metastore answers does.
PROBE_NAMESPACE: Final = "default"


class Health:
    """Answers the health and metrics paths."""

    def __init__(self, context: Context, *, ready_seconds: float = READY_SECONDS) -> None:
        self._context = context
        self._ready_seconds = ready_seconds
        self._probe: asyncio.Task[bool] | None = None

    async def answer(self, incoming: Incoming) -> Response:
        """The answer for one of the paths above."""
        path = incoming.scope["path"]
        if incoming.scope["method"] not in _METHODS:
            return error_response(HTTPException(405, "Only to be looked at", {"Allow": ", ".join(_METHODS)}))
        if path == METRICS_PATH:
            return Response(self._context.counters.render(), headers={"Content-Type": CONTENT_TYPE})
        if path == LIVE_PATH:
            return json_response({"status": "live"})
        if await self._metastore_answers():
            return json_response({"status": "ready"})
        return json_response({"status": "not ready", "reason": "the metastore does not answer"}, status=503)

    async def _metastore_answers(self) -> bool:
        # One probe at a time: checks must not pile up on a metastore that hangs, nor fill the pool of threads.
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._context.readers.run(self._ask))
        done, _ = await asyncio.wait([self._probe], timeout=self._ready_seconds)
        return bool(done) and self._probe.exception() is None and self._probe.result()

    def _ask(self) -> bool:
        try:
            self._context.catalog.namespace_exists(PROBE_NAMESPACE)
        except Exception as error:  # noqa: BLE001 - any failure means "not ready"
            logger.warning("not ready: %s", error)
            return False
        return True
