"""The coordinator inside the Spark driver: a catalog and its REST server on loopback, with a token of its own.

One server for each set of settings in a process; sessions on the same metastore share it. It ends when the last session
that uses it is stopped, and at the latest with the process.
"""

from __future__ import annotations

import atexit
import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from iceberg_hms.rest.access.tokens import new_token
from iceberg_hms.rest.settings import RestSettings, load

logger = logging.getLogger(__name__)


#: (settings, token) -> the uri of a server that listens, and what ends it; ending it twice is harmless.
Start = Callable[[Mapping[str, object], str], tuple[str, Callable[[], None]]]


@dataclass(slots=True)
class Embedded:
    """A server in this process. `uri` and `token` are what a client needs."""

    key: frozenset[tuple[str, object]] = field(repr=False)
    token: str = field(repr=False)
    uri: str
    stop: Callable[[], None]
    users: int = 0


class _Servers:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_key: dict[frozenset[tuple[str, object]], Embedded] = {}


class Embedding:
    """The servers of one process. start: starts a server; tests pass a function of their own."""

    def __init__(self, start: Start) -> None:
        self._start = start
        # By process: a forked child has none of the threads that serve.
        self._of_process = {os.getpid(): _Servers()}

    @property
    def _servers(self) -> _Servers:
        process = os.getpid()
        return self._of_process.get(process) or self._of_process.setdefault(process, _Servers())

    def acquire(self, settings: Mapping[str, object]) -> Embedded:
        """The server for these settings; starts one if there is none yet. The caller calls `release` once for each
        call.

        Raises what starting raises: ConfigError, MetastoreUnavailable, EngineError.
        """
        key = frozenset(settings.items())
        servers = self._servers
        with servers.lock:
            server = servers.by_key.get(key)
            if server is None:
                token = new_token()
                server = Embedded(key, token, *self._start(settings, token))
                servers.by_key[key] = server
                logger.info("embedded server listens at %s", server.uri)
            server.users += 1
            return server

    def release(self, server: Embedded) -> None:
        """Release one use; the last release ends the server. Leaves a parent's servers alone in a forked
        child. Never raises."""
        servers = self._servers
        with servers.lock:
            server.users -= 1
            if server.users > 0 or servers.by_key.get(server.key) is not server:
                return
            del servers.by_key[server.key]
        _stop(server)

    def release_all(self) -> None:
        """End every server of this process, even those in use."""
        servers = self._servers
        with servers.lock:
            running = list(servers.by_key.values())
            servers.by_key.clear()
        for server in running:
            _stop(server)


def _stop(server: Embedded) -> None:
    try:
        server.stop()
    except Exception:
        logger.exception("the embedded server at %s did not stop cleanly", server.uri)


def without_tls(settings: RestSettings) -> RestSettings:
    """The settings of a server that its own process alone calls, on loopback: the certificate of `serve`, which the
    environment may name too, is not for 127.0.0.1."""
    return dataclasses.replace(settings, rest_ssl_certfile="", rest_ssl_keyfile="", rest_ssl_ca_certs="")


def start_server(settings: Mapping[str, object], token: str) -> tuple[str, Callable[[], None]]:
    """A catalog with these settings behind a REST server on a free port of 127.0.0.1.

    Raises MetastoreUnavailable at once when no metastore answers, rather than at the first query.
    """
    from iceberg_hms.assembly import assemble
    from iceberg_hms.rest.server import RestServer

    library, server_settings = load(settings)
    catalog = assemble(library)
    try:
        catalog.list_namespaces()
        # Its clients are this process's own Spark sessions, which have the process's rights.
        server = RestServer(
            catalog, "127.0.0.1", 0, token=token, settings=without_tls(server_settings), free_locations=True
        )
        uri = server.start()
    except BaseException:
        catalog.close()
        raise

    def stop() -> None:
        server.stop()
        catalog.close()

    return uri, stop


#: The servers of this process.
EMBEDDING: Final = Embedding(start_server)
atexit.register(EMBEDDING.release_all)
