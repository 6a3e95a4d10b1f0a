"""OpenID Connect: callers who bring a JSON Web Token of an issuer (RFC 9068, RFC 7519).

A token counts if a key of the issuer signed it, and it names this issuer, this server as its audience, and a time that
is now. It is an access token: an ID token is refused where it can be recognized. Its scopes are values of a claim, a
list or one text with blanks:

    iceberg-hms:write:sales_*   iceberg-hms:read:*

A token that was checked is remembered until it expires, for at most some minutes, or until the issuer's keys change.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jwt

from iceberg_hms.clock import Clock
from iceberg_hms.errors import ConfigError, InvalidInput, NotAuthenticated
from iceberg_hms.rest.access.authorization import ByScopes, RunOnThread
from iceberg_hms.rest.access.oidc_keys import ALGORITHMS, IssuerKeys
from iceberg_hms.rest.access.scopes import Caller, Level, Scope, bounded, checked_name
from iceberg_hms.rest.log_lines import LineLimit
from iceberg_hms.rest.settings import RestSettings

logger = logging.getLogger(__name__)

#: What begins the values of the scopes claim that are meant for this server.
PREFIX: Final = "iceberg-hms:"
TOKEN_BYTES_MAX: Final = 16 * 1024
#: How many checked tokens are remembered, and how long at most.
REMEMBERED_MAX: Final = 4_096
REMEMBERED_SECONDS: Final = 300.0
#: How many refusals have a line in the log, in so many seconds.
REFUSALS_LOGGED: Final = 20
REFUSALS_SECONDS: Final = 10.0
#: How often the issuer is asked for its keys at most.
KEYS_RETRY_SECONDS: Final = 30.0
#: How old the issuer's keys get.
KEYS_MAX_AGE_SECONDS: Final = 3_600.0

#: Claims that ID tokens alone have (OpenID Connect Core 1.0, 3.3.2.11): hashes of what came with them.
_MARKS: Final = frozenset(("at_hash", "c_hash"))
_LEVELS: Final = {str(level): level for level in Level}


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A checked token. until_ms: in wall-clock time. version: of the keys that it was checked with."""

    caller: Caller
    until_ms: int
    version: int


