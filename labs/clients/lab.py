"""The servers that every engine is tried on: a real metastore, and `iceberg-hms serve` in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

import iceberg_hms
from iceberg_hms.local.metastore import LocalMetastore

#: What the engines are, unpacked; the package clients' caches keep the archives.
DOWNLOADS: Final = Path(__file__).parent.parent.parent / "build" / "clients"
TOKEN: Final = "a-token-for-engines-alone-0123456789"
#: Seconds, on a machine that is busy.
START, END = 180, 60


@dataclass
class Lab:
    """uri, token: of the REST catalog. metastore_uri, warehouse: what it stands in front of. folder: for files of the
    engines, on the file system that the warehouse is on. catalog: our Python API on the same metastore."""

    uri: str
    metastore_uri: str
    warehouse: str
    folder: Path
    catalog: Any
    token: str = TOKEN
    downloads: Path = DOWNLOADS

    @cached_property
    def pyiceberg(self) -> Any:
        """Stock PyIceberg over REST. One catalog object serves one thread: `new_pyiceberg` makes more."""
        return self.new_pyiceberg()

    def new_pyiceberg(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("clients", type="rest", uri=self.uri, token=self.token)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows as stock PyIceberg reads them, in no order. table: `namespace.name`."""
        return list(self.pyiceberg.load_table(table).scan().to_arrow().to_pylist())


@dataclass
class Place:
    """Where one check works. namespace: made for it, empty."""

    lab: Lab
    namespace: str

    def table(self, name: str = "t") -> str:
        """The full name of a table in the namespace: `namespace.name`."""
        return f"{self.namespace}.{name}"

    @property
    def folder(self) -> Path:
        """A folder for files of this check, outside of all tables."""
        folder = self.lab.folder / "files" / self.namespace
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def files_of(self, table: str) -> set[Path]:
        """All files below the table's location."""
        return files_below(self.lab.catalog.load_table(table).metadata.location)


def files_below(location: str) -> set[Path]:
    return {path for path in local(location).rglob("*") if path.is_file()}


def local(location: str) -> Path:
    """The path that a `file:` location names."""
    return Path(unquote(urlsplit(location).path))


@contextmanager
def opened(folder: Path) -> Iterator[Lab]:
    """A lab in a folder, which it empties first, and which keeps the logs of a run until the next one there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with (
        LocalMetastore(folder / "hms") as metastore,
        _serving(folder, metastore) as uri,
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog,
    ):
        yield Lab(uri, metastore.uri, metastore.warehouse, folder, catalog)


def place(lab: Lab, client: str, check: str) -> Place:
    """A new namespace for one check of one client."""
    plain = re.sub(r"[^a-z0-9]+", "_", f"{client}_{check}".lower()).strip("_")
    number = sum(1 for name in lab.catalog.list_namespaces() if name.startswith(plain))
    namespace = f"{plain}_{number}"
    lab.catalog.create_namespace(namespace)
    return Place(lab, namespace)


@contextmanager
def _serving(folder: Path, metastore: LocalMetastore) -> Iterator[str]:
    """`iceberg-hms serve`, as its users start it; its address."""
    server = Server(folder, metastore.uri, metastore.warehouse)
    server.start()
    try:
        yield server.uri
    finally:
        server.stop()


class Server:
    """`iceberg-hms serve` in a process of its own, which can be killed and started again at the same address.

    folder: for its token and its log. options: of the command, beside those that it needs."""

    def __init__(self, folder: Path, metastore_uri: str, warehouse: str, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "serve.log"
        self._process: subprocess.Popen[str] | None = None
        self._options = ["--metastore-uri", metastore_uri, "--warehouse", warehouse, "--exit-with-stdin", *options]
        if "--token-file" not in options:
            tokens = folder / "tokens"
            tokens.write_text(TOKEN + "\n", encoding="utf-8")
            tokens.chmod(0o600)
            self._options += ["--token-file", str(tokens)]
        self.uri = ""

    def start(self) -> None:
        port = self.uri.rpartition(":")[2] or "0"
        program = [sys.executable, "-c", "from iceberg_hms.cli.main import run; run()", "serve", *self._options]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ICEBERG_HMS_")}
        with self._log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [*program, "--port", port],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        assert self._process.stdout is not None
        try:
            self.uri = json.loads(first_line(self._process.stdout, START))["uri"]
        except BaseException:
            self.stop()
            raise

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(END)
        self._close()

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            stop(self._process)
            self._close()

    def _close(self) -> None:
        assert self._process is not None
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None


class ServerToKill(Server):
    """lab: the lab, reached through this server."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        super().__init__(folder, lab.metastore_uri, lab.warehouse)
        self._lab = lab

    @property
    def lab(self) -> Lab:
        return replace(self._lab, uri=self.uri)


@contextmanager
def serving_again(lab: Lab) -> Iterator[ServerToKill]:
    """Another server before the same metastore, for a check that kills it."""
    server = ServerToKill(lab, Path(tempfile.mkdtemp(prefix="killed-", dir=lab.folder)))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def first_line(stream: IO[str], seconds: float) -> str:
    """The next line of a process. Raises TimeoutError if none comes in time, EOFError if the process ended."""
    lines: Queue[str] = Queue()
    Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
    try:
        line = lines.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no line came in {seconds:.0f} s") from None
    if not line:
        raise EOFError("the process ended before it said that it listens")
    return line


def stop(process: subprocess.Popen[str]) -> None:
    """Wait for a process that is about to end, and kill it if it does not end in time."""
    try:
        process.wait(END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(END)
