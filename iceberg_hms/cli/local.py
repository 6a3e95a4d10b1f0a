"""`iceberg-hms local`: a real Hive Metastore and a real ZooKeeper on loopback, until interrupted."""

from __future__ import annotations

import os
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import orjson
import typer

from iceberg_hms.cli import common, output

DEFAULT_DIRECTORY = Path("iceberg-hms-local")


def local(
    context: typer.Context,
    directory: Annotated[
        Path, typer.Option("--dir", help="Where their data is kept; a later start finds it again.")
    ] = DEFAULT_DIRECTORY,
    metastore_port: Annotated[int, typer.Option(min=0, max=65_535, help="0 = any free one.")] = 0,
    zookeeper_port: Annotated[int, typer.Option(min=0, max=65_535, help="0 = any free one.")] = 0,
    warehouse: Annotated[
        str | None, typer.Option(metavar="URI", help="Root folder of tables. Default: warehouse in --dir.")
    ] = None,
    zookeeper: Annotated[bool, typer.Option("--zookeeper/--no-zookeeper", help="Start ZooKeeper, too.")] = True,
    exit_with_stdin: common.ExitWithStdin = False,
) -> None:
    """Run a Hive Metastore and a ZooKeeper on this machine.

    Prints one line of JSON on stdout when both listen, and ends with Ctrl-C. Both listen on 127.0.0.1 alone and end
    with this process, however it ends. Writes their addresses into iceberg-hms.toml in --dir: programs find them with
    ICEBERG_HMS_CONFIG set to that file. Needs Java 17.
    """
    common.require_extra("spark", "pyspark")
    env = common.environment(context)
    with ExitStack() as stack:
        lifetime = stack.enter_context(env.lifetime(exit_with_stdin))
        output.note(f"starting the servers in {directory.absolute()}, which takes about ten seconds")
        metastore = stack.enter_context(env.run_metastore(directory / "metastore", metastore_port, warehouse))
        hosts = None
        if zookeeper:
            hosts = stack.enter_context(env.run_zookeeper(directory / "zookeeper", zookeeper_port)).hosts
        config = _write_settings(directory, uri=metastore.uri, warehouse=metastore.warehouse, zookeeper_hosts=hosts)
        lifetime.ready()
        output.note(f"in another shell: export ICEBERG_HMS_CONFIG={shlex.quote(str(config))}")
        output.print_event(
            "listening",
            metastore_uri=metastore.uri,
            warehouse=metastore.warehouse,
            zookeeper=hosts,
            directory=str(directory.absolute()),
            config=str(config),
            pid=os.getpid(),
        )
        lifetime.wait()
    output.note("stopped")


def _write_settings(directory: Path, **settings: str | None) -> Path:
    """Write the file for clients of these servers. Returns its absolute path."""
    config = directory.absolute() / "iceberg-hms.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    # JSON's strings are TOML's.
    lines = [f"{key.replace('_', '.')} = {orjson.dumps(value).decode()}\n" for key, value in settings.items() if value]
    config.write_text("# `iceberg-hms local` writes this at each start.\n" + "".join(lines), encoding="utf-8")
    return config
