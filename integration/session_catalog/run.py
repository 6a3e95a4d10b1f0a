"""Chapters in one session, as a program of its own, and what came of each statement.

    python -m integration.session_catalog.run < work.json

The work: `kind`, `metastore_uri`, `warehouse`, `server_uri`, `settings`, `folder`, `chapters`. The last line of its
output: the answers, by chapter.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from integration.session_catalog import frames
from integration.session_catalog.chapters import CHAPTERS, PYTHON, Chapter
from integration.session_catalog.sessions import java_exception, open_session

#: What a statement takes from a table: `@snapshot(t, 1)` is the id of its first snapshot, `@time(t, 1)` when that was
#: committed, `@file(t, 1)` its first data file by path, `@metadata(t, 1)` its first metadata file.
_TAKEN: Final = re.compile(r"@(snapshot|time|file|metadata)\((\S+), (\d+)\)")
_QUERIES: Final = {
    "snapshot": "SELECT snapshot_id FROM {}.snapshots ORDER BY committed_at",
    "time": "SELECT CAST(committed_at AS STRING) FROM {}.snapshots ORDER BY committed_at",
    "file": "SELECT file_path FROM {}.files ORDER BY file_path",
    "metadata": "SELECT file FROM {}.metadata_log_entries ORDER BY timestamp",
}
#: What differs from run to run: ids of snapshots and tables, times, sizes, names of files.
_CHANGING: Final = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
    (r"datetime\.datetime\([\d, ]+\)", "<time>"),
    (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?", "<time>"),
    (r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d UTC \d{4}", "<time>"),
    (r"\b\d{15,19}\b", "<id>"),
    (r"\b1[789]\d{11}\b", "<ms>"),
    (r"\b1[789]\d{8}\b", "<s>"),
    (r"\b\d{5}-\d+-<uuid>", "<file>"),
)


#: Below the folder of a session: where a server that runs elsewhere lets its clients put tables, too.
INSIDE: Final = "inside"


@dataclass(frozen=True)
class Answer:
    """What came of one statement.

    columns: names and types. rows: each as text; sorted, but for descriptions. error: Spark's error condition, or the
    Java exception's class. message: its first line.
    """

    statement: str
    columns: str = ""
    rows: Sequence[str] = field(default_factory=list)
    error: str | None = None
    message: str = ""

    def __str__(self) -> str:
        return self.error or ", ".join(self.rows) or "nothing"


@dataclass(frozen=True)
class Place:
    """Where a chapter works. database, other: two databases of its own. folder: a location for files. outside: another
    one, which a server that runs elsewhere does not allow."""

    database: str
    other: str
    folder: str
    outside: str
    warehouse: str

    def fill(self, text: str) -> str:
        text = re.sub(r"\bDB\b", self.database, text.replace("OTHER", self.other))
        return re.sub(r"\bOUT\b", self.outside, re.sub(r"\bDIR\b", self.folder, text))

    def anonymous(self, text: str) -> str:
        for name, placeholder in (
            (_path(self.folder), "DIR"),
            (_path(self.outside), "OUT"),
            (_path(self.warehouse), "WAREHOUSE"),
            (self.other, "OTHER"),
            (self.database, "DB"),
        ):
            text = re.sub(re.escape(name), placeholder, text, flags=re.IGNORECASE)
        for pattern, placeholder in _CHANGING:
            text = re.sub(pattern, placeholder, text)
        return text


def answer(spark: Any, statement: str, place: Place) -> Answer:
    """Run one statement or expression; whatever Spark raises is its answer."""
    try:
        text = _TAKEN.sub(lambda found: _take(spark, *found.groups()), place.fill(statement))
        if text.startswith(PYTHON):
            given = frames.evaluate(spark, text.removeprefix(PYTHON), place.folder)
        else:
            given = spark.sql(text)
        columns, rows = _rows(given)
    except Exception as error:  # noqa: BLE001 - py4j and Spark raise many types, and any of them is an answer
        condition = getattr(error, "getCondition", lambda: None)()
        thrown = java_exception(error)
        name = type(error).__name__ if thrown is None else str(thrown.getClass().getName())
        message = str(error) if thrown is None else str(thrown.toString())
        first = place.anonymous(message).strip().splitlines()
        return Answer(statement, error=condition or name, message=first[0] if first else "")
    rows = [place.anonymous(row) for row in rows]
    ordered = rows if statement.startswith(("DESC", "SHOW CREATE")) else sorted(rows)
    return Answer(statement, place.anonymous(columns), ordered)


def _path(location: str) -> str:
    return location.removeprefix("file:").replace("//", "/")


def _take(spark: Any, what: str, table: str, number: str) -> str:
    return str(spark.sql(_QUERIES[what].format(table)).collect()[int(number) - 1][0])


def _rows(given: Any) -> tuple[str, list[str]]:
    from pyspark.sql import DataFrame

    if isinstance(given, DataFrame):
        rows = [str(tuple(row)) for row in given.collect()]
        return ", ".join(f"{column.name} {column.dataType.simpleString()}" for column in given.schema), rows
    if given is None:
        return "", []
    return "", [str(each) for each in given] if isinstance(given, list) else [str(given)]


def run_chapter(spark: Any, chapter: Chapter, place: Place) -> list[Answer]:
    """The answers; the session is left as it was."""
    for database in (place.database, place.other):
        spark.sql(f"CREATE DATABASE {database}")
    try:
        return [answer(spark, statement, place) for statement in chapter.statements]
    finally:
        spark.sql("USE spark_catalog.default")
        spark.catalog.clearCache()


def place_of(kind: str, chapter: Chapter, warehouse: str, folder: str) -> Place:
    """kind: what tells the databases of several runs on one metastore apart. folder: for files of all chapters."""
    # One letter for the kind: lengths of locations, and so sizes of files, are the same for all.
    name = f"sc_{kind[0]}_{chapter.name}"
    return Place(name, f"{name}_other", f"file:{folder}/{INSIDE}/{name}", f"file:{folder}/outside/{name}", warehouse)


def main(work: Mapping[str, Any]) -> dict[str, list[Answer]]:
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    spark = open_session(work)
    try:
        return {
            chapter.name: run_chapter(
                spark, chapter, place_of(work["kind"], chapter, work["warehouse"], work["folder"])
            )
            for chapter in CHAPTERS
            if chapter.name in work["chapters"]
        }
    finally:
        spark.stop()


if __name__ == "__main__":
    answers = main(json.loads(sys.stdin.readline()))
    sys.stdout.write(json.dumps({name: [asdict(one) for one in made] for name, made in answers.items()}) + "\n")
