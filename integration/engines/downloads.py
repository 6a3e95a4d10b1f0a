"""The jars of an engine, which come through Maven by the list in `engines/<name>/pom.xml` and stay below
`build/engines/`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from iceberg_hms.errors import EngineError

ROOT = Path(__file__).parents[2]
COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
#: Seconds: the first download of a release of the metastore is about 100 MB.
DOWNLOAD_LIMIT = 600.0


def downloaded(name: str, finish: Callable[[Path], None] = lambda _: None) -> Path:
    """The folder of an engine, with its `jars/`; downloaded when its pom.xml changed. finish: called with a folder that
    was just downloaded. Raises EngineError if it must be downloaded and Maven is not installed."""
    pom = ROOT / "integration" / "engines" / name / "pom.xml"
    there = ROOT / "build" / "engines" / name
    wanted = pom.read_bytes()
    if _content(there / "pom.xml") == wanted:
        return there
    there.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=there.parent) as folder:
        fresh = Path(folder) / name
        _download(pom, fresh / "jars")
        finish(fresh)
        (fresh / "pom.xml").write_bytes(wanted)
        shutil.rmtree(there, ignore_errors=True)
        fresh.rename(there)
    return there


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _download(pom: Path, jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise EngineError("Maven, which downloads this engine, is not installed", next_step="apt install maven")
    command = [maven, "-q", "-B", "-f", str(pom), COPY_JARS, "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_LIMIT)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
