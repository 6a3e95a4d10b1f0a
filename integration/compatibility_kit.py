"""Iceberg's REST compatibility kit (RCK): its tests of a REST catalog's server, run against a server of ours.

The kit is published as test jars. The Ivy that comes with pyspark fetches them, into its own cache, so Maven need not
be installed. Each run is a JVM of JUnit's console launcher, whose report says what came of each test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from iceberg_hms.errors import EngineError
from iceberg_hms.local.gateway import QUICK_START, find_java, spark_jars
from iceberg_hms.spark.configuration import ICEBERG_RUNTIME

HERE = Path(__file__).parent / "kit"
ICEBERG_VERSION = ICEBERG_RUNTIME.rpartition(":")[2]
SUITES = ("RESTCompatibilityKitCatalogTests", "RESTCompatibilityKitViewCatalogTests")
#: What the kit expects of the server: a table needs its database, as in the metastore.
OPTIONS = ("-Drck.local=false", "-Drck.requires-namespace-create=true")
#: Where the kit asks for some of its tables, whatever the server's warehouse is (CatalogTests.BASE_TABLE_LOCATION).
LOCATIONS = "file:/tmp"
_FOLDERS = (Path("/tmp/newdb"), Path("/tmp/ns"))

FETCH_ATTEMPTS = 3
#: The jars have 25 MB.
FETCH_SECONDS = 300
#: A run takes 20 s on an idle machine with two cores.
RUN_SECONDS = 600


@dataclass(frozen=True)
class Results:
    """What came of the kit's tests. passed: their names. failed: name -> message.
    assumed_away: those for catalogs that can more than a metastore."""

    passed: tuple[str, ...]
    failed: dict[str, str]
    assumed_away: tuple[str, ...]

    def __str__(self) -> str:
        """The failed tests with their messages."""
        return "\n".join(f"{name}: {message}" for name, message in sorted(self.failed.items()))


def fetch(folder: Path, what: str = "kit") -> str:
    """The class path of the `kit`, or of the `reference` server; its jars are fetched unless they are in Ivy's cache.
    folder: for small files. Raises EngineError, after three attempts to bridge a failure of the network."""
    jars = spark_jars()
    (ivy,) = jars.glob("ivy-*.jar")
    found = folder / "classpath"
    command = [find_java(), *QUICK_START, f"-Diceberg.version={ICEBERG_VERSION}", "-classpath", str(ivy)]
    command += ["org.apache.ivy.Main", "-settings", str(HERE / "ivysettings.xml"), "-ivy", str(HERE / "ivy.xml")]
    command += ["-confs", what, "-types", "jar", "bundle", "-error", "-cachepath", str(found)]
    for _ in range(FETCH_ATTEMPTS):
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        if ended.returncode == 0:
            hadoop = sorted(map(str, jars.glob("hadoop-client-*.jar")))
            return os.pathsep.join([found.read_text(encoding="utf-8").strip(), *hadoop])
    raise EngineError(
        f"Ivy could not fetch Iceberg's compatibility kit:\n{ended.stdout}{ended.stderr}",
        next_step="see whether the package registry is in reach, then run the tests again",
    )


def run(uri: str, token: str, folder: Path) -> Results:
    """Run the whole kit against a server. folder: empty. Raises EngineError if the kit does not run to its end."""
    options = [*OPTIONS, f"-Duri={uri}", f"-Dtoken={token}", f"-Djava.io.tmpdir={folder}", "-Xmx512m"]
    command = [find_java(), *QUICK_START, *options, "-classpath", fetch(folder)]
    command += ["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=none"]
    command += [f"--select-class=org.apache.iceberg.rest.{suite}" for suite in SUITES]
    with _cleared():
        ended = subprocess.run(
            [*command, f"--reports-dir={folder}/reports"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    report = folder / "reports" / "TEST-junit-jupiter.xml"
    if not report.is_file():
        raise EngineError(f"The compatibility kit did not run:\n{ended.stdout}{ended.stderr}", next_step="")
    return _read(report)


@contextmanager
def _cleared() -> Iterator[None]:
    """Removes the kit's tables in LOCATIONS afterwards, unless somebody else's files were there before."""
    ours = [folder for folder in _FOLDERS if not folder.exists()]
    try:
        yield
    finally:
        for folder in ours:
            shutil.rmtree(folder, ignore_errors=True)


def _read(report: Path) -> Results:
    passed, failed, assumed_away = [], {}, []
    for test in ElementTree.parse(report).iter("testcase"):
        name = f"{test.get('classname', '').rpartition('.')[2]}.{test.get('name')}"
        problem = next((each for each in test if each.tag in ("failure", "error")), None)
        if problem is not None:
            failed[name] = (problem.text or problem.get("message") or "").strip()
        elif test.find("skipped") is not None:
            assumed_away.append(name)
        else:
            passed.append(name)
    return Results(tuple(passed), failed, tuple(assumed_away))
