"""A catalog in memory, and a lifetime that ends when the test says so, behind the commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from signal import SIGUSR2, Signals
from typing import Any, Self

from typer.testing import CliRunner

from iceberg_hms.catalog.table_access import LoadedTable
from iceberg_hms.cli.common import Environment
from iceberg_hms.cli.main import app
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.errors import NoSuchNamespace, NoSuchTable
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from tests.inspect import samples

METASTORE = "thrift://127.0.0.1:9083"


@dataclass
class MemoryCatalog:
    """What commands that look at tables ask of a catalog. `broken` maps a table's name to what loading it raises."""

    tables: dict[TableName, TableMetadata] = field(default_factory=lambda: {samples.NAME: samples.metadata()})
    broken: dict[TableName, Exception] = field(default_factory=dict)
    pointers: list[Pointer] = field(default_factory=list)
    closed: int = 0

    def list_namespaces(self) -> list[str]:
        return sorted({"default", *(name.namespace for name in [*self.tables, *self.broken])})

    def list_tables(self, namespace: str) -> list[TableName]:
        if namespace not in self.list_namespaces():
            raise NoSuchNamespace(namespace)
        return sorted(name for name in [*self.tables, *self.broken] if name.namespace == namespace)

    def load(self, identifier: str | TableName) -> LoadedTable:
        name = identifier if isinstance(identifier, TableName) else TableName(*identifier.split("."))
        if name in self.broken:
            raise self.broken[name]
        if name not in self.tables:
            raise NoSuchTable(name)
        return LoadedTable(name, samples.METADATA_LOCATION, self.tables[name])

    def pointer(self, identifier: str | TableName) -> Pointer:
        """First what is in `pointers`, one a call."""
        loaded = self.load(identifier)
        return self.pointers.pop(0) if self.pointers else samples.pointer(name=loaded.name)

    def manifests(self) -> samples.MemoryManifests:
        return samples.manifests()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.closed += 1


@dataclass
class Asked:
    """What the environment was asked for."""

    settings: list[Settings] = field(default_factory=list)


def run(
    *arguments: str,
    catalog: Any = None,
    during: Callable[[], None] = lambda: None,
    metastore: bool = True,
    asked: Asked | None = None,
    signal: Signals | None = None,
    **world: Any,
) -> Any:
    """Run `iceberg-hms` over a catalog in memory. during: what happens while a server command waits. signal: what ends
    its wait. world: further fields of the environment."""

    def connect(settings: Settings) -> Any:
        if asked is not None:
            asked.settings.append(settings)
        return MemoryCatalog() if catalog is None else catalog

    where = {"ICEBERG_HMS_URI": METASTORE} if metastore else {}
    world.setdefault("connect", connect)
    world.setdefault("lifetime", lambda exit_with_stdin: OneMoment(during, signal))
    environment = Environment(**world)
    return CliRunner().invoke(app, list(arguments), obj=environment, env=where)


def answer(*arguments: str, **options: Any) -> Any:
    """The JSON that a command prints, once it is known to have succeeded."""
    result = run(*arguments, "--json", **options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@dataclass
class OneMoment:
    """A lifetime in which `during` happens, and then `signal` comes."""

    during: Callable[[], None]
    signal: Signals | None = None

    @property
    def restarts(self) -> bool:
        return self.signal is SIGUSR2

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def ready(self, *, second_signal_ends: bool = False, can_restart: bool = False) -> None: ...

    def wait(self) -> Signals | None:
        self.during()
        return self.signal

    def end_within(self, seconds: float) -> None: ...
