"""Health checks for load balancers and process supervisors, and the metrics.

/health/live: this process answers. /health/ready: the metastore answers too, and the server is not about to stop.
/metrics: the counters and gauges.

A server of several warehouses is ready while the metastore of one answers: a balancer that takes it away for one
warehouse takes it from all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from iceberg_hms.rest.counters import CONTENT_TYPE
from iceberg_hms.rest.dispatch import ServerContext, UnreadRequest
from iceberg_hms.rest.errors import error_response
from iceberg_hms.rest.gauges import Gauges
from iceberg_hms.rest.responses import json_response

logger = logging.getLogger(__name__)

LIVE_PATH: Final = "/health/live"
READY_PATH: Final = "/health/ready"
METRICS_PATH: Final = "/metrics"

#: How long a health check waits for the metastore. Load balancers usually time out after some seconds too.
READY_SECONDS: Final = 5.0
#: A server that nobody has asked for so long whether it is ready has no balancer that would notice.
WATCHED_SECONDS: Final = 60.0
_METHODS: Final = ("GET", "HEAD")
#: Any namespace will do: the check asks whether the metastore answers, not what.
PROBE_NAMESPACE: Final = "default"


class Health:
    """Answers the health and metrics paths."""

    def __init__(self, contexts: Sequence[ServerContext], *, ready_seconds: float = READY_SECONDS) -> None:
        """contexts: of all warehouses, the default one first."""
        self._context = contexts[0]
        self._gauges = Gauges(contexts)
        self._ready_seconds = ready_seconds
        self._metastores = [_Metastore(each) for each in contexts]
        self._asked: float | None = None
        #: Set by another thread when the server is about to stop: it is not ready any more.
        self.draining = False

    @property
    def is_watched(self) -> bool:
        """Whether anybody has asked lately whether the server is ready."""
        return self._asked is not None and self._context.clock.monotonic() - self._asked < WATCHED_SECONDS

    async def answer(self, incoming: UnreadRequest) -> Response:
        """The response for one of the paths above."""
        path = incoming.scope["path"]
        if incoming.scope["method"] not in _METHODS:
            return error_response(
                HTTPException(405, "This path is read-only", {"Allow": ", ".join(_METHODS)}), incoming.entry.request_id
            )
        if path == METRICS_PATH:
            text = self._context.counters.render() + self._gauges.render()
            return Response(text, headers={"Content-Type": CONTENT_TYPE})
        if path == LIVE_PATH:
            return json_response({"status": "live"})
        self._asked = self._context.clock.monotonic()
        if self.draining:
            return json_response({"status": "not ready", "reason": "the server is about to stop"}, status=503)
        if await self._a_metastore_answers():
            return json_response({"status": "ready"})
        return json_response({"status": "not ready", "reason": "the metastore does not answer"}, status=503)

    async def _a_metastore_answers(self) -> bool:
        pending = {metastore.asked() for metastore in self._metastores}
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._ready_seconds
        while pending and (left := deadline - loop.time()) > 0:
            done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if any(probe.exception() is None and probe.result() for probe in done):
                return True
        return False


class _Metastore:
    """The metastore of one warehouse."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._probe: asyncio.Task[bool] | None = None

    def asked(self) -> asyncio.Task[bool]:
        """The probe that is under way, or a new one: probes must not pile up on a metastore that hangs, or occupy all
        read threads."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._context.read_threads.run(self._ask))
        return self._probe

    def _ask(self) -> bool:
        try:
            self._context.catalog.namespace_exists(PROBE_NAMESPACE)
        except Exception as error:  # noqa: BLE001 - any failure means "not ready"
            logger.warning("the metastore of warehouse %s is not ready: %s", self._context.warehouse, error)
            return False
        return True
