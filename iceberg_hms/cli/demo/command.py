"""`iceberg-hms demo`: what iceberg-hms does, on real servers and real data, in about two minutes."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Final

import typer

from iceberg_hms.cli import common
from iceberg_hms.cli.demo.folder import DemoFolder
from iceberg_hms.cli.demo.stage import Stage

_FOLDER: Final = Path("build") / "demo"

Folder = Annotated[
    Path,
    typer.Option("--dir", metavar="DIR", help="Where its servers and tables go; emptied at the start of each run."),
]


def demo(context: typer.Context, directory: Folder = _FOLDER) -> None:
    """Show what iceberg-hms does: real servers, real data, about two minutes."""
    common.require_extra("spark", "pyspark")
    common.require_extra("server", "uvicorn", "starlette")
    environment = common.environment(context)
    with environment.lifetime(False), DemoFolder(directory) as folder:
        if not environment.debug:
            _log_to(folder.logs / "demo.log")
        run(Stage(folder))


def run(stage: Stage) -> None:
    """The scenes, in order. Whatever happens, all servers and processes are ended."""
    from iceberg_hms.cli.demo import dissect, flights, load, servers, together, travel

    flights.data_folder()
    started = stage.clock.monotonic()
    with ExitStack() as stack:
        servers.play(stage, stack)
        load.play(stage)
        together.play(stage)
        travel.play(stage)
        dissect.play(stage)
        stage.tell("")
        with stage.step("Stopping Spark, ZooKeeper and the metastore"):
            stack.close()
    seconds = stage.clock.monotonic() - started
    stage.tell(f"That was all, in {seconds:.0f} s. Tables and logs stay in {stage.folder.path} until the next run.")


def _log_to(file: Path) -> None:
    """Everything that libraries log goes to a file: the screen is for the demo."""
    logging.basicConfig(
        filename=file, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
