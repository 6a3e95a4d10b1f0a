"""What one request of each attack costs the server, whatever else the machine does.

    python -m labs.siege.attack_costs --seconds 5

Each attack of labs/siege/attackers.py alone, on a server without other clients. Prints CPU milliseconds of the
server and of its metastore for each request that was answered, and the share of one processor that the attack took,
less what both take without an attack. Seconds of a loaded machine are longer, CPU seconds hardly are. The longest stall
is the most CPU time, in ms, that the server took while a timer of its event loop was late.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks import instruments
from labs.siege.attackers import ATTACKS, place_bombs
from labs.siege.besieged import Besieged, attacking, besieged_server
from labs.siege.loop_probe import stalls_of


def main() -> None:
    options = instruments.parser(__doc__)
    options.add_argument("--seconds", type=float, default=5.0, help="of each attack")
    options.add_argument("--only", action="append", default=[], metavar="ATTACK", help="this one; may be repeated")
    options.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder,
        besieged_server(Path(folder), arguments.out / "attack_costs.log", []) as besieged,
    ):
        names = arguments.only or (*ATTACKS, *place_bombs(besieged.evil))
        started, meter = time.monotonic(), instruments.CpuMeter(besieged.pids)
        _wait(arguments.seconds)
        wall = time.monotonic() - started
        idle = {name: used / wall for name, used in meter.used().items()}
        show("attack", "requests", "server ms", "metastore ms", "CPU %", "longest stall")
        found = {}
        for name in names:
            found[name] = cost(besieged, name, arguments.seconds, idle)
            show(name, *_figures(found[name]))
    instruments.keep(arguments.out, "attack_costs", vars(arguments), found)


def cost(besieged: Besieged, name: str, seconds: float, idle: dict[str, float]) -> dict[str, Any]:
    """The CPU time that the server and the metastore take for one attack. idle: what they take without one, in CPU
    seconds a second."""
    meter, started = instruments.CpuMeter(besieged.pids), time.monotonic()
    with attacking(besieged, [name]) as counts:
        _wait(seconds)
        used, ended = meter.used(), time.monotonic()
    wall, stalls = ended - started, stalls_of(besieged.stalls, started, ended)
    used = {of: max(0.0, used[of] - wall * idle[of]) for of in used}
    return {"used": used, "wall": wall, "stalls": stalls, "counts": counts[name]}


def _wait(seconds: float) -> None:
    # Nothing says that so much time is over but a clock.
    threading.Event().wait(seconds)


def _figures(found: dict[str, Any]) -> list[str]:
    sent, used = sum(found["counts"].values()), found["used"]
    each = [f"{1000 * used[of] / sent:.2f}" if sent else "-" for of in ("server", "metastore")]
    share = 100 * used["server"] / found["wall"]
    stall = 1000 * max((each.computed for each in found["stalls"]), default=0)
    return [str(sent), *each, f"{share:.0f}", f"{stall:.0f}"]


def show(name: str, *figures: str) -> None:
    """Print a line at once: all attacks take minutes."""
    print(name.ljust(20), *(figure.rjust(13) for figure in figures), flush=True)


if __name__ == "__main__":
    main()
