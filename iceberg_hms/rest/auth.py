"""Who may ask: one bearer token for the whole server (RFC 6750), or nobody is asked for one."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from iceberg_hms.errors import ConfigError


def check_token(token: str | None) -> None:
    """Refuse a token that looks like a lock and is none, or that no client can send. Raises ConfigError."""
    if token is not None and not (token and token.isascii() and token.isprintable() and token == token.strip()):
        raise ConfigError(
            "the REST token is empty, begins or ends with a blank, or has characters that a header cannot carry",
            next_step="give a token of random letters and digits, or none at all",
        )


class BearerToken:
    """Lets in who sends `Authorization: Bearer <token>`. token: None lets everybody in. Raises ConfigError for one that
    `check_token` refuses."""

    def __init__(self, token: str | None) -> None:
        check_token(token)
        self._token = None if token is None else token.encode()

    def admits(self, headers: Headers) -> bool:
        """Whether a request's headers carry the token."""
        if self._token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Constant time: how long a wrong token takes must not tell how much of it is right.
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self._token)

    @staticmethod
    def refusal() -> HTTPException:
        """What the others are answered: 401 NotAuthorizedException."""
        return HTTPException(
            401,
            "The request has no valid bearer token; set the client's `token` property to the server's token",
            {"WWW-Authenticate": 'Bearer realm="iceberg-hms"'},
        )
