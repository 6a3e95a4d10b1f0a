"""What the local servers share: one JVM, started and ended in order."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import ClassVar, Self

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import EngineError
from iceberg_hms.local.gateway import JavaGateway, describe_java_error, prepare_directory

logger = logging.getLogger(__name__)


class LocalServer:
    """A server in a JVM of its own, on loopback, in one folder. It lives as long as this object, and at most as long as
    this process. A subclass says how its JVM is launched, how it serves and how it stops serving."""

    #: For people, and for the name of the log file.
    name: ClassVar[str]
    log_name: ClassVar[str]

    def __init__(self, directory: str | os.PathLike[str], port: int) -> None:
        self._directory = prepare_directory(directory)
        self._requested_port = port
        self._gateway: JavaGateway | None = None
        #: The port it listens on, once started.
        self.port = port

    @property
    def address(self) -> str:
        """What its clients are configured with."""
        raise NotImplementedError

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._gateway.pid if self._gateway is not None else None

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self._directory / f"{self.log_name}.log"

    def start(self) -> Self:
        """Start it, and return when it answers. Starting a started one does nothing."""
        if self._gateway is not None:
            return self
        started = SYSTEM_CLOCK.monotonic()
        self._gateway = self._launch()
        try:
            self.port = self._serve(self._gateway)
        except BaseException as error:
            # Describe the error first: its Java part ends with the JVM.
            message = describe_java_error(error)
            self.stop()
            if not isinstance(error, Exception):
                raise
            raise EngineError(
                f"{self.name} did not start: {message}",
                next_step=f"is another server using port {self._requested_port} or {self._directory}? Read {self.log}",
            ) from None
        logger.info("%s listens at %s after %.1f s", self.name, self.address, SYSTEM_CLOCK.monotonic() - started)
        return self

    def stop(self) -> None:
        """End the server and its JVM. Never raises; stopping a stopped one does nothing."""
        gateway, self._gateway = self._gateway, None
        if gateway is None:
            return
        if gateway.is_alive():
            try:
                self._stop_serving()
            except Exception:
                # py4j raises many things here, and the JVM ends below in any case.
                logger.debug("%s did not stop in order", self.name, exc_info=True)
        gateway.stop()

    def _launch(self) -> JavaGateway:
        raise NotImplementedError

    def _serve(self, gateway: JavaGateway) -> int:
        """Begin to listen at the requested port; returns the port."""
        raise NotImplementedError

    def _stop_serving(self) -> None:
        """Undo `_serve`, as far as it got. May raise."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
