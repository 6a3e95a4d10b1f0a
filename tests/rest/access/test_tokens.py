"""Bearer tokens; tests/security/test_tokens.py attacks their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.errors import ConfigError
from iceberg_hms.rest.access.tokens import check_token, only_token, open_to_others, parse_tokens, token_line
from iceberg_hms.rest.app import create_app
from tests.rest.fakes import ScriptedCatalog, Web, error_of
from tests.security.callers import callers

TOKEN = "correct-horse-battery"


@pytest.fixture
def catalog() -> ScriptedCatalog:
    return ScriptedCatalog()


@pytest.fixture
def guarded(catalog: ScriptedCatalog) -> Web:
    return Web(create_app(catalog, token=TOKEN, settings=catalog.rest_settings))


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_right_token_is_admitted(guarded: Web, scheme: str) -> None:
    assert guarded("GET", "/v1/namespaces", headers={"Authorization": f"{scheme} {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN.upper()}",
        "Bearer \u00fc".encode(),
    ],
)
def test_any_other_token_is_401(guarded: Web, catalog: ScriptedCatalog, header: str | bytes | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    response = guarded("GET", "/v1/namespaces", headers=headers)  # type: ignore[arg-type]
    status, kind, message = error_of(response)
    assert (status, kind) == (401, "NotAuthorizedException")
    assert TOKEN not in message
    assert response.headers["WWW-Authenticate"].startswith("Bearer")
    assert catalog.calls == []


@pytest.mark.parametrize(
    "path", ["/v1/config", "/v1/no/such/route", "/", "/health", "/health/live/", "/metrics%2F", "/health%2Flive"]
)
def test_all_other_paths_need_the_token_even_unknown_ones(guarded: Web, path: str) -> None:
    assert guarded("GET", path).status_code == 401


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_health_and_metrics_are_open(guarded: Web, path: str) -> None:
    assert guarded("GET", path).status_code == 200


def test_a_setting_asks_for_a_token_at_metrics() -> None:
    catalog = ScriptedCatalog(rest_metrics_access="callers")
    web = Web(create_app(catalog, token=TOKEN, settings=catalog.rest_settings))
    for header in ({}, {"Authorization": "Bearer wrong"}):
        assert error_of(web("GET", "/metrics", headers=header))[0] == 401
    assert web("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert [web("GET", path).status_code for path in ("/health/live", "/health/ready")] == [200, 200]


def test_a_caller_who_may_do_nothing_else_reads_the_metrics(tmp_path: Path) -> None:
    catalog = ScriptedCatalog(rest_metrics_access="callers")
    web = callers(catalog, tmp_path, {"prometheus": "read[no-namespace]"}, catalog.rest_settings)("prometheus")
    assert web("GET", "/metrics").status_code == 200


def test_a_server_without_a_token_admits_every_client(catalog: ScriptedCatalog) -> None:
    web = Web(create_app(catalog, settings=catalog.rest_settings))
    assert web("GET", "/v1/namespaces").status_code == 200


@pytest.mark.parametrize("token", ["", " ", " a", "a ", "a\n", "a\tb", "tökén"])
def test_a_useless_token_is_refused_before_the_server_listens(catalog: ScriptedCatalog, token: str) -> None:
    with pytest.raises(ConfigError, match="token"):
        create_app(catalog, token=token, settings=catalog.rest_settings)
    with pytest.raises(ConfigError):
        check_token(token)


def test_a_line_says_who_may_do_what() -> None:
    token = "t" * 43
    line = token_line("etl", "write[sales, hr] read[*]", token)
    assert line.startswith("etl write[sales] write[hr] read[*] sha256:")
    [caller] = parse_tokens(f"{line}  # the nightly job\n", Path("tokens")).values()
    assert caller.name == "etl"
    assert [str(scope) for scope in caller.scopes] == ["write[sales]", "write[hr]", "read[*]"]


def test_a_file_with_one_word_is_that_token_with_all_rights() -> None:
    assert only_token("s3cret\n") == "s3cret"
    assert only_token("two words") is None
    [caller] = parse_tokens(" s3cret\n", Path("tokens")).values()
    assert (caller.name, [str(scope) for scope in caller.scopes]) == ("", ["admin[*/*]"])


@pytest.mark.parametrize(
    ("mode", "owner", "is_open"),
    [
        (0o600, 1000, False),
        (0o400, 0, False),
        (0o640, 1000, True),
        (0o440, 0, False),
        (0o640, 0, False),
        (0o660, 0, True),
        (0o604, 0, True),
    ],
)
def test_only_a_file_of_root_may_be_read_by_its_group(mode: int, owner: int, is_open: bool) -> None:
    assert open_to_others(mode, owner) is is_open
