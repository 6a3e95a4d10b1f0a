"""What is remembered of tokens; tests/security/test_oidc.py attacks the rest."""

from __future__ import annotations

import asyncio

import pytest

from iceberg_hms.rest.access import oidc
from iceberg_hms.rest.settings import RestSettings
from tests.security.callers import ByHand, run_here
from tests.security.issuer import AUDIENCE, running_issuer


def test_only_so_many_tokens_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "REMEMBERED_MAX", 2)
    checks: list[object] = []

    async def counted(function):  # type: ignore[no-untyped-def]
        checks.append(function)
        return await run_here(function)

    with running_issuer() as issuer:
        access = oidc.OidcIssuer(RestSettings(rest_oidc_issuer=issuer.uri, rest_oidc_audience=AUDIENCE), ByHand())
        tokens = [issuer.token(exp=10**12, jti=str(number)) for number in range(3)]

        async def ask_all() -> None:
            for token in (*tokens, tokens[2], tokens[0]):
                await access.identify(token, counted)

        asyncio.run(ask_all())
    assert len(checks) == 4
