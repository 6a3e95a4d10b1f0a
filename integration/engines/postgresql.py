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


@contextmanager
def postgresql() -> Iterator[dict[str, str]]:
    """Run an empty one and give the metastore's configuration for it. Raises EngineError if it is not installed."""
    programs = _programs()
    # PostgreSQL refuses to run as root, and another user cannot enter pytest's folders.
    owner = pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    with tempfile.TemporaryDirectory(prefix="postgresql ", ignore_cleanup_errors=True) as folder:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        data = Path(folder) / "data"
        _run(owner, [programs / "initdb", "-D", data, "-A", "trust", "-U", _USER, "--no-sync"])
        port = _free_port()
        options = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        command = [programs / "postgres", "-D", data, *(f"--{name}={value}" for name, value in options.items())]
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
            ready = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
            until(lambda: subprocess.run(ready).returncode == 0, "PostgreSQL answers")
            yield {
                "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://127.0.0.1:{port}/postgres",
                "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
                "javax.jdo.option.ConnectionUserName": _USER,
                "javax.jdo.option.ConnectionPassword": _USER,
            }
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
