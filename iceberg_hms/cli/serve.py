"""`iceberg-hms serve`: the Iceberg REST catalog in front of a metastore, until interrupted."""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_hms.cli import common, logs, output
from iceberg_hms.cli.lifetime import Lifetime, inherited
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError, IcebergHmsError
from iceberg_hms.rest.access.authorization import Access
from iceberg_hms.rest.access.tokens import Everyone, FirstThatKnows, OneToken, TokenFile, new_token
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.rest.warehouses import DEFAULT_WAREHOUSE, load_warehouses

if TYPE_CHECKING:
    from iceberg_hms.catalog.catalog import Catalog
    from iceberg_hms.rest.server import RestServer

logger = logging.getLogger(__name__)

#: How long threads may take to end once everything is stopped and closed.
EXIT_SECONDS = 5.0
#: The collector scans the young objects when the process has created this many more than it has freed.
_YOUNG_OBJECTS = 20_000
#: How long a thread computes before others get the interpreter, in seconds; Python's own is 5 ms. A commit asks for it
#: some thirty times, and waits as long each time for every thread that computes, such as one with a large request.
_SWITCH_SECONDS = 0.0005


def serve(
    context: typer.Context,
    metastore_uri: common.MetastoreUri = None,
    warehouse: common.Warehouse = None,
    zookeeper: common.ZooKeeper = None,
    lock: common.Lock = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 = any free one. Default: 8181.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of tokens: one token, or lines of `iceberg-hms token`.")
    ] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Accept every client that can connect.")] = False,
    audit_log: Annotated[
        str | None, typer.Option(metavar="FILE", help="File for the audit trail. Default: with the log, on stderr.")
    ] = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
    exit_with_stdin: common.ExitWithStdin = False,
) -> None:
    """Serve the Iceberg REST catalog.

    Prints one line of JSON on stdout when it listens, and ends with Ctrl-C, in order: the second one ends it at once.
    Without --token-file or --no-auth it makes a token of its own, which is in that line. SIGUSR2 restarts it in place,
    with its arguments: new connections wait meanwhile. A socket that systemd hands over replaces --host and --port.
    """
    library, settings = common.load_all_settings(
        config,
        overrides,
        metastore_uri=metastore_uri,
        warehouse=warehouse,
        zookeeper=zookeeper,
        lock=lock,
        rest_host=host,
        rest_port=port,
        rest_audit_log=audit_log,
    )
    warehouses = load_warehouses((library, settings), file=config)
    access, token = choose_access(token_file, settings, no_auth=no_auth)
    made = {} if token is None else {"token": token}
    common.require_extra("server", "starlette", "uvicorn")
    from iceberg_hms.rest.server import RestServer

    raise_open_files(settings.rest_max_open_files)
    with (
        logs.in_background(settings.rest_audit_log) as log,
        common.environment(context).lifetime(exit_with_stdin) as lifetime,
        common.open_catalog(context, library) as catalog,
        open_warehouses(context, library, warehouses) as others,
    ):
        where, listener = (settings.rest_host, settings.rest_port), inherited(os.environ)
        server = RestServer(catalog, *where, settings=settings, access=access, warehouses=others, listener=listener)

        def announce(uri: str) -> None:
            _announce(uri, library, others, made)
            # A server that starts before its metastore becomes ready when that answers.
            catalogs = catalog, {name: each for name, (each, _) in others.items()}
            threading.Thread(target=warn_unless_they_answer, args=catalogs, name="metastore-check", daemon=True).start()

        kept = _run(server, lifetime, announce)
    if kept is not None and lifetime.restarts:
        output.note("restarting")
        common.environment(context).restart(kept)
    if not log.is_written:
        # Nobody reads stderr, so the interpreter's own exit would block. Everything is stopped and closed already.
        os._exit(0)
    output.note("stopped")
    # A swap that the metastore does not answer would keep the process for ten minutes. Its lock ends with its lease.
    lifetime.end_within(EXIT_SECONDS)


