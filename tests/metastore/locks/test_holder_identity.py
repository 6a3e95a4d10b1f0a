from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.metastore.connection.cas_support import SwapProtection
from iceberg_hms.metastore.locks.holder_identity import AGENT_INFO_MAX, LockHolder, agent_info, has_ended, parse


def holder_of(text: str) -> LockHolder:
    holder = parse(text)
    assert holder is not None
    return holder


def me() -> LockHolder:
    return holder_of(agent_info("r"))


def test_it_names_this_process_and_the_request() -> None:
    product, boot, namespace, process, request, protection = agent_info("3f-a").split("/")
    assert (product, protection) == ("iceberg-hms", "unproven")
    assert len(boot) == 32
    assert namespace.isdigit()
    assert process.startswith(f"{os.getpid()}-")
    assert request.startswith("3f-a.")


def test_two_calls_never_give_the_same() -> None:
    assert len({agent_info("same") for _ in range(2_000)}) == 2_000


def of_a_process_that_ended() -> str:
    module = "iceberg_hms.metastore.locks.holder_identity"
    code = f"from {module} import agent_info; import sys; sys.stdout.write(agent_info('r'))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_another_process_is_another_holder_on_the_same_boot() -> None:
    other = of_a_process_that_ended()
    mine = agent_info("r")
    assert other.split("/")[1:3] == mine.split("/")[1:3]
    assert other.split("/")[3] != mine.split("/")[3]


def proc_in(folder: Path, *, stat: str = "", status: str = "", namespace: str = "") -> Path:
    """A /proc that shows our boot and nothing of any process but ours; what is not given is as in the true one."""
    real = Path("/proc")
    (folder / "sys/kernel/random").mkdir(parents=True)
    (folder / "sys/kernel/random/boot_id").write_text((real / "sys/kernel/random/boot_id").read_text())
    (folder / "self/ns").mkdir(parents=True)
    (folder / "self/ns/pid").symlink_to(namespace or (real / "self/ns/pid").readlink())
    (folder / "self/stat").write_text(stat or (real / "self/stat").read_text())
    (folder / "self/status").write_text(status or (real / "self/status").read_text())
    return folder


