"""What all commands share: options, the catalog that they use, exit codes, and how they print errors."""

from __future__ import annotations

import importlib.util
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_hms import errors
from iceberg_hms.cli.lifetime import Lifetime, restart_in_place
from iceberg_hms.cli.logs import LineFormatter
from iceberg_hms.config import Settings
from iceberg_hms.errors import CommitStateUnknown, ConfigError, EngineError, IcebergHmsError
from iceberg_hms.rest.settings import RestSettings, all_settings, load

if TYPE_CHECKING:
    from iceberg_hms.assembly import Capabilities
    from iceberg_hms.catalog.catalog import Catalog
    from iceberg_hms.coordinator.ports import Files
    from iceberg_hms.local.metastore import LocalMetastore
    from iceberg_hms.local.zookeeper import LocalZooKeeper


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


def _probe(uri: str, settings: Settings) -> Capabilities:
    from iceberg_hms.assembly import probe_server

    return probe_server(uri, settings)


def _files(settings: Settings) -> Files:
    from iceberg_hms.stores import open_files

    return open_files(settings)


def _run_metastore(directory: Path, port: int, warehouse: str | None) -> LocalMetastore:
    from iceberg_hms.local.metastore import LocalMetastore

    return LocalMetastore(directory, port=port, warehouse=warehouse)


def _run_zookeeper(directory: Path, port: int) -> LocalZooKeeper:
    from iceberg_hms.local.zookeeper import LocalZooKeeper

    return LocalZooKeeper(directory, port=port)


@dataclass(slots=True)
class Environment:
    """What commands use to reach servers, files and signals. Tests pass an Environment of their own as click's `obj`.

    connect: opens the catalog. lifetime: makes that of a server command. restart: restarts it in place, with its
    listening socket. run_metastore, run_zookeeper: make the servers of `local`, which start on entering. probe: finds
    out what one metastore can do. files: opens the warehouse. play_scenes: plays the demo's scenes on a
    `demo.stage.Stage`; None for the real ones. debug: show stack traces.
    """

    connect: Callable[[Settings], Catalog] = _connect
    lifetime: Callable[[bool], Lifetime] = Lifetime
    restart: Callable[[socket.socket], None] = restart_in_place
    run_metastore: Callable[[Path, int, str | None], LocalMetastore] = _run_metastore
    run_zookeeper: Callable[[Path, int], LocalZooKeeper] = _run_zookeeper
    probe: Callable[[str, Settings], Capabilities] = _probe
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
        _refuse_secret(key.strip())
        if key.strip() in keywords:
            raise ConfigError(f"`{key.strip()}` is given twice", next_step="keep one of the two")
        keywords[key.strip()] = value
    return load(keywords, file=config)


def _refuse_secret(name: str) -> None:
    """Raises ConfigError if a setting of this name is a secret."""
    for setting in all_settings():
        if setting.is_secret and name in (setting.key, setting.attribute):
            raise ConfigError(
                f"--set must not have `{setting.key}`: all users of this machine can read its command lines",
                next_step=f"set {setting.variable}, or write it to the TOML file; then change the secret",
            )


@contextmanager
def open_catalog(context: typer.Context, settings: Settings) -> Iterator[Catalog]:
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
    handler.setFormatter(LineFormatter())
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
