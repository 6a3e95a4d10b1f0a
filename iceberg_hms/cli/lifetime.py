"""How a server command ends: by SIGINT, SIGTERM, or the end of its standard input, always through its `with` blocks;
and how one is restarted in place, by SIGUSR2.

Its listening socket outlives it: one process hands it over to the next. Connections that come while no process accepts
them wait in the kernel, so no client is refused. The hand-over is that of systemd's socket units (sd_listen_fds(3)):
the socket is file descriptor 3, the environment variable LISTEN_FDS says how many there are, and LISTEN_PID whose they
are.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from types import FrameType
from typing import Any, Final, NoReturn, Self

from iceberg_hms.errors import ConfigError, EngineError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_RESTART = signal.SIGUSR2
_CHUNK = 64 * 1024
_STDIN_ENDED = b"\0"
_FIRST_SOCKET: Final = 3
_PROCESS: Final = "LISTEN_PID"
_COUNT: Final = "LISTEN_FDS"
_NAMES: Final = "LISTEN_FDNAMES"


class Lifetime:
    """Makes SIGINT and SIGTERM end a command in order. Enter it before anything is started, in the main thread.

        with Lifetime(exit_with_stdin) as lifetime, LocalMetastore(...) as metastore:
            lifetime.ready()
            announce(...)
            lifetime.wait()

    A signal before `ready` is a KeyboardInterrupt; one after it makes `wait` return. Further signals are ignored, so
    that they cannot break the clean-up; or the second one ends the process at once, as `ready` says.

    exit_with_stdin: also end when standard input is closed. A parent that holds the other end of the pipe takes the
        server with it however the parent dies, `kill -9` included.

    restarts: whether a restart in place is to follow the end: SIGUSR2 ended `wait`, and nothing since asked for an end.
    Known after `__exit__`.
    """

    def __init__(self, exit_with_stdin: bool) -> None:
        self._exit_with_stdin = exit_with_stdin
        self._starting = True
        self._second_ends = False
        self.restarts = False
        self._before: list[Any] = []
        # Python's handlers run in the main thread only, and a signal does not wake that if it arrives just before a
        # wait, or in another thread. So the interpreter writes each signal's number to a socket at once.
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._ends = self._receive()
        self._watcher: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._before = [signal.signal(number, self._interrupt) for number in _SIGNALS]
        if self._exit_with_stdin:
            threading.Thread(target=self._watch_stdin, name="stdin", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in zip((*_SIGNALS, _RESTART), self._before, strict=False):
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._writer.close()
        if self._watcher is not None:
            self._watcher.join()
        self._reader.close()

    def ready(self, *, second_signal_ends: bool = False, can_restart: bool = False) -> None:
        """The command has started everything: from now on a signal ends `wait`, and interrupts nothing.

        second_signal_ends: the next one ends the process at once, with the exit code 128 and its number, as a shell
        reports a process that a signal killed. can_restart: SIGUSR2 ends `wait` too."""
        self._starting = False
        self._second_ends = second_signal_ends
        if can_restart:
            self._before.append(signal.signal(_RESTART, self._interrupt))

    def wait(self) -> signal.Signals | None:
        """Block until a signal comes, and return it, or standard input ends. Called once."""
        first = next(self._ends, None)
        self.restarts = first is _RESTART
        if self._second_ends:
            signals = 1 if first in _SIGNALS else 0
            self._watcher = threading.Thread(target=self._watch_signals, args=(signals,), name="signals", daemon=True)
            self._watcher.start()
        return first

    def end_within(self, seconds: float) -> None:
        """End the process after so many seconds with exit code 0, even if threads still run then."""

        def end() -> None:
            threading.Event().wait(seconds)
            os._exit(0)

        threading.Thread(target=end, name="end", daemon=True).start()

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._starting:
            self._starting = False
            raise KeyboardInterrupt

    def _receive(self) -> Iterator[signal.Signals | None]:
        """Each signal, and None for the end of standard input, until `__exit__`."""
        while received := self._reader.recv(1):
            if received == _STDIN_ENDED:
                yield None
            elif received[0] in (*_SIGNALS, _RESTART):
                yield signal.Signals(received[0])

    def _watch_signals(self, signals: int) -> None:
        for number in self._ends:
            if number is _RESTART:
                continue
            self.restarts = False
            signals += number is not None
            if number is not None and signals > 1:
                os._exit(128 + number)

    def _watch_stdin(self) -> None:
        # os.read and not sys.stdin: a thread that waits inside a buffered reader breaks the interpreter's own end.
        try:
            stdin = sys.stdin.fileno()
            while os.read(stdin, _CHUNK):
                pass
        except (OSError, ValueError, AttributeError):
            pass  # Standard input is closed or missing, which counts as its end.
        with contextlib.suppress(OSError):  # The command has ended.
            self._writer.send(_STDIN_ENDED)


def restart_in_place(listener: socket.socket) -> NoReturn:
    """Replace this process by the same command, started again, which takes the listening socket over: its process id
    stays. Called when everything else is stopped. Raises EngineError if the program is gone."""
    # Until the new program has its handler, a further one would end it.
    signal.signal(_RESTART, signal.SIG_IGN)
    try:
        environ = handed_over(listener, os.environ)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise EngineError(f"cannot start {sys.executable} again: {error}", next_step="start the server") from error


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
    os.set_inheritable(_FIRST_SOCKET, False)
    listener = socket.socket(fileno=_FIRST_SOCKET)
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
    os.dup2(listener.fileno(), _FIRST_SOCKET)
    os.set_inheritable(_FIRST_SOCKET, True)
    return {**environ, _PROCESS: str(os.getpid()), _COUNT: "1"}


def _listens(listener: socket.socket) -> bool:
    return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
