"""`iceberg-hms watch`: what happens to main of many tables, as it happens: one line of JSON each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_hms.catalog.watching.new_snapshots import POLL_SECONDS
from iceberg_hms.cli import common, output
from iceberg_hms.errors import IcebergHmsError

if TYPE_CHECKING:
    from iceberg_hms.catalog.watching.new_snapshots import TableChange


def watch(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Databases, and tables as database.table.")],
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Keep the place here; go on there if the file exists."),
    ] = None,
    poll_seconds: Annotated[float, typer.Option("--poll-seconds", help="Between two polls.")] = POLL_SECONDS,
    once: Annotated[bool, typer.Option("--once", help="Poll once, and end.")] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Without a place: begin with the oldest snapshots, not with now.")
    ] = False,
    outage_seconds: Annotated[
        float | None, typer.Option("--outage-seconds", help="Wait so long for a metastore. Default: for ever.")
    ] = None,
    metastore_uri: common.MetastoreUri = None,
    warehouse: common.Warehouse = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
) -> None:
    """Print the new snapshots of tables, and what else happens to them, until interrupted.

    Each is one line of JSON on stdout. With a token file nothing is printed twice after a restart, but for the line
    that was printed last if the command was killed before it wrote the file.
    """
    settings = common.load_settings(config, overrides, metastore_uri=metastore_uri, warehouse=warehouse)
    with (
        common.open_catalog(context, settings) as catalog,
        catalog.new_snapshots(
            names,
            token=_read(token_file),
            poll_seconds=poll_seconds,
            from_beginning=from_beginning,
            outage_seconds=outage_seconds,
        ) as watcher,
    ):
        for change in watcher.poll():
            _tell(change, token_file)
        # What comes after the first poll is new, also for the next process.
        _write(token_file, watcher.token)
        for change in () if once else watcher:
            _tell(change, token_file)


def _tell(change: TableChange, token_file: Path | None) -> None:
    output.print_event(change.kind, **describe(change))
    _write(token_file, change.token)


def describe(change: TableChange) -> dict[str, Any]:
    """A change as plain values, without its kind."""
    described: dict[str, Any] = {"table": str(change.table)}
    if change.previous_name is not None:
        described["previous_name"] = str(change.previous_name)
    described |= {name: ids for name, ids in (("left", change.left), ("expired", change.expired)) if ids}
    snapshot = change.snapshot
    if snapshot is None:
        return described
    return described | {
        "snapshot_id": snapshot.snapshot_id,
        "parent_id": snapshot.parent_snapshot_id,
        "sequence_number": snapshot.sequence_number,
        "timestamp_ms": snapshot.timestamp_ms,
        "operation": snapshot.operation,
        "summary": dict(snapshot.summary),
    }


def _read(token_file: Path | None) -> str | None:
    """The token; None if there is no file yet."""
    if token_file is None:
        return None
    try:
        return token_file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(token_file, error) from error


def _write(token_file: Path | None, token: str) -> None:
    """Replace the file's content, so that it is whole whenever the machine stops."""
    if token_file is None:
        return
    new = token_file.with_name(f".{token_file.name}.new")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(token)
            file.flush()
            os.fsync(file.fileno())
        new.replace(token_file)
    except OSError as error:
        raise _unusable(token_file, error) from error


def _unusable(token_file: Path, error: Exception) -> IcebergHmsError:
    return IcebergHmsError(
        f"the token file {token_file} cannot be used: {error}", next_step="name a file that can be read and written"
    )
