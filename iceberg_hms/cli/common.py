"""What all commands share: options, the catalog that they use, exit codes, and how they print errors."""

from __future__ import annotations

import importlib.util
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self

import typer

from iceberg_hms import errors
from iceberg_hms.cli.lifetime import Lifetime, restart_in_place
from iceberg_hms.cli.logs import RECORD, LineFormatter
from iceberg_hms.config import Settings
from iceberg_hms.errors import CommitStateUnknown, ConfigError, EngineError, IcebergHmsError
from iceberg_hms.rest.settings import RestSettings, load

if TYPE_CHECKING:
    from iceberg_hms.catalog.catalog import Catalog
    from iceberg_hms.catalog.table_access import LoadedTable
    from iceberg_hms.changes.change import Manifests
    from iceberg_hms.coordinator.ports import Files, Pointer, TableName


class ExitCode(IntEnum):
    """The exit code of the process. Scripts rely on it."""

    OK = 0
    #: Not found, refused, damaged, or any other failure.
    FAILED = 1
    #: The command line, a setting or an argument is wrong.
    USAGE = 2
    #: No metastore of the list answers.
    METASTORE_UNREACHABLE = 3
    #: A swap may or may not have happened: check the table before you try again.
    UNKNOWN_OUTCOME = 4
    #: As shells report a process that Ctrl-C ended.
    INTERRUPTED = 130


#: The first type that fits decides.
_EXIT_CODES: Sequence[tuple[type[IcebergHmsError], ExitCode]] = (
    (errors.UnsupportedFormat, ExitCode.FAILED),
    (errors.ConfigError, ExitCode.USAGE),
    (errors.InvalidInput, ExitCode.USAGE),
    (errors.MetastoreUnavailable, ExitCode.METASTORE_UNREACHABLE),
    (errors.CommitStateUnknown, ExitCode.UNKNOWN_OUTCOME),
)


def _connect(settings: Settings) -> Catalog:
    from iceberg_hms.assembly import assemble

    return assemble(settings)


class Reader(Protocol):
    """What commands that read tables need of a catalog."""

    def list_namespaces(self) -> list[str]: ...

    def list_tables(self, namespace: str) -> list[TableName]: ...

    def load(self, identifier: str | TableName) -> LoadedTable: ...

    def pointer(self, identifier: str | TableName) -> Pointer: ...

    def manifests(self) -> Manifests: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def _probe(uri: str, settings: Settings) -> ServerReport:
    from iceberg_hms.assembly import probe_server

    return probe_server(uri, settings)


def _files(settings: Settings) -> Files:
    from iceberg_hms.assembly import open_files

    return open_files(settings)


class ServerReport(Protocol):
    """What a probe found out about one metastore; `metastore.capabilities.Capabilities` describes each field."""

    @property
    def uri(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def lock_api(self) -> bool: ...

    @property
    def lock_seconds(self) -> float | None: ...

    @property
    def lease_seconds(self) -> float | None: ...

    @property
    def transaction_tables(self) -> bool: ...

    @property
    def compare_and_swap(self) -> str: ...

    @property
    def disallow_incompatible_col_type_changes(self) -> bool | None: ...

    @property
    def cached(self) -> bool: ...

    @property
    def problems(self) -> Sequence[str]: ...


class MetastoreServer(Protocol):
    """A metastore that `local` runs, made for a folder: `local.metastore.LocalMetastore`."""

    @property
    def uri(self) -> str: ...

    @property
    def warehouse(self) -> str: ...


class ZooKeeperServer(Protocol):
    """A ZooKeeper that `local` runs: `local.zookeeper.LocalZooKeeper`."""

    @property
    def hosts(self) -> str: ...


def _run_metastore(directory: Path, port: int, warehouse: str | None) -> AbstractContextManager[MetastoreServer]:
    from iceberg_hms.local.metastore import LocalMetastore

    return LocalMetastore(directory, port=port, warehouse=warehouse)


def _run_zookeeper(directory: Path, port: int) -> AbstractContextManager[ZooKeeperServer]:
    from iceberg_hms.local.zookeeper import LocalZooKeeper

    return LocalZooKeeper(directory, port=port)


class Waiting(Protocol):
    """How a server command waits for its end: `lifetime.Lifetime`."""

    @property
    def restarts(self) -> bool: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def ready(self, *, second_signal_ends: bool = False, can_restart: bool = False) -> None: ...

    def wait(self) -> signal.Signals | None: ...

    def end_within(self, seconds: float) -> None: ...


@dataclass(slots=True)
class Environment:
    """What commands use to reach servers, files and signals. Tests pass an Environment of their own as click's `obj`.

    connect: opens the catalog. lifetime: makes the Waiting of a server command. restart: restarts it in place, with its
    listening socket. run_metastore, run_zookeeper: make the servers of `local`, which start on entering. probe: finds
    out what one metastore can do. files: opens the warehouse. play_scenes: plays the demo's scenes on a
    `demo.stage.Stage`; None for the real ones. debug: show stack traces.
    """

    connect: Callable[[Settings], Reader] = _connect
    lifetime: Callable[[bool], Waiting] = Lifetime
    restart: Callable[[socket.socket], None] = restart_in_place
    run_metastore: Callable[[Path, int, str | None], AbstractContextManager[MetastoreServer]] = _run_metastore
    run_zookeeper: Callable[[Path, int], AbstractContextManager[ZooKeeperServer]] = _run_zookeeper
    probe: Callable[[str, Settings], ServerReport] = _probe
    files: Callable[[Settings], Files] = _files
    play_scenes: Callable[[Any], None] | None = None
    debug: bool = False


MetastoreUri = Annotated[
    str | None, typer.Option("--metastore-uri", metavar="URI", help="thrift://host:port; separate several with commas.")
]
Warehouse = Annotated[
    str | None, typer.Option("--warehouse", metavar="URI", help="Root folder of databases without a location.")
]
ZooKeeper = Annotated[str | None, typer.Option("--zookeeper", metavar="HOSTS", help="ZooKeeper servers, host:port.")]
Lock = Annotated[str | None, typer.Option("--lock", metavar="hms|zookeeper|none", help="The lock that guards a swap.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file of settings. Default: $ICEBERG_HMS_CONFIG.")
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting by its key; may be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
ExitWithStdin = Annotated[bool, typer.Option("--exit-with-stdin", help="End when standard input is closed.")]
TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="database.table")]


