"""A server does not wait for its log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from iceberg_hms.cli import logs
from iceberg_hms.errors import ConfigError

LOG = logging.getLogger("iceberg_hms.tests.logs")


class Kept(logging.Handler):
    """Keeps messages, and writes none before `gate` opens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.messages: list[str] = []
        self.threads: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        assert self.gate.wait(30)
        self.messages.append(record.getMessage())
        self.threads.add(threading.current_thread().name)


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    root = logging.getLogger()
    before, level = list(root.handlers), LOG.level
    root.handlers[:] = [handler]
    LOG.setLevel(logging.INFO)
    yield handler
    root.handlers[:] = before
    LOG.setLevel(level)


def test_lines_are_written_in_order_by_a_thread_of_their_own_and_all_before_the_end(kept: Kept) -> None:
    kept.gate.set()
    before = list(logging.getLogger().handlers)
    with logs.in_background():
        for number in range(100):
            LOG.info("line %d", number)
    assert kept.messages == [f"line {number}" for number in range(100)]
    assert kept.threads == {"log"}
    assert logging.getLogger().handlers == before


def test_callers_never_wait_for_a_log_that_nobody_reads_and_the_log_counts_dropped_lines(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LINES_MAX", 5)
    with logs.in_background():
        for number in range(50):
            LOG.info("line %d", number)
        kept.gate.set()
    assert kept.messages[0] == "line 0"
    lost = 50 - sum(message.startswith("line") for message in kept.messages)
    assert lost in (44, 45)
    assert f"{lost} lines were dropped: the log was not read fast enough" in kept.messages


def test_the_end_does_not_wait_for_ever(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "END_SECONDS", 0.01)
    with logs.in_background():
        LOG.info("never written before the end")
    assert kept.messages == []
    kept.gate.set()


def test_a_server_does_not_look_up_who_wrote_a_line_and_others_do(kept: Kept) -> None:
    kept.gate.set()
    records: list[logging.LogRecord] = []
    kept.addFilter(lambda record: bool(records.append(record)) or True)
    with logs.in_background():
        LOG.info("of a server")
    LOG.info("of another program")
    assert [(record.lineno > 0, record.threadName is None) for record in records] == [(False, True), (True, False)]


class Stream:
    """Keeps what is written, and refuses the first `refused` writes."""

    def __init__(self, refused: int = 0) -> None:
        self.written: list[str] = []
        self.flushed = 0
        self._refused = refused

    def write(self, text: str) -> None:
        if self._refused:
            self._refused -= 1
            raise BrokenPipeError
        self.written.append(text)

    def flush(self) -> None:
        self.flushed += 1


@pytest.mark.usefixtures("kept")
def test_lines_that_come_together_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # The thread waits for the end of the block, when all are there.
    monkeypatch.setattr(logs, "BATCH_SECONDS", 30)
    stream = Stream()
    handler = logging.StreamHandler(stream)
    handler.addFilter(lambda record: "secret" not in record.getMessage())
    logging.getLogger().handlers[:] = [handler]
    with logs.in_background():
        for text in ("one", "secret", "two\n", "three"):
            LOG.info(text)
    assert stream.written == ["one\ntwo\n\nthree\n"]
    assert stream.flushed == 1


@pytest.mark.usefixtures("kept")
def test_no_more_lines_are_written_at_a_time_than_memory_should_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "BATCH_MAX", 2)
    stream = Stream()
    logging.getLogger().handlers[:] = [logging.StreamHandler(stream)]
    with logs.in_background():
        for number in range(8):
            LOG.info("%d", number)
    assert "".join(stream.written) == "".join(f"{number}\n" for number in range(8))
    assert max(map(len, stream.written)) <= len("0\n1\n2\n")


@pytest.mark.usefixtures("kept")
def test_lines_that_cannot_be_written_stop_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "BATCH_MAX", 0)
    stream = Stream(refused=1)
    logging.getLogger().handlers[:] = [logging.StreamHandler(stream)]
    with logs.in_background():
        LOG.info("lost")
        LOG.info("written")
    assert stream.written == ["written\n"]
    assert "BrokenPipeError" in capsys.readouterr().err


@pytest.mark.usefixtures("kept")
def test_a_record_that_cannot_be_formatted_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Picky(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            if record.getMessage() == "odd":
                raise ValueError(record.getMessage())
            return super().format(record)

    monkeypatch.setattr(logs, "BATCH_SECONDS", 30)
    stream = Stream()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Picky())
    logging.getLogger().handlers[:] = [handler]
    with logs.in_background():
        for text in ("one", "odd", "two"):
            LOG.info(text)
    assert stream.written == ["one\ntwo\n"]
    assert "ValueError: odd" in capsys.readouterr().err


def test_a_handler_s_level_holds(kept: Kept) -> None:
    kept.gate.set()
    kept.setLevel(logging.WARNING)
    with logs.in_background():
        LOG.info("no")
        LOG.warning("yes")
    assert kept.messages == ["yes"]


def test_the_audit_trail_can_have_a_file_of_its_own(kept: Kept, tmp_path: Path) -> None:
    kept.gate.set()
    file = tmp_path / "audit.jsonl"
    audit = logging.getLogger("iceberg_hms.audit")
    audit.setLevel(logging.INFO)
    with logs.in_background(str(file)):
        audit.info("one")
        LOG.info("not a change")
        audit.info("two")
    assert file.read_text() == "one\ntwo\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert kept.messages == ["not a change"]
    with logs.in_background():
        audit.info("three")
    audit.setLevel(logging.NOTSET)
    assert kept.messages[1:] == ["three"]


def test_the_audit_file_may_be_moved_away_while_the_server_runs(kept: Kept, tmp_path: Path) -> None:
    kept.gate.set()
    file = tmp_path / "audit.jsonl"
    audit = logging.getLogger("iceberg_hms.audit")
    audit.setLevel(logging.INFO)
    with logs.in_background(str(file)):
        file.rename(tmp_path / "old.jsonl")
        audit.info("line")
    audit.setLevel(logging.NOTSET)
    assert file.read_text() == "line\n"


def test_an_audit_file_that_cannot_be_written_is_an_error_at_the_start(kept: Kept, tmp_path: Path) -> None:
    kept.gate.set()
    with pytest.raises(ConfigError, match="cannot write the audit trail"), logs.in_background(str(tmp_path)):
        raise AssertionError
    assert kept in logging.getLogger().handlers


@pytest.mark.parametrize("second", [0.0, 1_700_000_000.25, 1_700_000_000.9996, 1_720_000_000.001])
def test_a_line_has_the_time_as_the_standard_library_writes_it(second: float) -> None:
    record = logging.LogRecord("a.b", logging.WARNING, "", 0, "%d of %s", (7, "x"), None)
    record.created, record.msecs = second, (second - int(second)) * 1000
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    assert logs.LineFormatter().format(record) == plain.format(record)
    assert logs.LineFormatter(bare=True).format(record) == "7 of x"


def test_traces_follow_their_line_and_each_of_their_lines_begins_with_a_tab() -> None:
    record = logging.LogRecord("a.b", logging.WARNING, "", 0, "forged\nline", (), None, sinfo="Stack:\n  deep\x1b")
    record.exc_text = "Traceback:\n  File"
    expected = ["forged\\nline", "\tTraceback:", "\t  File", "\tStack:", "\t  deep\\x1b"]
    assert logs.LineFormatter(bare=True).format(record).split("\n") == expected
