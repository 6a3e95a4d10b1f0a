"""The chapters in a session of each kind, each in a process of its own on one metastore; where their answers differ."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.metastore.connection.pool import ClientPool
from integration.session_catalog.chapters import CHAPTERS, Chapter
from integration.session_catalog.differences import Differing
from integration.session_catalog.run import INSIDE, Answer, Place, place_of
from integration.session_catalog.sessions import session_work
from integration.spark_fixtures import SETTINGS, run_elsewhere, start_program

OURS: Final = ("embedded", "stand-alone")
HIVE: Final = "hive"
#: The errors of a session's process, in its folder.
LOG: Final = "errors.log"
#: A session and all chapters, on a busy machine.
KIND_SECONDS: Final = 1800


@dataclass(frozen=True)
class Run:
    """What a session of one kind answered, by chapter."""

    kind: str
    answers: Mapping[str, Sequence[Answer]]


@dataclass(frozen=True)
class Found:
    """A statement that two kinds answer differently. number: which of the chapter's statements, from 1."""

    chapter: str
    number: int
    ours: Answer
    hive: Answer


def allowing(folder: Path) -> Sequence[str]:
    """The options of a server for the sessions of which `run_kinds` makes folders in this one."""
    places = ",".join(f"file:{folder}/{kind[0]}/{INSIDE}" for kind in OURS)
    return ("--set", f"rest.allowed-locations={places}")


def run_kinds(
    metastore: LocalMetastore, kinds: Sequence[str], server_uri: str, chapters: Sequence[str], folder: Path
) -> dict[str, Run]:
    """Run the chapters of these names in a session of each kind, in processes of their own, all at the same time."""
    with ExitStack() as stack:
        started = {kind: _start(metastore, kind, server_uri, chapters, folder / kind[0]) for kind in kinds}
        for process in started.values():
            stack.callback(process.kill)
        return {kind: _end(process, kind, folder / kind[0]) for kind, process in started.items()}


def _start(
    metastore: LocalMetastore, kind: str, server_uri: str, chapters: Sequence[str], folder: Path
) -> subprocess.Popen[str]:
    folder.mkdir(parents=True)
    settings = {**SETTINGS, "spark.local.dir": str(folder / "spark")}
    work = session_work(metastore, kind, server_uri, settings, folder=str(folder), chapters=list(chapters))
    return start_program("integration.session_catalog.run", work, folder / LOG)


def _end(process: subprocess.Popen[str], kind: str, folder: Path) -> Run:
    output, _ = process.communicate(timeout=KIND_SECONDS)
    assert process.returncode == 0, (folder / LOG).read_text()[-4000:]
    answers = json.loads(output.splitlines()[-1])
    return Run(kind, {name: [Answer(**one) for one in made] for name, made in answers.items()})


def differences(ours: Run, hive: Run) -> Iterator[Found]:
    """Where the answers are not the same: columns, rows, or the class of the error."""
    for chapter, answers in ours.answers.items():
        pairs = zip(answers, hive.answers[chapter], strict=True)
        for number, (our, other) in enumerate(pairs, 1):
            if (our.columns, list(our.rows), our.error) != (other.columns, list(other.rows), other.error):
                yield Found(chapter, number, our, other)


def is_iceberg(row: Any) -> bool:
    """Whether the metastore's row is that of an Iceberg table or view."""
    return str(row.parameters.get("table_type", "")).lower().startswith("iceberg")


def hive_rows(metastore: LocalMetastore, places: Mapping[str, Place], folder: Path) -> dict[str, dict[str, list[str]]]:
    """Each Hive table in the databases of the places, as plain Spark reads it: by place, `DB.t` -> rows."""
    pool = ClientPool([metastore.uri])

    def call(method: str, **arguments: str) -> Any:
        return pool.ask(method, **arguments)

    try:
        there = call("get_all_databases")
        tables = [
            (key, f"{name}.{table}", f"SELECT * FROM {database}.`{table}`")
            for key, place in places.items()
            for name, database in (("DB", place.database), ("OTHER", place.other))
            if database in there
            for table in call("get_all_tables", db_name=database)
            if not is_iceberg(call("get_table", dbname=database, tbl_name=table))
        ]
    finally:
        pool.close()
    read = run_elsewhere(metastore, "plain", [query for *_, query in tables], folder)
    found: dict[str, dict[str, list[str]]] = {key: {} for key in places}
    for (key, name, _), answer in zip(tables, read, strict=True):
        found[key][name] = answer.rows if answer.error is None else [f"{answer.error}: {answer.message}"]
    return found


def lost_rows(metastore: LocalMetastore, kinds: Sequence[str], chapters: Sequence[Chapter], folder: Path) -> list[str]:
    """Which Hive tables do not have the rows that their chapter says, read by Spark without any Iceberg catalog."""
    places = {
        f"{kind} {chapter.name}": place_of(kind, chapter, metastore.warehouse, str(folder))
        for kind in kinds
        for chapter in chapters
    }
    found = hive_rows(metastore, places, folder)
    wrong = []
    for kind in kinds:
        for chapter in chapters:
            wanted = {table: sorted(rows) for table, rows in chapter.keeps.items()}
            given = found[f"{kind} {chapter.name}"]
            wrong += [
                f"{kind}, {chapter.name}, {table}: {given.get(table, 'no such table')}, not {wanted.get(table)}"
                for table in sorted(wanted.keys() | given.keys())
                if given.get(table) != wanted.get(table)
            ]
    return wrong


def chosen(names: Sequence[str]) -> list[Chapter]:
    """The chapters of these names, or all."""
    return [chapter for chapter in CHAPTERS if not names or chapter.name in names]


#: Where an answer of many lines or properties is cut, to show the parts that differ.
_PARTS: Final = re.compile(r"\\n|, (?=[\w.-]+=)")


def shown(one: Answer, other: Answer) -> str:
    """An answer as people read it beside another one: what the other one does not have."""
    if one.error:
        return one.error.rpartition(".")[2] if one.error.startswith(("java.", "org.")) else one.error
    if one.columns != other.columns and not other.error:
        return one.columns
    there = {part for row in other.rows for part in (row, *_PARTS.split(row))}
    parts = [part for row in one.rows if row not in there for part in _PARTS.split(row) if part not in there]
    return ", ".join(part.strip() for part in parts) or ("works" if not one.rows else "without that row")


def differing_answers(ours: Run, hive: Run) -> set[Differing]:
    """The differences as `differences.py` lists them."""
    return {
        (one.chapter, one.ours.statement, shown(one.ours, one.hive), shown(one.hive, one.ours))
        for one in differences(ours, hive)
    }


#: What `type=hive` answered to the sample: `python -m integration.session_catalog --record` writes it.
RECORDED: Final = Path(__file__).parent / "recorded.json"


def recorded() -> Run:
    """The recorded answers of `type=hive` to the sample."""
    made = json.loads(RECORDED.read_text(encoding="utf-8"))
    return Run(HIVE, {"sample": [Answer(**one) for one in made]})
