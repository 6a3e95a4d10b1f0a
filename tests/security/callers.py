"""Callers with tokens of a file, and what they ask of a catalog in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.clock import SYSTEM_CLOCK, Clock, SystemClock
from iceberg_hms.rest.access.authorization import Result
from iceberg_hms.rest.access.tokens import TokenFile, new_token, token_line
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.settings import RestSettings
from tests.rest.fakes import Web


class ByHand(SystemClock):
    """A clock that the test moves. seconds: since its beginning."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def write_tokens(path: Path, scopes: Mapping[str, str]) -> dict[str, str]:
    """Write a token file of these callers. Returns each one's token."""
    tokens = {name: new_token() for name in scopes}
    lines = [token_line(name, scopes[name], token) for name, token in tokens.items()]
    write_private(path, "\n".join(["# who   what   hash", "", *lines]))
    return tokens


def write_private(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")


def web_of(token: str) -> dict[str, str]:
    """The header that sends a token."""
    return {"Authorization": f"Bearer {token}"}


def callers(
    catalog: Catalog,
    folder: Path,
    scopes: Mapping[str, str],
    settings: RestSettings | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Callable[[str], Web]:
    """Name of a caller -> the application, called by that one."""
    tokens = write_tokens(folder / "tokens", scopes)
    access = TokenFile(folder / "tokens", clock)
    app: Any = create_app(catalog, settings=settings, access=access, clock=clock)
    return lambda name: Web(app, web_of(tokens[name]))


async def run_here(function: Callable[[], Result]) -> Result:
    """`RunOnThread` without a thread."""
    return function()
