"""Token files: who may read them, what they hold, and when a change counts."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from iceberg_hms.errors import ConfigError, InvalidInput, NotAuthenticated, QueueFull
from iceberg_hms.rest.access import tokens as tokens_module
from iceberg_hms.rest.access.authorization import Result
from iceberg_hms.rest.access.tokens import (
    CHECK_SECONDS,
    FILE_BYTES_MAX,
    KEPT_SECONDS,
    TokenFile,
    new_token,
    token_line,
)
from tests.cli.fakes import run
from tests.polling import eventually
from tests.rest.fakes import ScriptedCatalog
from tests.security.callers import ByHand, run_here, write_private, write_tokens


def caller_of(access: TokenFile, token: str | None) -> str:
    """The caller's name; "-" for a stranger."""
    try:
        return asyncio.run(access.identify(token, run_here)).name
    except NotAuthenticated:
        return "-"


@pytest.mark.parametrize("mode", [0o604, 0o660, 0o610, 0o601, 0o777])
def test_a_token_file_that_others_may_open_is_refused_at_the_start(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "tokens"
    for text in (token_line("etl", "read[*]", new_token()), new_token()):
        write_private(file, text)
        file.chmod(mode)
        result = run("serve", "--port", "0", "--token-file", str(file), catalog=ScriptedCatalog())
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"chmod 600 {file}" in result.stderr
        file.chmod(0o600)


def test_the_file_holds_nothing_that_admits_anybody(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    tokens = write_tokens(file, {"etl": "write[sales]"})
    text = file.read_text()
    assert tokens["etl"] not in text
    access = TokenFile(file, ByHand())
    assert caller_of(access, tokens["etl"]) == "etl"
    hashed = text.split("sha256:")[1].strip()
    for sent in (None, "", hashed, f"sha256:{hashed}", tokens["etl"][:-1], tokens["etl"] + "x", "etl", "\udc80"):
        assert caller_of(access, sent) == "-"


def test_a_changed_file_counts_after_a_second_and_not_before(tmp_path: Path) -> None:
    file, clock = tmp_path / "tokens", ByHand()
    old = write_tokens(file, {"etl": "write[sales]"})["etl"]
    access = TokenFile(file, clock)
    new = write_tokens(file, {"etl": "write[sales]", "ops": "admin[*]"})["etl"]
    assert caller_of(access, old) == "etl"
    clock.seconds += CHECK_SECONDS
    assert (caller_of(access, new), caller_of(access, old)) == ("etl", "-")


@pytest.mark.parametrize("damage", ["gone", "half", "open", "empty", "binary"])
def test_a_file_that_breaks_later_keeps_the_old_tokens_for_a_while_and_is_logged_once_a_minute(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    file, clock = tmp_path / "tokens", ByHand()
    token = write_tokens(file, {"etl": "write[sales]"})["etl"]
    access = TokenFile(file, clock)
    match damage:
        case "gone":
            file.unlink()
        case "half":
            write_private(file, file.read_text()[:-1])
        case "open":
            file.chmod(0o644)
        case "empty":
            write_private(file, "# nobody\n")
        case "binary":
            file.write_bytes(b"\xff\xfe")

    def errors() -> int:
        return len([record for record in caplog.records if record.levelno == logging.ERROR])

    clock.seconds += 7 * KEPT_SECONDS
    for _ in range(int(KEPT_SECONDS)):
        assert caller_of(access, token) == "etl", "the while begins when the server sees the damage"
        clock.seconds += CHECK_SECONDS
    assert errors() == KEPT_SECONDS / 60
    for _ in range(90):
        assert caller_of(access, token) == "-"
        clock.seconds += CHECK_SECONDS
    assert errors() == KEPT_SECONDS / 60 + 2
    assert token not in caplog.text
    file.unlink(missing_ok=True)
    repaired = write_tokens(file, {"ops": "admin[*]"})["ops"]
    clock.seconds += CHECK_SECONDS
    assert (caller_of(access, repaired), caller_of(access, token)) == ("ops", "-")


def test_a_file_that_is_good_again_counts_at_once_though_nothing_of_it_changed(tmp_path: Path) -> None:
    """A share that was away for a while."""
    share, clock = tmp_path / "share", ByHand()
    share.mkdir()
    token = write_tokens(share / "tokens", {"etl": "write[sales]"})["etl"]
    access = TokenFile(share / "tokens", clock)
    share.rename(tmp_path / "away")
    clock.seconds += CHECK_SECONDS
    assert caller_of(access, token) == "etl"
    clock.seconds += KEPT_SECONDS
    assert caller_of(access, token) == "-"
    (tmp_path / "away").rename(share)
    clock.seconds += CHECK_SECONDS
    assert caller_of(access, token) == "etl"


def test_a_file_whose_disk_does_not_answer_keeps_its_tokens_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe stands for it, in which nobody writes anything."""
    file, clock = tmp_path / "tokens", ByHand()
    token = write_tokens(file, {"etl": "write[sales]"})["etl"]
    access, good = TokenFile(file, clock), file.rename(tmp_path / "good")
    os.mkfifo(file, 0o600)
    monkeypatch.setattr(tokens_module, "LOOK_SECONDS", 0.01)
    clock.seconds += CHECK_SECONDS
    assert caller_of(access, token) == "etl"
    writer = os.open(file, os.O_WRONLY)
    try:
        clock.seconds += KEPT_SECONDS - 1
        assert caller_of(access, token) == "etl"
        clock.seconds += 1
        assert caller_of(access, token) == "-"
    finally:
        good.rename(file)
        os.close(writer)

    def later() -> str:
        clock.seconds += CHECK_SECONDS
        return caller_of(access, token)

    assert eventually(lambda: later() == "etl")


async def nobody_runs(_: Callable[[], Result]) -> Result:
    """All threads of requests are busy: a token file needs none of them."""
    raise QueueFull("all are busy")


def test_who_keeps_all_threads_busy_keeps_no_token_that_was_withdrawn(tmp_path: Path) -> None:
    file, clock = tmp_path / "tokens", ByHand()
    old = write_tokens(file, {"etl": "write[sales]"})["etl"]
    access = TokenFile(file, clock)
    write_tokens(file, {"new": "write[sales]"})
    clock.seconds += CHECK_SECONDS
    with pytest.raises(NotAuthenticated):
        asyncio.run(access.identify(old, nobody_runs))


def test_a_link_to_another_file_is_a_change(tmp_path: Path) -> None:
    """Kubernetes replaces a mounted secret so."""
    clock, link = ByHand(), tmp_path / "link"
    made = [write_tokens(tmp_path / name, {name: "read[*]"})[name] for name in ("one", "two")]
    link.symlink_to(tmp_path / "one")
    access = TokenFile(link, clock)
    link.unlink()
    link.symlink_to(tmp_path / "two")
    clock.seconds += CHECK_SECONDS
    assert [caller_of(access, token) for token in made] == ["-", "two"]


HASH = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    "line",
    [
        "etl write[sales]",
        f"etl {HASH}",
        f"write[sales] {HASH}",
        f"etl write {HASH}",
        f"etl write[] {HASH}",
        f"etl all[sales] {HASH}",
        f"etl write[sales {HASH}",
        f"etl write[sales]x {HASH}",
        f"etl write[sa.les] {HASH}",
        f"etl write[sa?es] {HASH}",
        f"etl s3cret write[sales] {HASH}",
        f"etl write[sales] {HASH}0",
        f"etl write[sales] {HASH.upper()}",
        f"e{{}}l write[sales] {HASH}",
        f"{'e' * 129} write[sales] {HASH}",
        "etl write[sales] md5:00",
        "two words",
        "tökén x",
    ],
)
def test_a_malformed_line_is_refused_by_its_number_without_its_text(tmp_path: Path, line: str) -> None:
    file = tmp_path / "tokens"
    write_private(file, f"# a comment\n{line}\n")
    with pytest.raises(ConfigError, match="line 2 of the token file") as caught:
        TokenFile(file, ByHand())
    assert line not in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_two_callers_with_one_hash_and_huge_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    write_private(file, f"a read[*] {HASH}\nb admin[*] {HASH}\n")
    with pytest.raises(ConfigError, match=r"line 2 .* hash of another line"):
        TokenFile(file, ByHand())
    write_private(file, "#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="more than"):
        TokenFile(file, ByHand())


def test_a_short_token_is_not_hashed() -> None:
    with pytest.raises(InvalidInput, match="guessed"):
        token_line("etl", "read[*]", "correct-horse-battery")
