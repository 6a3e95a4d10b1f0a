"""A PostgreSQL for a metastore of these tests: on loopback, in a folder of its own, gone with this process."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iceberg_hms.errors import EngineError
from integration.faults import LIMIT, until

#: Where Debian keeps the servers' programs, which it does not put on PATH.
_DEBIAN = "/usr/lib/postgresql"
_USER = "hive"


class PostgreSQL:
    """A running server. conf: the metastore's configuration for it."""

    def __init__(self, programs: Path, port: int) -> None:
        self.port = port
        self.conf = {
            "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://127.0.0.1:{port}/postgres",
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": _USER,
            "javax.jdo.option.ConnectionPassword": _USER,
        }
        where = ["-h", "127.0.0.1", "-p", str(port), "-U", _USER, "-d", "postgres"]
        self._psql = [str(programs / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *where]

    def run(self, *statements: str) -> str:
        """Each in a transaction of its own. Returns what they printed."""
        commands = [part for statement in statements for part in ("-c", statement)]
        done = subprocess.run([*self._psql, *commands], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def set(self, name: str, value: str) -> None:
        """Change a setting for all sessions, from each one's next transaction on."""
        self.run(f"alter system set {name} = '{value}'", "select pg_reload_conf()")
        until(lambda: self.run(f"show {name}") == value, f"{name} is {value!r}")

    @contextmanager
    def transaction(self, *statements: str) -> Iterator[None]:
        """Another client's transaction, which has carried out these and stays open until the block ends."""
        session = subprocess.Popen(self._psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with session:
            assert session.stdin is not None
            assert session.stdout is not None
            try:
                session.stdin.write("".join(f"{line};\n" for line in ("begin", *statements)) + "\\echo ready\n")
                session.stdin.flush()
                assert "ready\n" in session.stdout, "a statement failed"
                yield
            finally:
                session.stdin.close()


@contextmanager
def postgresql(**options: str) -> Iterator[PostgreSQL]:
    """Run an empty one. options: settings of the server. Raises EngineError if it is not installed."""
    programs = _programs()
    # PostgreSQL refuses to run as root, and another user cannot enter pytest's folders.
    owner = pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    with tempfile.TemporaryDirectory(prefix="postgresql ", ignore_cleanup_errors=True) as folder:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        data = Path(folder) / "data"
        _run(owner, [programs / "initdb", "-D", data, "-A", "trust", "-U", _USER, "--no-sync"])
        port = _free_port()
        settings = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            **options,
        }
        command = [programs / "postgres", "-D", data, *(f"--{name}={value}" for name, value in settings.items())]
        # INT: it hangs up on all and ends, also when this process is killed.
        server = subprocess.Popen(
            ["setpriv", "--pdeathsig", "INT", *map(str, command)],
            stderr=subprocess.DEVNULL,
            cwd=folder,
            user=owner.pw_uid,
            group=owner.pw_gid,
            extra_groups=[],
        )
        try:
            ready = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
            until(lambda: subprocess.run(ready).returncode == 0, "PostgreSQL answers")
            yield PostgreSQL(programs, port)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(LIMIT)


def _programs() -> Path:
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    for folder in sorted(Path(_DEBIAN).glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    raise EngineError("PostgreSQL is not installed", next_step="install it (Debian: apt install postgresql)")


def _run(owner: pwd.struct_passwd, command: list[str | Path]) -> None:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        cwd="/",
        user=owner.pw_uid,
        group=owner.pw_gid,
        extra_groups=[],
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
