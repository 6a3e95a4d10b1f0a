"""What the benchmarks print, and the raw results that they keep."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as they need to be; the first to the left, the others to the right."""
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join([first.strip().ljust(widths[0]), *others]))


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def machine() -> dict[str, Any]:
    """What the results of this moment depend on, and no setting tells."""
    return {
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "iceberg-hms": importlib.metadata.version("iceberg-hms"),
    }


def keep(folder: Path, name: str, settings: Mapping[str, Any], results: Any) -> None:
    """Write raw results as JSON, with all that they depend on."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = {"benchmark": name, "settings": dict(settings), "machine": machine(), "results": results}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(raw, indent=1, default=str))
    print(f"raw results: {path}")
