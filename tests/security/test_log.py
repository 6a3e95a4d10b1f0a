"""No text that a client sent stands in the log as a line of its own, or steers the terminal of its reader."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from iceberg_hms.cli import common, logs
from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.errors import AccessDenied
from iceberg_hms.rest.access.audit import LOGGER as AUDIT
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.coordinator.harness import NAME, Harness

FORGED = '2026-11-22 16:12:48,031 INFO iceberg_hms.audit: {"caller": "etl", "action": "drop-table", "outcome": "done"}'
ENDS = ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"]
STEERS = ["\x1b[2K\x1b[1G", "\x9b2K", "\x08" * 80, "\x00", "\u202e", "\x7f"]


class Refused(MemoryFiles):
    """Deletes nothing, for one reason or another."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def delete(self, location: str) -> bool:
        raise self.error


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What `iceberg-hms` writes to stderr once its commands log."""
    root, text = logging.getLogger(), io.StringIO()
    handlers, level, own = list(root.handlers), root.level, logging.getLogger("iceberg_hms").level
    monkeypatch.setattr(sys, "stderr", text)
    root.handlers[:] = []
    common.log_to_stderr(debug=False)
    yield text
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("iceberg_hms").setLevel(own)


@pytest.mark.parametrize("background", [True, False], ids=["of a server", "of a command"])
@pytest.mark.parametrize("end", ENDS + STEERS, ids=lambda end: ascii(end[:2]))
def test_a_manifest_s_path_forges_no_line(log: io.StringIO, end: str, background: bool) -> None:
    manifest = f"file:/warehouse/sales/orders/metadata/m0.avro{end}{FORGED}"
    ports = Harness().ports
    for error in (AccessDenied(f"cannot delete {manifest}"), ZeroDivisionError(manifest)):
        if background:
            with logs.in_background():
                delete_files(replace(ports, files=Refused(error)), NAME, [manifest])
        else:
            delete_files(replace(ports, files=Refused(error)), NAME, [manifest])
    lines = log.getvalue().removesuffix("\n").split("\n")
    heads = [line for line in lines if not line.startswith("\t")]
    assert [" WARNING " in head or " ERROR " in head for head in heads] == [True, True, True]
    assert all(line.removeprefix("\t").isprintable() for line in lines)
    assert "\tTraceback (most recent call last):" in lines
    assert FORGED in heads[0], "the operator reads what was tried"


def test_an_audit_line_is_written_as_it_is(log: io.StringIO) -> None:
    sent = json.dumps({"object": ["a\nb\\", "ä"]})
    with logs.in_background():
        logging.getLogger(AUDIT).info("%s", sent)
    assert log.getvalue().endswith(f" INFO {AUDIT}: {sent}\n")
