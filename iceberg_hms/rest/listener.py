"""The listening socket of a server that outlives it: one process hands it over to the next.

Connections that come while no process accepts them wait in the kernel, so no client is refused. The hand-over is that
of systemd's socket units (sd_listen_fds(3)): the socket is file descriptor 3, the environment variable LISTEN_FDS says
how many there are, and LISTEN_PID whose they are.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, MutableMapping
from typing import Final

from iceberg_hms.errors import ConfigError

_FIRST: Final = 3
_PROCESS: Final = "LISTEN_PID"
_COUNT: Final = "LISTEN_FDS"
_NAMES: Final = "LISTEN_FDNAMES"


def inherited(environ: MutableMapping[str, str]) -> socket.socket | None:
    """The socket that was handed over to this process, None if none was. Takes the variables out of `environ`, so that
    no child takes them for its own. Raises ConfigError for several sockets, and for one that does not listen on TCP."""
    process, count, _ = (environ.pop(name, "") for name in (_PROCESS, _COUNT, _NAMES))
    if process != str(os.getpid()):
        return None
    if count != "1":
        raise ConfigError(
            f"{_COUNT} is {count!r}, and this server listens on one socket",
            next_step="leave one ListenStream in the socket unit",
        )
    os.set_inheritable(_FIRST, False)
    listener = socket.socket(fileno=_FIRST)
    if listener.family not in (socket.AF_INET, socket.AF_INET6) or not _listens(listener):
        raise ConfigError(
            "the socket that was handed over does not listen on TCP",
            next_step="write ListenStream=host:port into the socket unit",
        )
    listener.setblocking(False)
    return listener


def handed_over(listener: socket.socket, environ: Mapping[str, str]) -> dict[str, str]:
    """Make the socket the one that the program finds which replaces this process, and return that program's
    environment. Whatever was file descriptor 3 is closed."""
    os.dup2(listener.fileno(), _FIRST)
    os.set_inheritable(_FIRST, True)
    return {**environ, _PROCESS: str(os.getpid()), _COUNT: "1"}


def _listens(listener: socket.socket) -> bool:
    return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
