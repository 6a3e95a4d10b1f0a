"""`iceberg-hms locks`: list and break locks, and choose which lock a table takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_hms.cli import common, output
from iceberg_hms.clock import instant
from iceberg_hms.errors import ConfigError

if TYPE_CHECKING:
    from iceberg_hms.lock_record import LockRecord
    from iceberg_hms.locking.lock_admin import Listing

_COLUMNS = ("lock id", "in", "table", "state", "kind", "user", "host", "since", "last heartbeat", "held by")

LockId = Annotated[str, typer.Argument(metavar="LOCKID", help="As `locks list` shows it.")]


class Keeper(StrEnum):
    """Which lock a table takes."""

    HMS = "hms"
    ZOOKEEPER = "zookeeper"


def list_locks(
    context: typer.Context,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="database.table; else all.")] = None,
    metastore_uri: common.MetastoreUri = None,
    zookeeper: common.ZooKeeper = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
    as_json: common.AsJson = False,
) -> None:
    """List locks, and who holds or awaits them."""
    settings = common.load_settings(config, overrides, metastore_uri=metastore_uri, zookeeper=zookeeper)
    with common.open_catalog(context, settings) as catalog:
        listing = catalog.locks.list(table)
    _tell_problems(listing)
    if as_json:
        output.print_json(listing.locks)
        return
    output.console().print(output.table("", _COLUMNS, [_row(lock) for lock in listing.locks]))
    _tell_dead(listing)


def show(
    context: typer.Context,
    lock_id: LockId,
    metastore_uri: common.MetastoreUri = None,
    zookeeper: common.ZooKeeper = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
    as_json: common.AsJson = False,
) -> None:
    """Show one lock."""
    settings = common.load_settings(config, overrides, metastore_uri=metastore_uri, zookeeper=zookeeper)
    with common.open_catalog(context, settings) as catalog:
        lock = catalog.locks.find(lock_id)
    _print_one(lock, as_json)


def break_lock(
    context: typer.Context,
    lock_id: LockId,
    yes: Annotated[bool, typer.Option("--yes", help="The holder is dead, or must stop: take its lock away.")] = False,
    metastore_uri: common.MetastoreUri = None,
    zookeeper: common.ZooKeeper = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
    as_json: common.AsJson = False,
) -> None:
    """Take a lock away from its holder."""
    settings = common.load_settings(config, overrides, metastore_uri=metastore_uri, zookeeper=zookeeper)
    with common.open_catalog(context, settings) as catalog:
        if not yes:
            lock = catalog.locks.find(lock_id)
            raise ConfigError(
                f"lock {lock_id} of {lock.table} was not broken: {lock.user}@{lock.host} may still run",
                next_step="make sure that the holder is gone, then add --yes",
            )
        lock = catalog.locks.break_lock(lock_id)
    _print_one(lock, as_json)


def use(
    context: typer.Context,
    keeper: Annotated[Keeper, typer.Argument(help="The lock that the table takes from now on.")],
    name: Annotated[str, typer.Argument(metavar="TABLE", help="database.table")],
    force: Annotated[
        bool, typer.Option("--force", help="ZooKeeper is gone for good, and no writer that uses it is alive.")
    ] = False,
    metastore_uri: common.MetastoreUri = None,
    zookeeper: common.ZooKeeper = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
    as_json: common.AsJson = False,
) -> None:
    """Choose which lock a table takes. `zookeeper` declares that all its writers are iceberg-hms with ZooKeeper."""
    settings = common.load_settings(config, overrides, metastore_uri=metastore_uri, zookeeper=zookeeper)
    with common.open_catalog(context, settings) as catalog:
        catalog.locks.use(name, keeper, wait_seconds=catalog.default_wait_seconds, force=force)
    if as_json:
        output.print_json({"name": name, "lock": keeper.value})
    else:
        output.console().print(f"{name} takes the {keeper} lock")


#: Subcommand -> function, for the program to register.
COMMANDS: Mapping[str, Callable[..., None]] = {"list": list_locks, "show": show, "break": break_lock, "use": use}


def _row(lock: LockRecord) -> list[object]:
    return [
        lock.lock_id,
        lock.keeper,
        lock.table,
        lock.state,
        lock.kind,
        lock.user,
        lock.host,
        instant(lock.since_ms),
        instant(lock.heartbeat_ms),
        lock.agent_info,
    ]


def _print_one(lock: LockRecord, as_json: bool) -> None:
    if as_json:
        output.print_json(lock)
        return
    values = dict(zip(_COLUMNS, _row(lock), strict=True)) | {"seems dead": lock.seems_dead or "no"}
    output.console().print(output.facts("", values))


def _tell_problems(listing: Listing) -> None:
    for problem in listing.problems:
        output.note(f"not listed: {common.one_line(problem)}")


def _tell_dead(listing: Listing) -> None:
    for lock in listing.locks:
        if lock.seems_dead:
            output.note(f"the holder of {lock.lock_id} on {lock.table} seems to be dead: {lock.seems_dead}")
            output.note(f"next: if it is, `iceberg-hms locks break {lock.lock_id} --yes` removes its lock")
