from __future__ import annotations

import os
import subprocess
import sys

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.metastore import identity
from iceberg_hms.metastore.identity import AGENT_INFO_MAX, agent_info


def test_it_names_this_process_and_the_request() -> None:
    product, boot, namespace, process, request, fence = agent_info("3f-a").split("/")
    assert (product, fence) == ("iceberg-hms", "unproven")
    assert len(boot) == 32
    assert namespace.isdigit()
    assert process.startswith(f"{os.getpid()}-")
    assert request.startswith("3f-a.")


def test_two_calls_never_give_the_same() -> None:
    assert len({agent_info("same") for _ in range(2_000)}) == 2_000


def test_another_process_is_another_holder_on_the_same_boot() -> None:
    code = "from iceberg_hms.metastore.identity import agent_info; import sys; sys.stdout.write(agent_info('r'))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    mine = agent_info("r")
    assert other.split("/")[1:3] == mine.split("/")[1:3]
    assert other.split("/")[3] != mine.split("/")[3]


def test_the_longest_fits_the_metastores_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_start_time", lambda: "9" * 12)
    monkeypatch.setattr(identity, "_pid_namespace", lambda: "4294967295")
    monkeypatch.setattr(identity.os, "getpid", lambda: 4_194_304)
    assert len(agent_info("x" * 36)) <= AGENT_INFO_MAX


@pytest.mark.parametrize("request_", ["", "A", "a/b", "a.b", "x" * 37, "a\n", "\u00e9"])
def test_a_malformed_request_is_refused(request_: str) -> None:
    with pytest.raises(InvalidInput):
        agent_info(request_)


def test_a_machine_that_tells_nothing_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(identity, "_PROC", identity.Path(str(tmp_path)))
    assert agent_info("r").split("/")[1:4] == ["-", "-", f"{os.getpid()}--"]
