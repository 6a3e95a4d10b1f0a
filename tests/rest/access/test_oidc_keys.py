"""The keys of an issuer; tests/security/test_oidc.py attacks them through tokens."""

from __future__ import annotations

import pytest

from iceberg_hms.errors import IssuerUnavailable
from iceberg_hms.rest.access.oidc_keys import IssuerKeys
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