def _run(server: RestServer, lifetime: Lifetime, announce: Callable[[str], None]) -> socket.socket | None:
    """Start the server, and stop it when a signal or the end of standard input says so. Returns its socket, which goes
    on listening, if the signal asks for a restart."""
    try:
        uri = server.start()
        lifetime.ready(second_signal_ends=True, can_restart=True)
        _settle_heap()
        sys.setswitchinterval(_SWITCH_SECONDS)
        announce(uri)
        match lifetime.wait():
            case signal.SIGTERM:
                server.drain()
            case signal.SIGUSR2:
                return server.hand_over()
        return None
    finally:
        server.stop()


def _announce(uri: str, settings: Settings, others: Collection[str], made: Mapping[str, str]) -> None:
    """The line of JSON on stdout. made: the token that the server made."""
    where = {"metastore_uri": settings.metastore_uri, "warehouse": settings.warehouse}
    names = {"warehouses": sorted(others)} if others else {}
    output.print_event("listening", uri=uri, **where, pid=os.getpid(), **made, **names)


def warn_unless_they_answer(catalog: Catalog, others: Mapping[str, Catalog]) -> None:
    """Tell the operator of a wrong address before the first client finds out. others: by the name of the warehouse."""
    for name, each in {DEFAULT_WAREHOUSE: catalog, **others}.items():
        which = f" of warehouse {name}" if others else ""
        try:
            each.list_namespaces()
        except IcebergHmsError as error:
            logger.warning("not ready until the metastore%s answers: %s", which, error)


@contextmanager
def open_warehouses(
    context: typer.Context, default: Settings, warehouses: Mapping[str, tuple[Settings, RestSettings]]
) -> Iterator[dict[str, tuple[Catalog, RestSettings]]]:
    """The catalogs of all warehouses but the default one, and the server's settings for each. Logs which have one
    metastore: there a scope for one opens the same tables as a scope for the other."""
    names_of: dict[tuple[str, ...], list[str]] = {}
    library_of = {name: library for name, (library, _) in warehouses.items()}
    for name, settings in {DEFAULT_WAREHOUSE: default, **library_of}.items():
        names_of.setdefault(tuple(sorted(settings.metastore_uris)), []).append(name)
    for names in names_of.values():
        if len(names) > 1:
            logger.warning("warehouses %s have the same metastore, and so the same tables", ", ".join(names))
    with ExitStack() as stack:
        yield {
            name: (stack.enter_context(common.open_catalog(context, library)), settings)
            for name, (library, settings) in warehouses.items()
        }


def _settle_heap() -> None:
    """Exempt all present objects from collection: they live until the process ends. Otherwise a full collection
    scans them for some 60 ms in the middle of a group of commits, and small ones run a hundred times a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])


def raise_open_files(wanted: int) -> int:
    """Raise this process's limit of open files to `wanted`, as far as the hard limit allows, and never lower it.
    Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft == resource.RLIM_INFINITY or limit <= soft:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


def choose_access(token_file: Path | None, settings: RestSettings, *, no_auth: bool) -> tuple[Access, str | None]:
    """Who may do what, and the token that was made if no option says. Raises ConfigError for an unusable file."""
    if no_auth:
        if token_file is not None or settings.rest_oidc_issuer:
            raise ConfigError("--no-auth was given, and who may call too", next_step="keep one of the two")
        return Everyone(), None
    if settings.rest_oidc_issuer or settings.rest_oidc_audience:
        common.require_extra("oidc", "jwt", "cryptography")
        from iceberg_hms.rest.access.oidc import OidcIssuer

        issuer = OidcIssuer(settings, SYSTEM_CLOCK)
        return (issuer if token_file is None else FirstThatKnows(TokenFile(token_file, SYSTEM_CLOCK), issuer)), None
    if token_file is not None:
        return TokenFile(token_file, SYSTEM_CLOCK), None
    token = new_token()
    return OneToken(token), token
