"""The keys of an issuer; tests/security/test_oidc.py attacks them through tokens."""

from __future__ import annotations

import pytest

from iceberg_hms.errors import ConfigError, IssuerUnavailable
from iceberg_hms.rest.access.oidc_keys import ATTEMPTS, READ_SECONDS, IssuerKeys
from tests.security.callers import ByHand
from tests.security.issuer import public_jwk, running_issuer


def test_the_version_grows_only_when_the_keys_change() -> None:
    with running_issuer() as issuer:
        keys = IssuerKeys(issuer.uri, ByHand(), retry_seconds=1, max_age_seconds=10)
        with pytest.raises(IssuerUnavailable):
            keys.key("rsa")
        versions = []
        for names in (["rsa"], ["rsa"], ["rsa", "ec"], ["ec"]):
            issuer.keys = [public_jwk(name) for name in names]
            keys.read()
            versions.append(keys.version)
        assert versions == [1, 1, 2, 3]
        # A token without a key id is checked with the only key.
        assert keys.key(None) == keys.key("ec")
        issuer.keys.append(public_jwk("rsa"))
        keys.read()
        assert keys.key(None) is None


def test_the_issuer_is_asked_when_the_keys_are_old_or_one_is_missing_and_not_too_often() -> None:
    clock = ByHand()
    with running_issuer() as issuer:
        keys = IssuerKeys(issuer.uri, clock, retry_seconds=1, max_age_seconds=10)
        assert keys.is_due(wanted=False)
        keys.read()
        assert not keys.is_due(wanted=True)
        clock.seconds = 1
        assert (keys.is_due(wanted=True), keys.is_due(wanted=False)) == (True, False)
        clock.seconds = 10
        assert keys.is_due(wanted=False)


@pytest.mark.parametrize("lost", range(ATTEMPTS))
def test_a_lost_request_is_sent_again(lost: int) -> None:
    with running_issuer() as issuer:
        keys = IssuerKeys(issuer.uri, ByHand(), retry_seconds=60, max_age_seconds=3_600)
        issuer.keys, issuer.failing = [public_jwk("rsa")], lost
        keys.read_first()
        assert keys.key("rsa") is not None
        assert len(issuer.asked) == lost + 2


def test_an_issuer_that_is_away_is_asked_a_few_times_and_then_no_more(caplog: pytest.LogCaptureFixture) -> None:
    clock = ByHand()
    with running_issuer() as issuer:
        keys = IssuerKeys(issuer.uri, clock, retry_seconds=60, max_age_seconds=3_600)
        issuer.failing = ATTEMPTS
        keys.read()
        assert len(issuer.asked) == ATTEMPTS
        assert 0 < clock.seconds < 2
        assert not keys.is_due(wanted=True)
    assert len(caplog.messages) == 1


def test_an_issuer_that_takes_long_to_fail_is_asked_once() -> None:
    """because callers wait for it"""

    class Slow(ByHand):
        def monotonic(self) -> float:
            self.seconds += READ_SECONDS
            return self.seconds

    with running_issuer() as issuer:
        issuer.failing = ATTEMPTS
        IssuerKeys(issuer.uri, Slow(), retry_seconds=60, max_age_seconds=3_600).read()
        assert len(issuer.asked) == 1


def test_an_issuer_that_is_another_one_is_asked_once() -> None:
    with running_issuer() as issuer:
        issuer.documents["/.well-known/openid-configuration"] = (200, {}, b'{"issuer": "https://another"}')
        with pytest.raises(ConfigError, match="another"):
            IssuerKeys(issuer.uri, ByHand(), retry_seconds=60, max_age_seconds=3_600).read_first()
        assert len(issuer.asked) == 1