def test_the_longest_fits_the_metastores_column(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fields = " ".join(["0"] * 19 + ["9" * 12])
    proc = proc_in(tmp_path, stat=f"1 (python) {fields}", namespace="pid:[4294967295]")
    monkeypatch.setattr(os, "getpid", lambda: 4_194_304)
    longest = agent_info("x" * 36, SwapProtection.UNPROVEN, proc=proc)
    assert "/4294967295/4194304-999999999999/" in longest
    assert len(longest) <= AGENT_INFO_MAX
    with_lease = agent_info("x" * 36, SwapProtection.UNPROVEN, 86_400, proc=proc)
    assert len(with_lease) == AGENT_INFO_MAX
    assert holder_of(with_lease).lease_seconds == 86_400


@pytest.mark.parametrize("request_", ["", "A", "a/b", "a.b", "x" * 37, "a\n", "\u00e9"])
def test_a_malformed_request_is_refused(request_: str) -> None:
    with pytest.raises(InvalidInput):
        agent_info(request_)


def test_a_machine_without_proc_is_no_error(tmp_path: Path) -> None:
    assert agent_info("r", proc=tmp_path).split("/")[1:4] == ["-", "-", f"{os.getpid()}--"]


@pytest.mark.parametrize("protection", list(SwapProtection))
def test_what_was_written_is_read(protection: SwapProtection) -> None:
    holder = holder_of(agent_info("3f-a", protection))
    assert (holder.pid, holder.protection) == (os.getpid(), protection)
    assert agent_info("x").split("/")[1:4] == [
        holder.boot_id,
        holder.pid_namespace,
        f"{holder.pid}-{holder.start_time}",
    ]


@pytest.mark.parametrize("protection", [SwapProtection.CAS, SwapProtection.UNPROVEN])
@pytest.mark.parametrize("seconds", [1, 15, 86_400])
def test_a_lease_that_was_announced_is_read(seconds: int, protection: SwapProtection) -> None:
    text = agent_info("r", protection, seconds)
    assert text.endswith(f"/{protection}-{seconds}")
    assert (holder_of(text).protection, holder_of(text).lease_seconds) == (protection, seconds)
    assert me().lease_seconds is None


def test_who_does_not_know_of_announced_leases_takes_their_entries_for_somebody_elses() -> None:
    """As releases before they came read an agentInfo: `None` is a foreign writer, whose entry is never removed. The
    first to announce leases did so with `cas` alone."""
    process = "iceberg-hms/([0-9a-f]{32}|-)/([0-9]+|-)/([0-9]{1,7})-([0-9]+|-)/[^/]+"
    first = re.compile(process + "/(cas|unproven|blind)")
    second = re.compile(process + "/(cas|unproven|blind)(?:(?<=cas)-([1-9][0-9]{0,4}))?")
    for protection in SwapProtection:
        text = agent_info("r", protection)
        assert first.fullmatch(text) is not None
        assert second.fullmatch(text) is not None
    short = agent_info("r", SwapProtection.CAS, 15)
    assert first.fullmatch(short) is None
    assert second.fullmatch(short) is not None
    assert second.fullmatch(agent_info("r", SwapProtection.UNPROVEN, 15)) is None


BOOT = "0" * 32


@pytest.mark.parametrize(
    "text",
    [
        "",
        "iceberg-hms",
        f"another/{BOOT}/1/2-3/r.000/cas",
        f"iceberg-hms/{BOOT[1:]}/1/2-3/r.000/cas",
        f"iceberg-hms/{BOOT}/1/2-3/r.000/else",
        f"iceberg-hms/{BOOT}/1/2-3/r.000/cas ",
        f"iceberg-hms/{BOOT}/1/2-3/r.000/blind-15",
        f"iceberg-hms/{BOOT}/1/2-3/r.000/cas-0",
        f"iceberg-hms/{BOOT}/1/2-3/r.000/cas-15-15",
        f"iceberg-hms/{BOOT}/1/2-3/r.000/cas\n",
        f"iceberg-hms/{BOOT}/1/2-3/r/000/cas",
        f"iceberg-hms/{BOOT}/1/0-3/r.000/cas",
        f"iceberg-hms/{BOOT}/1/-2-3/r.000/cas",
        f"iceberg-hms/{BOOT}/1/4194305-3/r.000/cas",
        f"iceberg-hms/{BOOT}/1/2-/r.000/cas",
    ],
)
def test_what_is_not_ours_is_nobody(text: str) -> None:
    assert parse(text) is None


def test_a_process_that_is_there_has_not_ended() -> None:
    assert not has_ended(me())
    assert not has_ended(replace(me(), pid=os.getppid(), start_time="-"))


def test_a_process_that_is_gone_has_ended() -> None:
    assert has_ended(holder_of(of_a_process_that_ended()))


def test_another_process_with_the_same_id_is_another() -> None:
    assert has_ended(replace(me(), start_time="1"))


@pytest.mark.parametrize(
    "change", [{"boot_id": BOOT}, {"pid_namespace": "1"}, {"boot_id": "-"}, {"pid_namespace": "-"}]
)
def test_of_another_machine_or_container_nothing_is_known(change: dict[str, str]) -> None:
    assert not has_ended(replace(holder_of(of_a_process_that_ended()), **change))


def test_a_killed_process_that_nobody_collected_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        start_time = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        holder = replace(me(), pid=child.pid, start_time=start_time)
        assert not has_ended(holder)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(holder)
    finally:
        child.communicate()
    assert has_ended(holder)


def test_a_process_that_this_machine_hides_counts_as_alive(tmp_path: Path) -> None:
    assert not has_ended(replace(me(), pid=os.getppid()), proc=proc_in(tmp_path))


@pytest.mark.parametrize(
    ("stat", "status"),
    [
        ("4711 (python) S 1", "NSpid:\t4711\t{own}"),
        ("{own} (python) S 1", "NSpid:\t{own}\t{own}"),
        ("{own} (python) S 1", "Name:\tpython"),
        ("", ""),
    ],
    ids=["the host's", "the host's, with the same number by chance", "of a kernel that does not tell", "none"],
)
def test_a_proc_of_another_namespace_proves_nothing(stat: str, status: str, tmp_path: Path) -> None:
    """Our boot id and namespace, and under the number another process: of the host, or of nobody."""
    ended = holder_of(of_a_process_that_ended())
    assert has_ended(ended, proc=proc_in(tmp_path / "ours"))
    own = os.getpid()
    proc = proc_in(tmp_path / "other", stat=stat.format(own=own) or "-", status=status.format(own=own) or "-")
    assert not has_ended(ended, proc=proc)
