from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError, CredentialsUnavailable, LocationNotAllowed, StorageError, StorageRefused
from iceberg_hms.storage.s3 import vending
from iceberg_hms.storage.s3.vending import StsVending, session_policy
from tests.security.callers import ByHand

FOLDER = "s3://lake/wh/a.db/t"


class Sts:
    """Counts what it makes. error: what it raises instead. gate: waits for it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, int]] = []
        self.error: StorageError | None = None
        self.gate: Callable[[], object] = lambda: None

    def __call__(self, role: str, policy: str, seconds: int) -> Mapping[str, Any]:
        self.calls.append((role, policy, seconds))
        self.gate()
        if self.error is not None:
            raise self.error
        number = len(self.calls)
        return {
            "AccessKeyId": f"key{number}",
            "SecretAccessKey": "secret",
            "SessionToken": "token",
            "Expiration": datetime.fromtimestamp(1_000 + number, UTC),
        }


def made(
    sts: Sts, clock: ByHand | None = None, *, role_arn: str = "", seconds: int = 900, **settings: Any
) -> StsVending:
    loaded = Settings.load(
        {"s3.endpoint": "http://store:9000", "s3.retry.num-retries": 0, "s3.region": "r", **settings}, environ={}
    )
    return StsVending(loaded, clock or ByHand(), role_arn=role_arn, duration_seconds=seconds, assume=sts)


def statements(*folders: str, write: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(session_policy(folders, write=write))["Statement"]
    return found


def test_a_reader_may_read_and_list_what_is_below_the_folder_alone() -> None:
    assert statements(FOLDER, write=False) == [
        {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::lake/wh/a.db/t/*"]},
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": ["arn:aws:s3:::lake"],
            "Condition": {"StringLike": {"s3:prefix": ["wh/a.db/t/*"]}},
        },
    ]


def test_a_writer_may_write_and_delete_too() -> None:
    assert statements(f"{FOLDER}/", write=True)[0]["Action"] == [
        "s3:GetObject",
        "s3:PutObject",
        "s3:DeleteObject",
        "s3:AbortMultipartUpload",
    ]


def test_each_bucket_is_listed_by_its_own_prefixes() -> None:
    _, one, other = statements("s3a://lake/t", "s3://hot/t/data", "s3n://lake/m", write=False)
    assert (one["Resource"], one["Condition"]["StringLike"]["s3:prefix"]) == (["arn:aws:s3:::lake"], ["t/*", "m/*"])
    assert (other["Resource"], other["Condition"]["StringLike"]["s3:prefix"]) == (["arn:aws:s3:::hot"], ["t/data/*"])


@pytest.mark.parametrize(
    "folder",
    [
        "s3://lake",
        "s3://lake/",
        "s3://lake//",
        "s3://lake/a*",
        "s3://lake/a?/t",
        "s3://lake/${aws:username}/t",
        "s3://lake/a//t",
        "s3://lake/a/../t",
        "s3://lake/./t",
        "s3://lake/a\\t",
        "s3://lake/a\nt",
        "s3://*/t",
        "s3://lake:9000/t",
        "s3://user@lake/t",
        "hdfs://lake/t",
        "file:/lake/t",
    ],
)
def test_a_folder_that_no_policy_names_exactly_gets_none(folder: str) -> None:
    with pytest.raises(LocationNotAllowed):
        session_policy([FOLDER, folder], write=False)


def test_blanks_percents_and_letters_of_all_alphabets_are_names_and_the_policy_is_ascii() -> None:
    text = session_policy(['s3://lake/a b%20"/ü 表'], write=True)
    assert text.isascii()
    assert json.loads(text)["Statement"][0]["Resource"] == ['arn:aws:s3:::lake/a b%20"/ü 表/*']


def test_a_policy_that_the_store_would_refuse_for_its_length_is_not_sent() -> None:
    with pytest.raises(LocationNotAllowed, match="too long"):
        session_policy([f"s3://lake/{'x' * 1_000}"], write=True)


def test_clients_get_the_names_of_icebergs_file_io() -> None:
    assert made(Sts()).vend([FOLDER], write=True) == {
        "s3.access-key-id": "key1",
        "s3.secret-access-key": "secret",
        "s3.session-token": "token",
        "s3.session-token-expires-at-ms": "1001000",
    }


def test_what_clients_need_besides_has_no_secret() -> None:
    keys = {"s3.access-key-id": "own", "s3.secret-access-key": "hidden"}
    assert made(Sts(), **keys).client_properties == {
        "client.region": "r",
        "s3.region": "r",
        "s3.endpoint": "http://store:9000",
        "s3.path-style-access": "true",
    }
    virtual = made(Sts(), role_arn="arn:aws:iam::1:role/r", **{"s3.endpoint": "", "s3.path-style-access": "false"})
    assert virtual.client_properties == {"client.region": "r", "s3.region": "r", "s3.path-style-access": "false"}


def test_the_role_is_the_one_for_clients_or_the_servers_or_any_on_a_store_of_ones_own() -> None:
    sts = Sts()
    own = {"s3.role-arn": "arn:aws-cn:iam::1:role/own"}
    for vending_of in (made(sts, role_arn="arn:aws:iam::1:role/theirs", **own), made(sts, **own), made(sts)):
        vending_of.vend([FOLDER], write=False)
    roles = [role for role, _, _ in sts.calls]
    assert roles == ["arn:aws:iam::1:role/theirs", own["s3.role-arn"], "arn:aws:iam::000000000000:role/iceberg-hms"]
    assert "arn:aws-cn:s3:::lake/" in sts.calls[1][1]


@pytest.mark.parametrize("settings", [{"s3.endpoint": ""}, {"s3.anonymous": True}])
def test_settings_with_which_no_role_can_be_assumed_are_refused_at_the_start(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        made(Sts(), **settings)


def test_credentials_are_shared_until_a_third_of_their_life_is_left() -> None:
    sts, clock = Sts(), ByHand()
    found = made(sts, clock)
    first = found.vend([FOLDER, "s3://lake/m"], write=True)
    clock.seconds = 599
    assert found.vend(["s3://lake/m", FOLDER], write=True) == first
    clock.seconds = 600
    assert found.vend([FOLDER, "s3://lake/m"], write=True) != first
    assert [seconds for _, _, seconds in sts.calls] == [900, 900]


def test_readers_and_writers_and_other_folders_share_nothing() -> None:
    sts = Sts()
    found = made(sts)
    keys = {
        found.vend(folders, write=write)["s3.access-key-id"]
        for folders in ([FOLDER], ["s3://lake/wh/a.db/t2"])
        for write in (True, False)
    }
    assert len(keys) == 4


def test_callers_that_ask_at_once_make_one_call() -> None:
    sts, inside = Sts(), threading.Event()
    found = made(sts)
    waiting = threading.Barrier(2)
    sts.gate = lambda: (inside.set(), waiting.wait(30))
    with ThreadPoolExecutor(64) as threads:
        first = threads.submit(found.vend, [FOLDER], write=True)
        assert inside.wait(30)
        others = [threads.submit(found.vend, [FOLDER], write=True) for _ in range(63)]
        waiting.wait(30)
        assert {each.result(30)["s3.access-key-id"] for each in (first, *others)} == {"key1"}
    assert len(sts.calls) == 1


@pytest.mark.parametrize("error", [StorageError("slow"), StorageRefused("no role")])
def test_a_failure_says_what_the_operator_does_and_is_not_kept(error: StorageError) -> None:
    sts = Sts()
    found = made(sts)
    sts.error = error
    with pytest.raises(CredentialsUnavailable, match=error.message) as raised:
        found.vend([FOLDER], write=True)
    assert "rest.vended-role-arn" in str(raised.value)
    sts.error = None
    assert found.vend([FOLDER], write=True)["s3.access-key-id"] == "key2"


def test_a_store_that_is_slow_is_asked_again_and_one_that_refuses_is_not() -> None:
    for error, calls in ((StorageError("slow"), 3), (StorageRefused("no role"), 1)):
        sts = Sts()
        sts.error = error
        with pytest.raises(CredentialsUnavailable):
            made(sts, **{"s3.retry.num-retries": 2}).vend([FOLDER], write=True)
        assert len(sts.calls) == calls


def test_no_more_are_kept_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vending, "KEPT_MAX", 2)
    sts = Sts()
    found = made(sts)
    for name in ("a", "b", "c", "b", "c", "a"):
        found.vend([f"s3://lake/{name}"], write=False)
    assert len(sts.calls) == 4


def test_botocore_never_logs_what_sts_answers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for name in ("botocore.parsers", "botocore.auth"):
            assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)


def test_it_serves_the_spellings_of_s3() -> None:
    found = made(Sts())
    assert [found.serves(each) for each in (FOLDER, "s3a://lake", "s3n://lake/t", "hdfs:///t", "file:/t", "t")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
