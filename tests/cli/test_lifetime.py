"""How server commands end. Signals and pipes are real, so these run in a process of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from iceberg_hms.cli.lifetime import Lifetime, inherited

PROGRAM = """
import os, sys
from iceberg_hms.cli.lifetime import Lifetime

{before}
try:
    with Lifetime({exit_with_stdin}) as lifetime:
        try:
            {start}
            lifetime.ready({ready})
            print("waiting", flush=True)
            {listening}
            by = lifetime.wait()
            print("over", *([by.name] if {tell} and by else []), flush=True)
        finally:
            {end}
            print("cleaned", flush=True)
    {after}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
WAIT = 10


@contextmanager
def program(
    *,
    exit_with_stdin: bool = False,
    before: str = "pass",
    start: str = "pass",
    listening: str = "pass",
    end: str = "pass",
    after: str = "pass",
    ready: str = "",
    tell: bool = False,
) -> Iterator[subprocess.Popen[str]]:
    """The process, which is killed if the test did not end it."""
    hooks = {"before": before, "start": start, "listening": listening, "end": end, "after": after}
    text = PROGRAM.format(exit_with_stdin=exit_with_stdin, ready=ready, tell=tell, **hooks)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", text], stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_and_cleans_up(number: signal.Signals) -> None:
    with program() as process:
        assert first_line(process) == "waiting"
        process.send_signal(number)
        assert process.communicate(timeout=WAIT)[0].split() == ["over", "cleaned"]
        assert process.returncode == 0


def test_a_signal_before_the_wait_stops_the_start_and_cleans_up() -> None:
    with program(start="os.kill(os.getpid(), 15); print('not reached')") as process:
        assert process.communicate(timeout=WAIT)[0].split() == ["cleaned", "interrupted"]
        assert process.returncode == 0


def test_a_signal_between_the_announcement_and_the_wait_is_not_lost() -> None:
    with program(listening="os.kill(os.getpid(), 15); os.kill(os.getpid(), 2)") as process:
        assert process.communicate(timeout=WAIT)[0].split() == ["waiting", "over", "cleaned"]
        assert process.returncode == 0


