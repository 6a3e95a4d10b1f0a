"""`iceberg-hms serve`, over a catalog in memory and a real HTTP server."""

from __future__ import annotations

import json
import logging
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from iceberg_hms.cli.serve import choose_access, raise_open_files, warn_unless_they_answer
from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError, MetastoreUnavailable
from iceberg_hms.rest.settings import RestSettings
from tests.cli.fakes import METASTORE, Asked, run
from tests.rest.fakes import ScriptedCatalog
from tests.security.callers import write_private
from tests.test_setting import toml


class Visit:
    """While the server runs: read its announcement and make one request. status: what that answered."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token
        self.event: dict[str, Any] = {}
        self.status = 0

    def __call__(self) -> None:
        sys.stdout.flush()
        self.event = json.loads(sys.stdout.buffer.getvalue())  # type: ignore[attr-defined]
        token = self.token or self.event.get("token")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.status = httpx.get(f"{self.event['uri']}/v1/namespaces", headers=headers, timeout=30).status_code


def test_it_announces_itself_in_one_line_and_serves_until_it_is_ended() -> None:
    catalog, visit = ScriptedCatalog(), Visit()
    result = run("serve", "--port", "0", "--no-auth", "--warehouse", "file:/a b", catalog=catalog, during=visit)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("\n") == 1
    assert visit.status == 200
    assert visit.event.pop("pid") > 0
    uri = visit.event.pop("uri")
    assert visit.event == {"event": "listening", "metastore_uri": METASTORE, "warehouse": "file:/a b"}
    assert result.stderr.endswith("stopped\n")
    assert catalog.closed == 1
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{uri}/v1/config", timeout=30)


TWO = """
uri = "thrift://127.0.0.1:9083"
[warehouses.sales]
uri = "thrift://127.0.0.1:9084"
[warehouses.lab]
"""


def test_every_warehouse_of_the_file_is_opened_and_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened, asked = ScriptedCatalog(), Asked()
    visit = Visit()
    config = str(toml(tmp_path, TWO))
    result = run("serve", "--port", "0", "--no-auth", "--config", config, catalog=opened, during=visit, asked=asked)
    assert result.exit_code == 0, result.stderr
    assert [each.metastore_uri for each in asked.settings] == [METASTORE, "thrift://127.0.0.1:9084", METASTORE]
    assert visit.event["warehouses"] == ["lab", "sales"]
    assert opened.closed == 3
    assert "warehouses default, lab have the same metastore" in caplog.text


def test_a_warehouse_that_does_not_answer_keeps_no_other_from_being_served(
    tmp_path: Path,
) -> None:
    down = ScriptedCatalog()
    down.errors["list_namespaces"] = MetastoreUnavailable("down")
    up = ScriptedCatalog()

    def connect(settings: Settings) -> ScriptedCatalog:
        return up if settings.metastore_uri == METASTORE else down

    visit = Visit()
    config = str(toml(tmp_path, TWO))
    result = run("serve", "--port", "0", "--no-auth", "--config", config, during=visit, connect=connect)
    assert result.exit_code == 0, result.stderr
    assert visit.status == 200


def test_the_log_names_the_warehouses_that_do_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    up, down = ScriptedCatalog(), ScriptedCatalog()
    down.errors["list_namespaces"] = MetastoreUnavailable("down")
    warn_unless_they_answer(down, {"lab": up, "sales": down})
    said = [record.getMessage().partition(" answers")[0] for record in caplog.records]
    assert said == [f"not ready until the metastore of warehouse {name}" for name in ("default", "sales")]
    caplog.clear()
    warn_unless_they_answer(down, {})
    assert "until the metastore answers" in caplog.text


def test_a_thread_that_computes_keeps_others_from_the_interpreter_for_a_moment_only() -> None:
    found: list[float] = []
    before = sys.getswitchinterval()
    try:
        result = run(
            "serve",
            "--port",
            "0",
            "--no-auth",
            catalog=ScriptedCatalog(),
            during=lambda: found.append(sys.getswitchinterval()),
        )
    finally:
        sys.setswitchinterval(before)
    assert result.exit_code == 0
    assert found[0] <= 0.001


def test_without_a_word_on_tokens_it_makes_one_and_tells_it() -> None:
    visit = Visit()
    assert run("serve", "--port", "0", catalog=ScriptedCatalog(), during=visit).exit_code == 0
    assert len(visit.event["token"]) >= 43
    assert visit.status == 200


def test_a_token_of_a_file_is_asked_for_and_never_told(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    write_private(file, "s3cret\n")
    arguments = ("serve", "--port", "0", "--token-file", str(file))
    right, wrong = Visit("s3cret"), Visit("other")
    result = run(*arguments, catalog=ScriptedCatalog(), during=right)
    run(*arguments, catalog=ScriptedCatalog(), during=wrong)
    assert (right.status, wrong.status) == (200, 401)
    assert "s3cret" not in result.output


def test_serve_starts_before_its_metastore_and_says_so() -> None:
    catalog, visit = ScriptedCatalog(), Visit()
    catalog.errors["list_namespaces"] = MetastoreUnavailable("No metastore answers")
    result = run("serve", "--port", "0", "--no-auth", catalog=catalog, during=visit)
    assert result.exit_code == 0, result.stderr
    assert visit.status == 503
    assert catalog.closed == 1


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_only_a_watched_server_drains_and_only_after_sigterm(
    caplog: pytest.LogCaptureFixture, number: signal.Signals, watched: bool
) -> None:
    visit = Visit()

    def during() -> None:
        visit()
        if watched:
            assert httpx.get(f"{visit.event['uri']}/health/ready", timeout=30).status_code == 200

    options = ("--port", "0", "--no-auth", "--set", "rest.drain-ms=1")
    with caplog.at_level(logging.INFO, "iceberg_hms.rest.server"):
        result = run("serve", *options, catalog=ScriptedCatalog(), during=during, signal=number)
    assert result.exit_code == 0, result.stderr
    drained = any("not ready any more" in record.getMessage() for record in caplog.records)
    assert drained == (watched and number is signal.SIGTERM)


def test_sigusr2_restarts_it_with_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iceberg_hms.rest.server.HAND_OVER_SECONDS", 0.1)
    catalog, visit, kept = ScriptedCatalog(), Visit(), list[socket.socket]()
    options = ("serve", "--port", "0", "--no-auth")
    result = run(*options, catalog=catalog, during=visit, signal=signal.SIGUSR2, restart=kept.append)
    assert result.exit_code == 0, result.stderr
    assert "restarting\n" in result.stderr
    assert catalog.closed == 1
    [listener] = kept
    with listener:
        assert visit.event["uri"] == f"http://127.0.0.1:{listener.getsockname()[1]}"
        socket.create_connection(listener.getsockname(), timeout=30).close()


def test_a_taken_port_is_two_lines_and_exit_code_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("serve", "--port", str(taken.getsockname()[1]), catalog=ScriptedCatalog())
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: cannot listen on http://127.0.0.1:")


@pytest.mark.parametrize("options", [("--port", "70000"), ("--lock", "redis"), ("--lock", "zookeeper")])
def test_a_wrong_setting_is_exit_code_2(options: tuple[str, ...]) -> None:
    result = run("serve", *options, catalog=ScriptedCatalog())
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff\xfe", "tökén".encode()])
def test_a_file_without_a_usable_token_is_refused_by_its_path(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="token"):
        choose_access(file, RestSettings(), no_auth=False)


def test_a_missing_token_file_and_two_words_on_tokens_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the token file"):
        choose_access(tmp_path / "nothing", RestSettings(), no_auth=False)
    with pytest.raises(ConfigError, match="who may call too"):
        choose_access(tmp_path / "nothing", RestSettings(), no_auth=True)


def test_tokens_are_made_anew_each_time() -> None:
    assert choose_access(None, RestSettings(), no_auth=True)[1] is None
    assert (
        choose_access(None, RestSettings(), no_auth=False)[1] != choose_access(None, RestSettings(), no_auth=False)[1]
    )


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_and_never_lowered() -> None:
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 100, hard))
        assert raise_open_files(soft - 50) == soft - 50
        assert raise_open_files(0) == soft - 50
        assert raise_open_files(hard + 1) == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
