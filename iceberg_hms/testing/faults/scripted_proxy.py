"""What the proxies share that do to calls what a script says."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from iceberg_hms.errors import InvalidInput
from iceberg_hms.testing.faults.script import ProxiedCall, ScriptedFault
from iceberg_hms.testing.faults.tcp import TcpProxy

Fault = TypeVar("Fault", bound=ScriptedFault)


class ScriptedProxy(TcpProxy, Generic[Fault]):
    """Listens on 127.0.0.1, on a free port, until `close`.

    target: `scheme://host:port` of the true server. Raises InvalidInput for any other.
    """

    def __init__(self, target: str, scheme: str) -> None:
        parts = urlsplit(target)
        if parts.scheme != scheme or not parts.hostname or not parts.port:
            raise InvalidInput(f"{target!r} is not {scheme}://host:port")
        self._target = (parts.hostname, parts.port)
        self._changed = threading.Condition()
        self._script: list[Fault] = []
        super().__init__()

    def clear(self) -> None:
        """Forget the script, and release held calls."""
        with self._changed:
            script, self._script = self._script, []
        for fault in script:
            fault.release()

    def close(self) -> None:
        """End all connections and threads, and drop held calls. Calling it twice is harmless."""
        self._closed.set()
        with self._changed:
            script = list(self._script)
        for fault in script:
            fault.drop()
        super().close()

    def pause(self, seconds: float) -> None:
        """Wait, at most until the proxy closes. For the connections of this proxy."""
        self._closed.wait(seconds)

    def _add(self, fault: Fault) -> Fault:
        """Add a line to the script."""
        with self._changed:
            self._script.append(fault)
        return fault

    def _hitting(self, call: ProxiedCall, request: bytes) -> Fault | None:
        """The first line of the script that hits a call; the others count it too. The caller holds `_changed`."""
        hitting = [fault for fault in self._script if fault.hits(call, request)]
        return hitting[0] if hitting else None
