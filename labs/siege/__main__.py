"""A server under all attacks on its resources at once, beside honest clients: what do those notice of it?"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from benchmarks import instruments
from labs.siege.attackers import Client
from labs.siege.besieged import NAMESPACE, TABLES, Besieged, attacking, besieged_server
from labs.siege.loop_probe import Stall, stalls_of
from tests.polling import eventually

HONEST = "127.0.0.1"
#: The name of the loaders' token.
LOADER = "loader"
#: Between two requests of one honest client, in seconds.
PAUSE_SECONDS = 0.25
#: A request that the server defers (429, 503) is sent again after that long, as clients do.
RETRY_SECONDS = 1.0
LOADERS = 4
#: What a siege may do: to the 99th percentile of honest commits, and to the server's memory in bytes.
RATIO_MAX = 2.0
MEMORY_MAX = 1 << 30
#: How many descriptors more than before may be open when it is over.
DESCRIPTORS_LEFT_MAX = 32
#: How long the server may take to close what attackers left.
SETTLE_SECONDS = 180


@dataclass
class Phase:
    """seconds: of each acknowledged commit, and of each load. deferred: requests that were sent again.
    failed: commits and loads with any other answer. lost: commits that were acknowledged and are not in their table.
    wall, cpu: how long it took, and the CPU time of the server and the metastore in it; seconds. stalls: of the
    server's event loop."""

    name: str
    seconds: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    deferred: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    wall: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    stalls: list[Stall] = field(default_factory=list)


@dataclass(frozen=True)
class Usage:
    """Of the server's process. peak: bytes of memory, the largest so far."""

    threads: int
    descriptors: int
    peak: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        values = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return cls(int(values["Threads"][0]), descriptors, 1024 * int(values["VmHWM"][0]))


