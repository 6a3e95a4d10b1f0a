"""The server that a siege attacks, and its attackers.

`siege` measures what others notice, `attack_costs` what a request costs.

    with besieged_server(folder, log, ["honest-0"]) as besieged:
        with attacking(besieged, ["purge storm"]) as counts:
            ...
        print(counts)
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

import iceberg_hms
from benchmarks import instruments
from benchmarks.loads import data_file
from benchmarks.writers import SCHEMA
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.rest.access.tokens import new_token, token_line
from integration.rest_clients import ALL
from labs.siege.attackers import ATTACKS, Target, besiege, place_bombs

NAMESPACE = "siege"
TABLES = 4
#: The name of the attackers' own token.
INSIDER = "insider"


@dataclass(frozen=True)
class Besieged:
    """A server with the tables `t0`... of honest clients and `evil`, the insider's.

    stalls: the file of labs/siege/loop_probe.py. tokens: by the callers' names. evil: the folder of `evil`.
    ancestor: a snapshot of `evil` that is not its current one.
    """

    server: instruments.Serving
    metastore_pid: int
    stalls: Path
    tokens: dict[str, str]
    evil: Path
    ancestor: int

    @property
    def port(self) -> int:
        return int(self.server.uri.rpartition(":")[2])

    @property
    def pids(self) -> dict[str, list[int]]:
        return {"server": [self.server.pid], "metastore": [self.metastore_pid]}


@contextmanager
def besieged_server(folder: Path, log: Path, honest: Sequence[str]) -> Iterator[Besieged]:
    """A server as users start it, over an embedded metastore, with a probe of its event loop. honest: callers who may
    write, each with a token of its own."""
    folder.mkdir(exist_ok=True)
    tokens = {name: new_token() for name in (INSIDER, *honest)}
    lines = [
        token_line(name, "admin[*]" if name == INSIDER else f"write[{NAMESPACE}]", tokens[name]) for name in tokens
    ]
    file = folder / "tokens"
    file.touch(0o600)
    file.write_text("\n".join([*lines, ""]))
    stalls = folder / "stalls"
    stalls.touch()
    log.parent.mkdir(parents=True, exist_ok=True)
    probed = (sys.executable, "-m", "labs.siege.loop_probe", str(stalls))
    access = ("--token-file", str(file))
    with LocalMetastore(folder / "hms") as metastore:
        assert metastore.pid is not None
        evil, ancestor = _make_tables(metastore)
        with instruments.serving(metastore, log, access=access, program=probed) as server:
            yield Besieged(server, metastore.pid, stalls, tokens, evil, ancestor)


def _make_tables(metastore: LocalMetastore) -> tuple[Path, int]:
    with iceberg_hms.connect(metastore.uri, metastore.warehouse) as catalog:
        catalog.create_namespace(NAMESPACE)
        for number in range(TABLES):
            catalog.create_table(f"{NAMESPACE}.t{number}", SCHEMA)
        evil = catalog.create_table(f"{NAMESPACE}.evil", SCHEMA, properties=ALL)
        for number in range(2):
            evil.append([data_file(f"evil-{number}")])
        metadata = catalog.load(f"{NAMESPACE}.evil").metadata
        return Path(metadata.location.removeprefix("file:")), metadata.snapshots[0].snapshot_id


@contextmanager
def attacking(besieged: Besieged, only: Sequence[str]) -> Iterator[dict[str, dict[str, int]]]:
    """Attack within the block, from a process of its own. only: these attacks; empty: all. Yields what came of each
    attack, by its name, which is empty before the end of the block."""
    counts: dict[str, dict[str, int]] = {}
    target = Target(besieged.port, besieged.tokens[INSIDER], NAMESPACE, "t0", besieged.ancestor)
    given = {"target": asdict(target), "location": str(besieged.evil), "only": list(only)}
    command = [sys.executable, "-m", "labs.siege.besieged"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=instruments.ROOT) as attackers:
        assert attackers.stdin is not None
        assert attackers.stdout is not None
        attackers.stdin.write(orjson.dumps(given) + b"\n")
        attackers.stdin.flush()
        attackers.stdout.readline()
        yield counts
        attackers.stdin.close()
        counts.update(orjson.loads(attackers.stdout.readline() or b"{}"))


def run_attackers() -> None:
    """The attackers' process: reads the target as a line of JSON, and prints what came of each attack when its input
    ends."""
    # The siege measures the server, not who gets the processors.
    os.nice(19)
    given = orjson.loads(sys.stdin.buffer.readline())
    attacks = {**ATTACKS, **place_bombs(Path(given["location"]))}
    attacks = {name: attacks[name] for name in given["only"] or attacks}
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    instruments.say({})

    async def attack() -> dict[str, Any]:
        task = asyncio.ensure_future(besiege(Target(**given["target"]), attacks))
        await asyncio.to_thread(sys.stdin.buffer.read)
        task.cancel()
        return {name: dict(each) for name, each in (await task).items()}

    instruments.say(asyncio.run(attack()))


if __name__ == "__main__":
    run_attackers()
