"""Authentication: one bearer token for the whole server (RFC 6750), or none."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from iceberg_hms.errors import ConfigError


def check_token(token: str | None) -> None:
    """Raises ConfigError for a token that protects nothing, or that no client can send."""
    if token is not None and not (token and token.isascii() and token.isprintable() and token == token.strip()):
        raise ConfigError(
            "the REST token is empty, begins or ends with a blank, or has characters that a header cannot carry",
            next_step="give a token of random letters and digits, or none at all",
        )


class BearerToken:
    """Admits requests with `Authorization: Bearer <token>`. token: None admits every request. Raises ConfigError as
    `check_token`."""

    def __init__(self, token: str | None) -> None:
        check_token(token)
        self._token = None if token is None else token.encode()

    def admits(self, headers: Headers) -> bool:
        """Whether a request's headers carry the token."""
        if self._token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # In constant time: the time for a wrong token must not show how much of it is right.
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self._token)

    @staticmethod
    def refusal() -> HTTPException:
        """The response to other requests: 401 NotAuthorizedException."""
        return HTTPException(
            401,
            "The request has no valid bearer token; set the client's `token` property to the server's token",
            {"WWW-Authenticate": 'Bearer realm="iceberg-hms"'},
        )
