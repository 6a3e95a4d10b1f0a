"""Sockets that are handed over. The descriptor is 3 and the process matters, so each test has a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from iceberg_hms.rest.listener import inherited

ASK = """
import os, socket
from iceberg_hms.errors import ConfigError
from iceberg_hms.rest.listener import inherited

{before}
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = "{count}"
os.dup2(listener.detach(), 3)
try:
    found = inherited(os.environ)
except ConfigError as error:
    print(error.message)
else:
    print(found.getsockname()[1] == port, os.get_inheritable(3), [name for name in os.environ if "LISTEN" in name])
"""
TCP = "listener = socket.create_server(('127.0.0.1', 0)); port = listener.getsockname()[1]"
DEAF = "listener = socket.socket(); listener.bind(('127.0.0.1', 0)); port = listener.getsockname()[1]"
UNIX = "listener = socket.socket(socket.AF_UNIX); listener.bind('\\0a-name'); listener.listen()"

AGAIN = """
import os, socket, sys
from iceberg_hms.rest.listener import handed_over, inherited

listener = inherited(os.environ)
if listener is None:
    listener = socket.create_server(("127.0.0.1", 0))
    environ = handed_over(listener, os.environ)
    print(listener.getsockname()[1], os.getpid(), flush=True)
    os.execve(sys.executable, sys.orig_argv, environ)
listener.setblocking(True)
accepted, _ = listener.accept()
print(listener.getsockname()[1], os.getpid(), accepted.recv(9).decode(), flush=True)
"""


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_one_socket_that_listens_is_taken_over() -> None:
    assert run(ASK.format(before=TCP, count=1)) == "True False []"


@pytest.mark.parametrize(
    ("before", "count", "said"),
    [(TCP, 2, "LISTEN_FDS is '2'"), (DEAF, 1, "does not listen on TCP"), (UNIX, 1, "does not listen on TCP")],
)
def test_other_sockets_are_refused(before: str, count: int, said: str) -> None:
    assert said in run(ASK.format(before=before, count=count))


@pytest.mark.parametrize("process", [None, "", "1", str(os.getppid())])
def test_what_is_another_processs_is_left_alone(process: str | None) -> None:
    environ = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "a", "OTHER": "b"}
    if process is not None:
        environ["LISTEN_PID"] = process
    assert inherited(environ) is None
    assert environ == {"OTHER": "b"}


def test_a_socket_goes_to_the_program_that_replaces_its_process() -> None:
    """A connection that comes when nobody accepts is the next program's."""
    with subprocess.Popen([sys.executable, "-c", AGAIN], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port, pid = process.stdout.readline().split()
            with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as connection:
                connection.sendall(b"a request")
                assert process.stdout.readline().split() == [port, pid, "a", "request"]
        finally:
            process.kill()
