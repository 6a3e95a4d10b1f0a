"""`iceberg-hms demo`: what iceberg-hms does, on real servers and real data, in five scenes of about two minutes.

`stage` is what the scenes share; `loading`, `together` and `one_table` are the scenes; `writer` is a Python process
that commits.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Final

import typer

from iceberg_hms.cli import common
from iceberg_hms.cli.demo.stage import Stage, demo_folder
from iceberg_hms.cli.logs import LineFormatter

_FOLDER: Final = Path("build") / "demo"

Folder = Annotated[
    Path,
    typer.Option("--dir", metavar="DIR", help="Folder for its servers and tables; each run empties it first."),
]


def demo(context: typer.Context, directory: Folder = _FOLDER) -> None:
    """Show what iceberg-hms does: real servers, real data, about two minutes."""
    common.require_extra("spark", "pyspark")
    common.require_extra("server", "uvicorn", "starlette")
    environment = common.environment(context)
    with environment.lifetime(False), demo_folder(directory) as folder:
        if not environment.debug:
            _log_to(folder.logs / "demo.log")
        (environment.play_scenes or play_scenes)(Stage(folder))


def play_scenes(stage: Stage) -> None:
    """Play the scenes in order. All servers and processes end, whatever happens."""
    from iceberg_hms.cli.demo import loading, one_table, together

    loading.data_folder()
    started = stage.clock.monotonic()
    with ExitStack() as stack:
        loading.start_servers(stage, stack)
        loading.load_tables(stage)
        together.write_together(stage)
        one_table.travel(stage)
        one_table.take_apart(stage)
        stage.tell("")
        with stage.step("Stopping Spark, ZooKeeper and the metastore"):
            stack.close()
    seconds = stage.clock.monotonic() - started
    stage.tell(f"The demo took {seconds:.0f} s. Tables and logs stay in {stage.folder.path} until the next run.")


def _log_to(file: Path) -> None:
    """Send the logs of all libraries to a file, so that the screen shows the demo alone."""
    handler = logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