class OidcIssuer(ByScopes):
    """Access by tokens of the issuer that the settings name. Only the event loop calls `identify`.

    Raises ConfigError for settings that are not complete, and for an issuer that is not the one it says; reads the
    issuer's keys at once.
    """

    def __init__(self, settings: RestSettings, clock: Clock) -> None:
        if not settings.rest_oidc_issuer or not settings.rest_oidc_audience:
            raise ConfigError(
                "rest.oidc.issuer and rest.oidc.audience belong together",
                next_step="set both: without an audience, tokens for any other service would be accepted",
            )
        self._settings = settings
        self._clock = clock
        self._types = {_type(name) for name in settings.rest_oidc_token_types.split(",") if name.strip()}
        self._refusals = LineLimit(REFUSALS_LOGGED, REFUSALS_SECONDS, _tell_more)
        self._keys = IssuerKeys(
            settings.rest_oidc_issuer,
            clock,
            retry_seconds=KEYS_RETRY_SECONDS,
            max_age_seconds=KEYS_MAX_AGE_SECONDS,
        )
        self._keys.read_first()
        self._reading: asyncio.Future[None] | None = None
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()

    async def identify(self, bearer: str | None, run: RunOnThread) -> Caller:
        """As the port says."""
        try:
            return await self._identify(bearer, run)
        except _Refused as refused:
            if self._refusals.has_room("refused a token", None, self._clock.monotonic()):
                logger.info("refused a token: %.200s", refused)
            raise NotAuthenticated(
                "The request has no valid bearer token of the server's issuer", next_step=refused.next_step
            ) from refused

    async def _identify(self, bearer: str | None, run: RunOnThread) -> Caller:
        """Raises _Refused, IssuerUnavailable, QueueFull."""
        if bearer is None or len(bearer) > TOKEN_BYTES_MAX or not bearer.isascii() or bearer.count(".") != 2:
            raise _Refused("it is no JSON Web Token")
        if self._keys.is_due(wanted=False):
            await self._read_keys(run)
        digest = hashlib.sha256(bearer.encode()).digest()
        known = self._remembered.get(digest)
        if known is not None and known.version == self._keys.version and self._clock.now_ms() < known.until_ms:
            return known.caller
        header = _header(bearer)
        if self._keys.key(header.get("kid")) is None and self._keys.is_due(wanted=True):
            await self._read_keys(run)
        checked = await run(partial(self._check, bearer, header))
        self._remembered[digest] = checked
        while len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return checked.caller

    async def _read_keys(self, run: RunOnThread) -> None:
        """Callers who come meanwhile wait for the same read, and take no thread."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(run(self._keys.read))
        await asyncio.shield(self._reading)

    def _check(self, bearer: str, header: Mapping[str, Any]) -> _Remembered:
        """Check a token, on a thread: a signature takes up to a millisecond. Raises _Refused."""
        version = self._keys.version
        key = self._keys.key(header.get("kid"))
        if key is None or header["alg"] not in key.algorithms:
            raise _Refused("no key of the issuer signed it")
        # The times are checked below, by this clock.
        options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "require": ["exp", "iss", "aud"]}
        try:
            claims = jwt.decode(
                bearer,
                key.key,
                algorithms=[header["alg"]],
                issuer=self._settings.rest_oidc_issuer,
                audience=self._settings.rest_oidc_audience,
                options=options,
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise _Refused(f"{type(error).__name__}") from error
        self._check_type(header, claims)
        until_ms = self._valid_until(claims)
        return _Remembered(self._caller(claims), until_ms, version)

    def _check_type(self, header: Mapping[str, Any], claims: Mapping[str, Any]) -> None:
        """Raises _Refused for a token of another type than the setting names, and for an ID token: it is meant for the
        client, who shows it to others."""
        kind, keycloaks = _type(header.get("typ")), _type(claims.get("typ"))
        # Keycloak before 25 puts the nonce of a login into its access token too.
        marked = not _MARKS.isdisjoint(claims) or ("nonce" in claims and keycloaks != "bearer")
        if marked or "id" in (kind.partition("+")[0], keycloaks):
            raise _Refused("it is an ID token", "send the access token instead of the ID token")
        if self._types and kind not in self._types:
            raise _Refused("its type is not one of rest.oidc.token-types")

    def _valid_until(self, claims: Mapping[str, Any]) -> int:
        """By this clock, not that of the library. Raises _Refused for a time that is not now."""
        now, skew = self._clock.now_ms() / 1000, self._settings.rest_oidc_clock_skew_seconds
        times = [claims.get(name, now) for name in ("exp", "nbf", "iat")]
        if not all(isinstance(time_, int | float) and not isinstance(time_, bool) for time_ in times):
            raise _Refused("its times are no numbers")
        expires, not_before, issued = times
        if not now < expires + skew:
            raise _Refused("it has expired")
        if not (now >= not_before - skew and now >= issued - skew):
            raise _Refused("it is not valid yet")
        return int(min(expires + skew, now + REMEMBERED_SECONDS) * 1000)

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        name = _claim(claims, self._settings.rest_oidc_name_claim)
        try:
            return Caller(
                checked_name(name if isinstance(name, str) else ""),
                bounded(tuple(_scopes(_claim(claims, self._settings.rest_oidc_scopes_claim)))),
            )
        except InvalidInput as error:
            raise _Refused(error.message) from error


class _Refused(Exception):
    """Raised for a token that does not count. Its text is the reason, for the log. next_step: for the caller."""

    def __init__(self, why: str, next_step: str = "get a new token and send it again") -> None:
        super().__init__(why)
        self.next_step = next_step


def _tell_more(_cause: str, _caller: str | None, left_out: int) -> None:
    logger.info("refused %d more token(s)", left_out)


def _type(found: Any) -> str:
    """The type of a token as RFC 9068 compares it (RFC 7515, 4.1.9)."""
    return found.strip().lower().removeprefix("application/") if isinstance(found, str) else ""


def _header(bearer: str) -> dict[str, Any]:
    """The token's header, before its signature is checked. Raises _Refused unless it can be checked."""
    try:
        header: dict[str, Any] = jwt.get_unverified_header(bearer)
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise _Refused("it is no JSON Web Token") from error
    # `none` signs nothing, and an HMAC could be made with the public key.
    if header.get("alg") not in ALGORITHMS:
        raise _Refused("its algorithm is not accepted")
    # What the token declares critical, this server does not know (RFC 7515, 4.1.11).
    if "crit" in header or not isinstance(header.get("kid", ""), str):
        raise _Refused("its header is not accepted")
    return header


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name; else, as Keycloak nests `realm_access.roles`, by the names on the way to it."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _scopes(claim: Any) -> Iterator[Scope]:
    """The scopes for this server; values for others are left out. Raises InvalidInput for a malformed one."""
    values = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    for value in values:
        if isinstance(value, str) and value.startswith(PREFIX):
            level, _, pattern = value.removeprefix(PREFIX).partition(":")
            if level not in _LEVELS:
                raise InvalidInput(f"not a scope: {value[:128]!r}", next_step="write iceberg-hms:read:namespace")
            yield Scope(_LEVELS[level], pattern)
