"""Tokens of an issuer: only its own, for this server, for now, signed with its keys."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from iceberg_hms.errors import ConfigError, IssuerUnavailable, NotAuthenticated
from iceberg_hms.rest.access.oidc import (
    KEYS_RETRY_SECONDS,
    REFUSALS_LOGGED,
    REMEMBERED_SECONDS,
    TOKEN_BYTES_MAX,
    OidcIssuer,
)
from iceberg_hms.rest.access.oidc_keys import DOCUMENT_BYTES_MAX
from iceberg_hms.rest.access.scopes import Caller
from iceberg_hms.rest.settings import RestSettings
from tests.security.callers import ByHand, run_here
from tests.security.issuer import AUDIENCE, Issuer, private_key, public_jwk, running_issuer

NOW = 1_000
SKEW = 30


#: Those versions put the `nonce` of a login into its access token, too.
BEFORE_KEYCLOAK_25 = {"typ": "Bearer", "nonce": "x"}


class Time(ByHand):
    """seconds: of both clocks; the wall clock begins at NOW."""

    def now_ms(self) -> int:
        return int((NOW + self.seconds) * 1_000)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as running:
        yield running


@pytest.fixture
def time() -> Time:
    return Time()


def access_of(issuer: Issuer, time: Time, **settings: Any) -> OidcIssuer:
    given = {"rest_oidc_issuer": issuer.uri, "rest_oidc_audience": AUDIENCE, "rest_oidc_clock_skew_seconds": SKEW}
    return OidcIssuer(RestSettings(**{**given, **settings}), time)


def ask(access: OidcIssuer, token: str | None) -> Caller:
    return asyncio.run(access.identify(token, run_here))


def is_refused(access: OidcIssuer, token: str | None) -> bool:
    try:
        ask(access, token)
    except NotAuthenticated:
        return True
    return False


@pytest.mark.parametrize(("key", "algorithm"), [("rsa", "RS256"), ("rsa", "PS512"), ("ec", "ES256"), ("ed", "EdDSA")])
def test_a_token_of_each_kind_of_key_is_accepted(issuer: Issuer, time: Time, key: str, algorithm: str) -> None:
    caller = ask(access_of(issuer, time), issuer.token(key, algorithm))
    assert (caller.name, [str(scope) for scope in caller.scopes]) == ("ada", ["read[*]"])


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "http://127.0.0.1:1"},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"aud": []},
        {"exp": NOW - SKEW},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": True},
        {"nbf": NOW + SKEW + 1},
        {"nbf": "x"},
        {"iat": NOW + SKEW + 1},
        {"sub": None},
        {"sub": "a\nb"},
        {"sub": "a" * 129},
        {"sub": ["ada"]},
        {"scope": "iceberg-hms:write"},
        {"scope": "iceberg-hms:all:x"},
        {"scope": "iceberg-hms:write:a.b"},
        {"scope": [f"iceberg-hms:read:n{number}" for number in range(300)]},
    ],
    ids=str,
)
def test_a_token_with_other_claims_is_refused(issuer: Issuer, time: Time, claims: dict[str, Any]) -> None:
    assert is_refused(access_of(issuer, time), issuer.token(**claims))


ID_TOKENS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"typ": "ID"}, {}),
    ({"typ": "id+jwt"}, {}),
    ({"typ": "application/id+jwt"}, {}),
    ({}, {"typ": "ID"}),
    ({}, {"at_hash": "x"}),
    ({}, {"c_hash": "x"}),
    ({}, {"nonce": "x"}),
    ({"typ": "at+jwt"}, {"at_hash": "x", "typ": "Bearer"}),
]


@pytest.mark.parametrize(("header", "claims"), ID_TOKENS, ids=str)
def test_an_id_token_is_refused(
    issuer: Issuer, time: Time, header: dict[str, Any], claims: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with pytest.raises(NotAuthenticated, match="access token"):
        ask(access_of(issuer, time), issuer.token(header=header, **claims))
    assert "refused a token: it is an ID token" in caplog.messages


@pytest.mark.parametrize(
    ("header", "claims"),
    [({"typ": "at+jwt"}, {}), ({"typ": "JWT"}, {"typ": "Bearer"}), ({"typ": None}, {}), ({}, BEFORE_KEYCLOAK_25)],
    ids=str,
)
def test_an_access_token_of_any_type_is_accepted(
    issuer: Issuer, time: Time, header: dict[str, Any], claims: dict[str, Any]
) -> None:
    assert ask(access_of(issuer, time), issuer.token(header=header, **claims)).name == "ada"


@pytest.mark.parametrize(
    ("types", "typ", "accepted"),
    [
        ("at+jwt", "at+jwt", True),
        ("at+jwt", "application/AT+JWT", True),
        (" application/at+jwt, JWT", "jwt", True),
        ("at+jwt", "JWT", False),
        ("at+jwt", None, False),
        ("at+jwt", 7, False),
        ("ID", "ID", False),
    ],
)
def test_a_setting_names_the_types_of_tokens(issuer: Issuer, time: Time, types: str, typ: Any, accepted: bool) -> None:
    access = access_of(issuer, time, rest_oidc_token_types=types)
    assert is_refused(access, issuer.token(header={"typ": typ})) is not accepted


def test_strangers_do_not_fill_the_log(issuer: Issuer, time: Time, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    access = access_of(issuer, time)
    caplog.clear()

    async def scene() -> None:
        for _ in range(1_000):
            with pytest.raises(NotAuthenticated):
                await access.identify("a.b.c", run_here)

    asyncio.run(scene())
    assert len(caplog.messages) == REFUSALS_LOGGED


def test_clocks_may_differ_a_little(issuer: Issuer, time: Time) -> None:
    access = access_of(issuer, time)
    assert ask(access, issuer.token(exp=NOW - SKEW + 1)).name == "ada"
    assert ask(access, issuer.token(nbf=NOW + SKEW, iat=NOW + SKEW)).name == "ada"


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_token_that_nobody_signed_is_refused(issuer: Issuer, time: Time) -> None:
    access = access_of(issuer, time)
    _, payload, signature = issuer.token().split(".")
    for algorithm in ("none", "None", "NONE", "", None, 7):
        header = encoded({"alg": algorithm, "kid": "rsa"})
        assert is_refused(access, f"{header}.{payload}.")
        assert is_refused(access, f"{header}.{payload}.{signature}")


@pytest.mark.parametrize("form", [Encoding.PEM, Encoding.DER])
@pytest.mark.parametrize(("algorithm", "digest"), [("HS256", hashlib.sha256), ("HS512", hashlib.sha512)])
def test_the_public_key_is_no_secret_to_sign_with(
    issuer: Issuer, time: Time, form: Encoding, algorithm: str, digest: Any
) -> None:
    public = private_key("rsa").public_key().public_bytes(form, PublicFormat.SubjectPublicKeyInfo)
    _, payload, _ = issuer.token().split(".")
    signed = f"{encoded({'alg': algorithm, 'kid': 'rsa', 'typ': 'JWT'})}.{payload}"
    signature = base64.urlsafe_b64encode(hmac.new(public, signed.encode(), digest).digest()).rstrip(b"=").decode()
    assert is_refused(access_of(issuer, time), f"{signed}.{signature}")


def test_a_token_of_another_key_or_with_other_contents_is_refused(issuer: Issuer, time: Time) -> None:
    access = access_of(issuer, time)
    assert is_refused(access, issuer.token("rsa-foreign", header={"kid": "rsa"}))
    assert is_refused(access, issuer.token("ec", header={"kid": "rsa"}))
    header, _, signature = issuer.token().split(".")
    other = issuer.token(scope="iceberg-hms:admin:*").split(".")[1]
    assert is_refused(access, f"{header}.{other}.{signature}")


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"crit": []}])
def test_a_header_that_asks_for_more_is_refused(issuer: Issuer, time: Time, header: dict[str, Any]) -> None:
    assert is_refused(access_of(issuer, time), issuer.token(header=header))


def test_a_token_names_no_key_of_its_own(issuer: Issuer, time: Time) -> None:
    header = {"kid": "rsa-foreign", "jwk": public_jwk("rsa-foreign"), "jku": f"{issuer.uri}/evil", "x5u": issuer.uri}
    assert is_refused(access_of(issuer, time), issuer.token("rsa-foreign", header=header))
    assert "/evil" not in issuer.asked


@pytest.mark.parametrize("token", [None, "", "a", "a.b.c", "..", "." * 5_000, "\u00ff.b.c", "a.b.c.d.e", "e30.e30.e30"])
def test_what_is_no_token_is_refused(issuer: Issuer, time: Time, token: str | None) -> None:
    assert is_refused(access_of(issuer, time), token)


def test_a_huge_token_is_refused_before_it_is_parsed(issuer: Issuer, time: Time) -> None:
    assert is_refused(access_of(issuer, time), issuer.token(filler="x" * TOKEN_BYTES_MAX))


@pytest.mark.parametrize(
    "key", [public_jwk("rsa", use="enc"), public_jwk("rsa", alg="RS512"), public_jwk("rsa-short", kid="rsa")]
)
def test_a_key_for_another_purpose_or_too_short_checks_nothing(issuer: Issuer, time: Time, key: dict[str, Any]) -> None:
    issuer.keys = [key]
    signer = "rsa-short" if key["n"] == public_jwk("rsa-short")["n"] else "rsa"
    assert is_refused(access_of(issuer, time), issuer.token(signer, header={"kid": "rsa"}))


def test_a_new_key_is_found_and_made_up_ones_do_not_make_the_server_ask_again_and_again(
    issuer: Issuer, time: Time
) -> None:
    access = access_of(issuer, time)
    time.seconds += KEYS_RETRY_SECONDS
    issuer.keys = [public_jwk("rsa-new")]
    assert ask(access, issuer.token("rsa-new")).name == "ada"
    asked = len(issuer.asked)
    for number in range(50):
        assert is_refused(access, issuer.token(header={"kid": f"made-up-{number}"}))
    assert len(issuer.asked) == asked
    time.seconds += KEYS_RETRY_SECONDS
    assert is_refused(access, issuer.token(header={"kid": "made-up"}))
    assert len(issuer.asked) == asked + 2


def test_a_withdrawn_key_stops_counting_also_for_remembered_tokens(issuer: Issuer, time: Time) -> None:
    access = access_of(issuer, time)
    token = issuer.token(exp=NOW + 1_000_000)
    assert ask(access, token).name == "ada"
    issuer.keys = [public_jwk("ec")]
    time.seconds += 3_600
    assert is_refused(access, token)


def test_a_remembered_token_expires(issuer: Issuer, time: Time) -> None:
    access = access_of(issuer, time)
    token = issuer.token(exp=NOW + 10)
    assert ask(access, token).name == "ada"
    time.seconds = 10 + SKEW - 1
    assert ask(access, token).name == "ada"
    time.seconds += 1
    assert time.seconds < REMEMBERED_SECONDS
    assert is_refused(access, token)


def test_an_issuer_that_is_away_is_429_and_its_known_keys_stay(issuer: Issuer, time: Time) -> None:
    issuer.documents["/keys"] = (503, {}, b"")
    access = access_of(issuer, time)
    with pytest.raises(IssuerUnavailable):
        ask(access, issuer.token())
    issuer.documents.clear()
    time.seconds += KEYS_RETRY_SECONDS
    assert ask(access, issuer.token()).name == "ada"
    issuer.documents["/keys"] = (503, {}, b"")
    time.seconds += 3_600
    assert ask(access, issuer.token(exp=NOW + 10_000)).name == "ada"


@pytest.mark.parametrize(
    "answer",
    [
        (302, {"Location": "http://127.0.0.1:1/"}, b""),
        (200, {}, b"[]"),
        (200, {}, b"{"),
        (200, {}, b'{"keys": 7}'),
        (
            200,
            {},
            b'{"keys": [7, {}, {"kty": "oct", "k": "AAAA"}, {"kty": "RSA", "n": "!", "e": "AQAB"}, {"kty": "EC"}]}',
        ),
        (200, {}, b'{"keys": [], "x": "' + b"x" * DOCUMENT_BYTES_MAX + b'"}'),
    ],
    ids=["redirect", "list", "cut", "number", "useless keys", "huge"],
)
def test_a_key_set_that_is_none_admits_nobody(issuer: Issuer, time: Time, answer: Any) -> None:
    issuer.documents["/keys"] = answer
    access = access_of(issuer, time)
    with pytest.raises((NotAuthenticated, IssuerUnavailable)):
        ask(access, issuer.token())


@pytest.mark.parametrize(
    "uri",
    ["http://issuer.example", "ftp://127.0.0.1", "file:///etc/keys", "https://", "https://a b", "https://u:p@h", "x"],
)
def test_an_issuer_that_anybody_could_play_is_refused_at_the_start(time: Time, uri: str) -> None:
    with pytest.raises(ConfigError, match="https"):
        OidcIssuer(RestSettings(rest_oidc_issuer=uri, rest_oidc_audience=AUDIENCE), time)


def test_keys_elsewhere_than_on_https_are_refused(issuer: Issuer, time: Time) -> None:
    document = json.dumps({"issuer": issuer.uri, "jwks_uri": "http://keys.example/"}).encode()
    issuer.documents["/.well-known/openid-configuration"] = (200, {}, document)
    with pytest.raises(ConfigError, match="https"):
        access_of(issuer, time)


def test_an_issuer_that_is_another_one_is_refused_at_the_start(issuer: Issuer, time: Time) -> None:
    document = json.dumps({"issuer": "https://another", "jwks_uri": f"{issuer.uri}/keys"}).encode()
    issuer.documents["/.well-known/openid-configuration"] = (200, {}, document)
    with pytest.raises(ConfigError, match="another"):
        access_of(issuer, time)


@pytest.mark.parametrize("given", [{"rest_oidc_audience": ""}, {"rest_oidc_issuer": ""}])
def test_an_issuer_without_an_audience_is_refused(issuer: Issuer, time: Time, given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="belong together"):
        access_of(issuer, time, **given)


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("scope", {"scope": "openid iceberg-hms:write:sales.* iceberg-hms:read:*"}),
        ("roles", {"roles": ["other", "iceberg-hms:write:sales", 7, "iceberg-hms:read:*"]}),
        ("realm_access.roles", {"realm_access": {"roles": ["iceberg-hms:write:sales", "iceberg-hms:read:*"]}}),
        ("https://x.example/a", {"https://x.example/a": ["iceberg-hms:write:sales", "iceberg-hms:read:*"]}),
    ],
)
def test_scopes_come_from_the_claim_that_the_settings_name(
    issuer: Issuer, time: Time, claim: str, value: dict[str, Any]
) -> None:
    access = access_of(issuer, time, rest_oidc_scopes_claim=claim, rest_oidc_name_claim="email")
    caller = ask(access, issuer.token(**{"scope": None, "email": "ada@example.org", **value}))
    assert (caller.name, [str(scope) for scope in caller.scopes]) == ("ada@example.org", ["write[sales]", "read[*]"])


@pytest.mark.parametrize("value", [None, "", [], {}, 7, "openid profile"])
def test_a_caller_without_scopes_is_known_and_may_nothing(issuer: Issuer, time: Time, value: Any) -> None:
    assert ask(access_of(issuer, time), issuer.token(scope=value)).scopes == ()