def siege() -> None:
    """Show what honest clients notice while a server is attacked.

    A server as users start it, over an embedded metastore. Committers set a property four times a second each, on four
    tables, and loaders load them, in four phases: alone (quiet); while another server with a metastore of its own is
    attacked on the same machine (contended); while theirs is attacked (besieged); alone again (afterwards). The attacks
    are all of labs/siege/attackers.py. What the contended phase takes longer than the quiet one is the processors
    that others have; what the besieged one takes longer than that comes of what attackers and honest clients share in
    the server and in its metastore.

    Attackers are a process of their own with the lowest priority, from other addresses, some with a valid token, which
    they share. Committers have a token each.

    CPU %, HMS %: what the server and the metastore take of one processor. stalls: how often the server's event loop
    came late by 20 ms and more, and by how much at most, in ms; computed: the most CPU time, in ms, that the server
    itself took in one of them.

    It fails if an honest request failed or was lost, if the 99th percentile of commits is twice the contended one or
    more, if the server's memory passed 1 GiB, or if it keeps descriptors of attackers.
    """
    options = instruments.parser(siege.__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--committers", type=int, default=16)
    options.add_argument("--only", action="append", default=[], metavar="ATTACK", help="this one; may be repeated")
    options.add_argument("--quiet-seconds", type=float, default=60.0, help="of the phases without attacks")
    options.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = options.parse_args()
    arguments.quiet_seconds = min(arguments.quiet_seconds, 60 * arguments.minutes)
    with tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder:
        log = arguments.out / "siege.log"
        names = [LOADER, *(_committer(number) for number in range(arguments.committers))]
        with besieged_server(Path(folder), log, names) as besieged:
            decoy_log = arguments.out / "siege-decoy.log"
            with besieged_server(Path(folder) / "decoy", decoy_log, []) as decoy:
                found = measure(besieged, decoy, arguments)
    problems = show(found)
    instruments.keep(arguments.out, "siege", vars(arguments), {**found, "problems": problems})
    if problems:
        raise SystemExit("\n".join(problems))


def measure(besieged: Besieged, decoy: Besieged, arguments: argparse.Namespace) -> dict[str, Any]:
    pid = besieged.server.pid
    honest = Honest(besieged, arguments.committers)
    asyncio.run(honest.run("warm-up", min(10.0, arguments.quiet_seconds)))
    quiet = asyncio.run(honest.run("quiet", arguments.quiet_seconds))
    before = Usage.of(pid)
    with attacking(decoy, arguments.only) as elsewhere:
        contended = asyncio.run(honest.run("contended", arguments.quiet_seconds))
    settle(decoy.server.pid, before)
    beside = Usage.of(pid)
    with attacking(besieged, arguments.only) as counts:
        attacked = asyncio.run(honest.run("besieged", 60 * arguments.minutes))
        during = Usage.of(pid)
    after = settle(pid, before)
    afterwards = asyncio.run(honest.run("afterwards", arguments.quiet_seconds))
    return {
        "phases": [asdict(each) for each in (quiet, contended, attacked, afterwards)],
        "usage": {
            "quiet": asdict(before),
            "contended": asdict(beside),
            "besieged": asdict(during),
            "afterwards": asdict(after),
        },
        "attacks": counts,
        "attacks_elsewhere": elsewhere,
    }


def settle(pid: int, before: Usage) -> Usage:
    """Wait until the server has closed what attackers left, or for as long as it may take."""
    most = before.descriptors + DESCRIPTORS_LEFT_MAX
    eventually(lambda: Usage.of(pid).descriptors <= most, SETTLE_SECONDS)
    return Usage.of(pid)


class Honest:
    """Committers, each with a token of its own and a key of its own in a table; loaders, who share a token."""

    def __init__(self, besieged: Besieged, committers: int) -> None:
        self._besieged = besieged
        self._committers = committers

    def _client(self, caller: str) -> Client:
        return Client(self._besieged.port, HONEST, self._besieged.tokens[caller])

    async def run(self, name: str, seconds: float) -> Phase:
        """All of them at once for so long."""
        phase = Phase(name)
        started, meter = time.monotonic(), instruments.CpuMeter(self._besieged.pids)
        end = started + seconds
        committers = [self._commit(phase, number, end) for number in range(self._committers)]
        loaders = [self._load(phase, number, end) for number in range(LOADERS)]
        acknowledged, _ = await asyncio.gather(asyncio.gather(*committers), asyncio.gather(*loaders))
        ended = time.monotonic()
        phase.wall, phase.cpu = ended - started, meter.used()
        phase.stalls = stalls_of(self._besieged.stalls, started, ended)
        for number, value in enumerate(acknowledged):
            client = self._client(LOADER)
            _, body = await client.ask("GET", _table(number))
            client.close()
            phase.lost += orjson.loads(body)["metadata"]["properties"].get(f"writer-{number}") != value
        return phase

    async def _commit(self, phase: Phase, number: int, end: float) -> str | None:
        """The last value that the server acknowledged."""
        client = self._client(_committer(number))
        acknowledged = None
        for count in itertools.count():
            if time.monotonic() > end:
                break
            value = f"{phase.name}-{count}"
            update = {"action": "set-properties", "updates": {f"writer-{number}": value}}
            started = time.monotonic()
            if await self._ask(phase, client, "POST", _table(number), {"requirements": [], "updates": [update]}):
                phase.seconds.append(time.monotonic() - started)
                acknowledged = value
            await asyncio.sleep(PAUSE_SECONDS)
        client.close()
        return acknowledged

    async def _load(self, phase: Phase, number: int, end: float) -> None:
        client = self._client(LOADER)
        while time.monotonic() < end:
            started = time.monotonic()
            if await self._ask(phase, client, "GET", _table(number)):
                phase.loads.append(time.monotonic() - started)
            await asyncio.sleep(PAUSE_SECONDS)
        client.close()

    async def _ask(self, phase: Phase, client: Client, method: str, path: str, body: Any = None) -> bool:
        """Whether it succeeded, in the end."""
        sent = b"" if body is None else orjson.dumps(body)
        while True:
            try:
                status, answer = await client.ask(method, path, sent)
            except (OSError, EOFError, TimeoutError) as error:
                phase.failed[f"{method} {type(error).__name__}: {error}"] += 1
                return False
            if status == 200:
                return True
            if status not in (429, 503):
                phase.failed[f"{method} {status} {answer[:200].decode()}"] += 1
                return False
            phase.deferred += 1
            await asyncio.sleep(RETRY_SECONDS)


def _committer(number: int) -> str:
    return f"committer-{number}"


def _table(number: int) -> str:
    return f"/v1/namespaces/{NAMESPACE}/tables/t{number % TABLES}"


def show(found: dict[str, Any]) -> list[str]:
    """Print the tables. Returns what is not as it should be."""
    phases, usage = found["phases"], found["usage"]
    rows = []
    for each in phases:
        commits, loads = each["seconds"] or [math.nan], each["loads"] or [math.nan]
        used = usage[each["name"]]
        rows.append(
            [
                each["name"],
                len(each["seconds"]),
                sum(each["failed"].values()),
                each["lost"],
                each["deferred"],
                *(f"{instruments.quantile(commits, share) * 1000:.0f}" for share in (0.5, 0.99, 1)),
                f"{instruments.quantile(loads, 0.99) * 1000:.0f}",
                *(f"{100 * each['cpu'][of] / each['wall']:.0f}" for of in ("server", "metastore")),
                len(each["stalls"]),
                f"{1000 * max((stall.late for stall in each['stalls']), default=0):.0f}",
                f"{1000 * max((stall.computed for stall in each['stalls']), default=0):.0f}",
                used["threads"],
                used["descriptors"],
                f"{used['peak'] / 2**20:.0f}",
            ]
        )
    latencies = ["median ms", "p99 ms", "longest ms", "load p99 ms"]
    loop = ["CPU %", "HMS %", "stalls", "longest", "computed"]
    header = ["", "commits", "failed", "lost", "deferred", *latencies, *loop, "threads", "descriptors", "peak MiB"]
    instruments.print_table(header, rows)
    print()
    elsewhere = found["attacks_elsewhere"]
    attacks = [
        [name, sum(elsewhere[name].values()), sum(each.values()), _counted(each)]
        for name, each in found["attacks"].items()
    ]
    instruments.print_table(["attack", "elsewhere", "sent", "what came of it"], attacks)
    print()
    ratios = (f"{p99_ratio(phases, name):.2f} times the {name} one" for name in ("contended", "quiet"))
    print(f"p99 of besieged commits: {', '.join(ratios)}")
    return problems_of(phases, usage)


def _counted(results: dict[str, int]) -> str:
    return ", ".join(f"{count} x {result}" for result, count in sorted(results.items()))


def problems_of(phases: Sequence[dict[str, Any]], usage: dict[str, Any]) -> list[str]:
    problems = []
    for each in phases:
        problems += [f"{each['name']}: {count} x {failure}" for failure, count in each["failed"].items()]
        if each["lost"]:
            problems.append(f"{each['name']}: {each['lost']} acknowledged commits are lost")
    if (ratio := p99_ratio(phases, "contended")) >= RATIO_MAX:
        problems.append(f"the p99 of commits is {ratio:.1f} times the contended one")
    if (peak := max(each["peak"] for each in usage.values())) >= MEMORY_MAX:
        problems.append(f"the server took {peak / 2**20:.0f} MiB")
    left = usage["afterwards"]["descriptors"] - usage["quiet"]["descriptors"]
    if left > DESCRIPTORS_LEFT_MAX:
        problems.append(f"{left} descriptors are left")
    return problems


def p99_ratio(phases: Sequence[dict[str, Any]], to: str) -> float:
    """The 99th percentile of the besieged commits, in those of another phase."""
    p99 = {each["name"]: instruments.quantile(each["seconds"] or [math.inf], 0.99) for each in phases}
    return p99["besieged"] / p99[to]


if __name__ == "__main__":
    siege()
