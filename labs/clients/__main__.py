"""Runs the checks of some engines, one engine after the other, each on new servers."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence

from labs.clients import engines, lab, results
from labs.clients.checks import CHECKS
from labs.clients.engines import Client
from labs.clients.lab import Lab
from labs.clients.results import WORKS, Result

_log = logging.getLogger("clients")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m labs.clients", description="Stock engines as clients.")
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=f"some of {', '.join(engines.MODULES)}")
    parser.add_argument("--check", action="append", choices=CHECKS, metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--client", metavar="WORDS", default="", help="only clients whose name has these words")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    _log.setLevel(logging.INFO)
    if unknown := set(given.engines) - set(engines.MODULES):
        parser.error(f"no such engine: {', '.join(sorted(unknown))}")
    wrong: list[str] = []
    for module in given.engines or engines.MODULES:
        wrong += _tried(module, given.check or list(CHECKS), given.client)
    for line in wrong:
        _log.error("%s", line)
    return 1 if wrong else 0


def _tried(module: str, names: Sequence[str], words: str) -> list[str]:
    """Run an engine's checks and keep the results. Returns what went wrong."""
    with (
        lab.opened(lab.DOWNLOADS / "runs" / module) as servers,
        engines.start(module, servers) as clients,
    ):
        all_ = [each for client in clients if words in client.engine for each in _checked(client, servers, names)]
    found = [each for each in all_ if isinstance(each, Result)]
    results.write(module, results.merged(results.read(module, results.FRESH), found), results.FRESH)
    return [each for each in all_ if isinstance(each, str)] + results.changes(results.read(module), found)


def _checked(client: Client, servers: Lab, names: Sequence[str]) -> Iterator[Result | str]:
    """The result of each check, or what is wrong."""
    for name in names:
        if (check := client.checks.get(name)) is None:
            continue
        try:
            verdict = check(lab.place(servers, client.engine, name)) or WORKS
        except Exception as error:  # noqa: BLE001 - a check of a foreign program may raise anything
            _log.exception("%s, %s: FAILED", client.engine, name)
            yield f"{client.engine}, {name}: {type(error).__name__}: {str(error)[:500]}"
        else:
            _log.info("%s, %s: %s %s", client.engine, name, verdict.outcome, verdict.note)
            yield Result(client.engine, client.version, name, verdict.outcome, verdict.note)


if __name__ == "__main__":
    sys.exit(main())