def load_settings(config: Path | None, overrides: Sequence[str] | None, **options: object) -> Settings:
    """As `load_all_settings`, for commands that need the library's alone."""
    library, _ = load_all_settings(config, overrides, **options)
    return library


def load_all_settings(
    config: Path | None, overrides: Sequence[str] | None, **options: object
) -> tuple[Settings, RestSettings]:
    """The library's settings and the server's, from a command's options and its `--set`s, over environment and file.
    Raises ConfigError."""
    keywords: dict[str, object] = {name: value for name, value in options.items() if value is not None}
    for text in overrides or ():
        key, sign, value = text.partition("=")
        if not sign:
            raise ConfigError(f"--set {text!r} has no '='", next_step="write --set key=value")
        if key.strip() in keywords:
            raise ConfigError(f"`{key.strip()}` is given twice", next_step="keep one of the two")
        keywords[key.strip()] = value
    return load(keywords, file=config)


@contextmanager
def open_catalog(context: typer.Context, settings: Settings) -> Iterator[Reader]:
    """The catalog for the time of a command. Raises ConfigError if no metastore is named."""
    require_metastore(settings)
    with environment(context).connect(settings) as catalog:
        yield catalog


def require_metastore(settings: Settings) -> None:
    """Raises ConfigError if no metastore is named."""
    if not settings.metastore_uris:
        raise ConfigError(
            "no metastore is named",
            next_step="give --metastore-uri thrift://host:9083, or set ICEBERG_HMS_URI; `iceberg-hms local` starts one",
        )


def environment(context: typer.Context) -> Environment:
    """The command's environment."""
    found = context.find_object(Environment)
    return Environment() if found is None else found


def require_extra(extra: str, *modules: str) -> None:
    """Raises EngineError that names the extra to install if one of its modules is missing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise EngineError(f"{module} is not installed", next_step=f"pip install 'iceberg-hms[{extra}]'")


def exit_code_of(error: IcebergHmsError) -> ExitCode:
    """The exit code that tells scripts what went wrong."""
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), ExitCode.FAILED)


def tell_error(error: IcebergHmsError) -> None:
    """Print to stderr one line on what happened, and one on what to do next."""
    typer.secho(f"error: {one_line(error.message)}", err=True, fg=None)
    if error.next_step:
        typer.secho(f"next: {one_line(error.next_step)}", err=True)


def one_line(text: str) -> str:
    """Text for a terminal: no line ends, and no control characters that the terminal would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def log_to_stderr(*, debug: bool) -> None:
    """Log to stderr: warnings and errors of all libraries, and our own messages from INFO on; with `debug` from
    DEBUG."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(RECORD))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("iceberg_hms").setLevel(logging.DEBUG if debug else logging.INFO)


def interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C caused an error: py4j raises errors of its own when Ctrl-C interrupts a call. Not for an unknown
    outcome, which the user must hear of."""
    if isinstance(error, CommitStateUnknown):
        return False
    seen: set[int] = set()
    behind: BaseException | None = error
    while behind is not None and id(behind) not in seen:
        if isinstance(behind, KeyboardInterrupt):
            return True
        seen.add(id(behind))
        behind = behind.__cause__ or behind.__context__
    return False