def test_further_signals_do_not_break_the_clean_up() -> None:
    with program(end="os.kill(os.getpid(), 15); os.kill(os.getpid(), 2)") as process:
        assert first_line(process) == "waiting"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=WAIT)[0].split() == ["over", "cleaned"]
        assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_wait_tells_which_signal_ended_it(number: signal.Signals) -> None:
    with program(tell=True) as process:
        assert first_line(process) == "waiting"
        process.send_signal(number)
        assert process.communicate(timeout=WAIT)[0].split() == ["over", number.name, "cleaned"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_command_at_once_that_says_so(number: signal.Signals) -> None:
    with program(ready="second_signal_ends=True", end="print('cleaning', flush=True); import time; time.sleep(60)") as (
        process
    ):
        assert first_line(process) == "waiting"
        process.send_signal(signal.SIGTERM)
        assert [first_line(process), first_line(process)] == ["over", "cleaning"]
        process.send_signal(number)
        assert process.wait(timeout=WAIT) == 128 + number


RESTARTS = "can_restart=True, second_signal_ends=True"
TELL = "print(lifetime.restarts, flush=True)"


def test_sigusr2_ends_the_wait_for_a_restart() -> None:
    with program(ready=RESTARTS, tell=True, after=TELL) as process:
        assert first_line(process) == "waiting"
        process.send_signal(signal.SIGUSR2)
        assert process.communicate(timeout=WAIT)[0].split() == ["over", "SIGUSR2", "cleaned", "True"]
        assert process.returncode == 0


@pytest.mark.parametrize(("then", "restarts"), [(signal.SIGUSR2, "True"), (signal.SIGTERM, "False")])
def test_a_signal_to_end_takes_back_a_restart(then: signal.Signals, restarts: str) -> None:
    with program(ready=RESTARTS, end=f"os.kill(os.getpid(), {then.value})", after=TELL) as process:
        assert first_line(process) == "waiting"
        process.send_signal(signal.SIGUSR2)
        assert process.communicate(timeout=WAIT)[0].split() == ["over", "cleaned", restarts]
        assert process.returncode == 0


def test_a_restart_is_taken_back_once_and_then_ended_at_once() -> None:
    end = "print('cleaning', flush=True); import time; time.sleep(60)"
    with program(ready=RESTARTS, end=end) as process:
        assert first_line(process) == "waiting"
        for number in (signal.SIGUSR2, signal.SIGTERM):
            process.send_signal(number)
        assert [first_line(process), first_line(process)] == ["over", "cleaning"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=WAIT) == 128 + signal.SIGTERM


def test_a_server_is_not_started_again_without_its_program() -> None:
    text = """
import socket, sys
from iceberg_hms.cli.lifetime import restart_in_place
from iceberg_hms.errors import EngineError

sys.executable = "/nowhere/python"
try:
    restart_in_place(socket.create_server(("127.0.0.1", 0)))
except EngineError as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("cannot start /nowhere/python again: ")


def test_a_thread_that_never_ends_does_not_keep_a_command_that_ends_in_time() -> None:
    with program(
        before="import threading; threading.Thread(target=threading.Event().wait).start()",
        end="lifetime.end_within(0.1)",
    ) as process:
        assert first_line(process) == "waiting"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=WAIT)[0].split() == ["over", "cleaned"]
        assert process.returncode == 0


def test_the_end_of_stdin_ends_the_wait() -> None:
    with program(exit_with_stdin=True) as process:
        assert first_line(process) == "waiting"
        assert process.stdin is not None
        process.stdin.write("what is sent is ignored")
        process.stdin.flush()
        assert process.poll() is None
        assert process.communicate(timeout=WAIT)[0].split() == ["over", "cleaned"]
        assert process.returncode == 0


def test_without_the_option_the_end_of_stdin_means_nothing() -> None:
    with program() as process:
        assert first_line(process) == "waiting"
        assert process.stdin is not None
        process.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.3)
        process.terminate()
        assert process.wait(timeout=WAIT) == 0


def test_a_process_without_stdin_ends_at_once_when_it_is_to_end_with_it() -> None:
    # Standard input is closed before the program reads it: a read under way does not see another thread's close.
    with program(exit_with_stdin=True, before="sys.stdin.close()") as process:
        assert first_line(process) == "waiting"
        assert process.wait(timeout=WAIT) == 0


def test_a_signal_that_another_thread_receives_ends_the_wait() -> None:
    """The kernel gives a signal to any thread of a process, and only the main one runs Python's handlers."""
    other = (
        "import signal, threading; threading.Timer(0.3, lambda: signal.pthread_kill(threading.get_ident(), 15)).start()"
    )
    with program(listening=other) as process:
        assert process.communicate(timeout=WAIT)[0].split() == ["waiting", "over", "cleaned"]
        assert process.returncode == 0


def test_the_end_of_stdin_is_no_signal() -> None:
    """
    standard input ends, then a signal comes: the clean-up goes on
    a second signal ends the process
    """
    with program(
        exit_with_stdin=True,
        ready="second_signal_ends=True",
        end="print('cleaning', flush=True); os.kill(os.getpid(), 15); print('goes on', flush=True); "
        "import time; time.sleep(60)",
    ) as process:
        assert first_line(process) == "waiting"
        assert process.stdin is not None
        process.stdin.close()
        assert [first_line(process) for _ in range(3)] == ["over", "cleaning", "goes on"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=WAIT) == 128 + signal.SIGTERM


def test_the_handlers_of_before_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Lifetime(exit_with_stdin=False):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


ASK = """
import os, socket
from iceberg_hms.errors import ConfigError
from iceberg_hms.cli.lifetime import inherited

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
from iceberg_hms.cli.lifetime import handed_over, inherited

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
