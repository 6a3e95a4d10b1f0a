"""What a run makes of its checks, without an engine."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Semaphore, Thread

import httpx
import pytest

from labs.clients import contention, lost_answers, results, table
from labs.clients.checks import CHECKS, GROUPS
from labs.clients.contention import Creator, Tally, Writer
from labs.clients.lab import Lab
from labs.clients.results import Result

WORKS = Result("Trino, REST", "476", "insert", "works")
REFUSED = Result("DuckDB", "1.5.5", "replace", "refused", "no CREATE OR REPLACE: irc_schema_entry.cpp")


def test_no_check_is_in_two_groups() -> None:
    assert len(CHECKS) == sum(len(group) for group in GROUPS.values())


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert results.read("trino", tmp_path) == []
    results.write("trino", [WORKS, REFUSED], tmp_path)
    assert results.read("trino", tmp_path) == [WORKS, REFUSED]


def test_a_new_result_takes_the_place_of_the_old_one() -> None:
    new = Result("Trino, REST", "477", "insert", "differs", "why")
    assert results.merged([WORKS, REFUSED], [new]) == [new, REFUSED]


def test_an_outcome_that_is_not_the_recorded_one_is_named() -> None:
    worse = Result("Trino, REST", "476", "insert", "refused", "why")
    assert results.changes([WORKS], [worse]) == ["Trino, REST, insert: refused (why), recorded: works"]
    assert results.changes([WORKS], [WORKS, REFUSED]) == []


def test_the_page_has_a_column_for_each_client_and_the_notes_below() -> None:
    also = Result("DuckDB, again", "1.5.5", "replace", "refused", REFUSED.note)
    text = table.generate([WORKS, REFUSED, also])
    assert "| Trino, REST | 476 | 1 | 0 | 0 |" in text
    assert "| | Trino, REST | DuckDB | DuckDB, again |" in text
    assert "| replace: CREATE OR REPLACE; the history stays |  | refused (1) | refused (1) |" in text
    assert text.splitlines()[-1] == f"1. *replace*, DuckDB and DuckDB, again: {REFUSED.note}"


def test_a_page_without_a_place_for_the_tables_is_refused() -> None:
    with pytest.raises(ValueError, match="the page has no"):
        table.replaced("# Engines\n", "| |")
    assert table.replaced(f"a\n{table.BEGIN}\nold\n{table.END}\nb", "new") == f"a\n{table.BEGIN}\nnew\n{table.END}\nb"


def test_a_lost_answer_reaches_the_server_and_not_its_client(tmp_path: Path) -> None:
    asked: list[str] = []

    class Origin(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Origin) as origin:
        thread = Thread(target=origin.serve_forever, daemon=True)
        thread.start()
        lab = Lab(f"http://127.0.0.1:{origin.server_port}", "", "", tmp_path, None)
        with lost_answers.between(lab) as way:
            commit = f"{way.lab.uri}/v1/namespaces/n/tables/t"
            assert httpx.post(commit, content=b"{}").status_code == 200
            way.losing = True
            with pytest.raises(httpx.RemoteProtocolError):
                httpx.post(commit, content=b"{}")
            assert httpx.post(f"{commit}/metrics", content=b"{}").status_code == 200
        origin.shutdown()
        thread.join()
    assert way.statuses == [200]
    assert asked == ["/v1/namespaces/n/tables/t"] * 2 + ["/v1/namespaces/n/tables/t/metrics"]


def test_writers_insert_unique_ids_until_the_time_is_over() -> None:
    there: list[int] = []

    def refuse(id_: int) -> None:
        raise ValueError(id_)

    def sometimes(id_: int) -> None:
        there.append(id_)
        if id_ % 2:
            raise TimeoutError(id_)

    always, never, unknown = contention.run(
        [
            Writer("one", there.append),
            Writer("two", refuse),
            Writer("three", sometimes, lambda error: isinstance(error, TimeoutError)),
        ],
        seconds=0.05,
    )
    assert always.acknowledged
    assert not always.refused
    assert never.refused
    assert not never.acknowledged
    assert unknown.unknown
    assert contention.check([always, unknown], there).startswith(f"one: {len(always.acknowledged)}; three: ")


def test_of_those_who_create_one_table_one_must_win_and_the_others_must_learn_why() -> None:
    gate = Semaphore(1)

    def create() -> None:
        if not gate.acquire(blocking=False):
            raise ValueError("already exists")

    told = Creator("one", create, lambda error: "exists" in str(error))
    contention.create([told] * 3)
    gate.release()
    with pytest.raises(AssertionError, match="two: ValueError: already exists"):
        contention.create([told, *[Creator("two", create, lambda error: False)] * 2])
    with pytest.raises(AssertionError, match="'won', 'won'"):
        contention.create([Creator("three", lambda: None, lambda error: False)] * 2)


@pytest.mark.parametrize(
    ("present", "wrong"),
    [([1], "lost: \\[2\\]"), ([1, 2, 2], "more than once"), ([1, 2, 3], "failed, and present"), ([1, 2, 9], "nobody")],
)
def test_a_lost_or_doubled_or_unexpected_row_is_found(present: list[int], wrong: str) -> None:
    tally = Tally("one", [1, 2], {3: ValueError("no")}, {4: TimeoutError("perhaps")})
    assert contention.check([tally], [1, 2, 4]) == "one: 2, 1 refused for good, 1 unknown"
    with pytest.raises(AssertionError, match=wrong):
        contention.check([tally], present)
