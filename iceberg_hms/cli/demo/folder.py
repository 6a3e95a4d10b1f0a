"""The demo's folder: empty at the start of each run, used by one run at a time, and never somebody else's data."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from iceberg_hms.errors import ConfigError, EngineError

#: A folder with this file in it was made by the demo, which may empty it.
MARKER: Final = ".iceberg-hms-demo"


class DemoFolder:
    """`path`, made or emptied. Locked for as long as this object is entered.

    Raises ConfigError if something else is in the folder or another demo runs in it; EngineError if it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self._lock = -1

    @property
    def logs(self) -> Path:
        """Where the noise goes."""
        return self.path / "logs"

    @property
    def warehouse(self) -> Path:
        """The warehouse that Hive, Spark and we share."""
        return self.path / "warehouse"

    def __enter__(self) -> Self:
        try:
            self._claim()
            self._empty()
            self.logs.mkdir()
        except OSError as error:
            self._let_go()
            raise EngineError(
                f"Cannot make the folder {self.path}: {error.strerror}", next_step="name another with --dir"
            ) from error
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._let_go()

    def _claim(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        marker = self.path / MARKER
        if not marker.exists() and any(self.path.iterdir()):
            raise ConfigError(
                f"The folder {self.path} is not empty, and the demo did not make it",
                next_step="name another with --dir",
            )
        self._lock = os.open(marker, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"Another demo runs in {self.path}", next_step="wait for its end, or name another folder with --dir"
            ) from error

    def _empty(self) -> None:
        for entry in self.path.iterdir():
            if entry.name == MARKER:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def _let_go(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
