"""The public keys of an OpenID Connect issuer: its discovery document, its key set, and their rotation.

The issuer and its key set are read over https, or over http from this machine, without redirects, within bounds of size
and time. All methods but `key` and `is_due` block, and run on a thread.
"""

from __future__ import annotations

import logging
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, Final
from urllib.parse import urlsplit

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from tenacity import Retrying, retry_if_exception_type, wait_exponential

from iceberg_hms.clock import Clock
from iceberg_hms.errors import ConfigError, IssuerUnavailable

logger = logging.getLogger(__name__)

#: The signatures that are accepted: asymmetric ones, so that nobody who can check a token can make one.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
#: Kinds of keys -> the signatures that they make. A token's header does not choose how a key is used.
_ALGORITHMS_OF: Final[Mapping[str, frozenset[str]]] = {
    "RSA": frozenset(name for name in ALGORITHMS if name[:2] in ("RS", "PS")),
    "EC": frozenset(name for name in ALGORITHMS if name.startswith("ES")),
    "OKP": frozenset({"EdDSA"}),
}
_DISCOVERY: Final = "/.well-known/openid-configuration"
DOCUMENT_BYTES_MAX: Final = 256 * 1024
KEYS_MAX: Final = 100
RSA_BITS: Final = range(2048, 8193)
#: How long one read of a document may take between two of its bytes, and in all.
READ_SECONDS: Final = 5.0
DOCUMENT_SECONDS: Final = 10.0
#: How often a read of the keys is tried, and how long to wait before the first retry, give or take half.
ATTEMPTS: Final = 3
_RETRY_SECONDS: Final = 0.2
_PIECE: Final = 16 * 1024
_HOSTS_OF_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key of the issuer, and the signatures that may be checked with it."""

    key: Any
    algorithms: frozenset[str]


class IssuerKeys:
    """The keys of one issuer. Raises ConfigError for an issuer that is not reached safely.

    retry_seconds: how often the keys are read at most, so that tokens with made-up key ids do not make this server
    attack the issuer. max_age_seconds: how old the keys may get before they are read again, since the issuer may have
    withdrawn one.
    """

    def __init__(self, issuer: str, clock: Clock, *, retry_seconds: float, max_age_seconds: float) -> None:
        check_url(issuer)
        self._issuer = issuer
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._max_age_seconds = max_age_seconds
        self._keys: dict[str | None, IssuerKey] | None = None
        self._asked: float | None = None
        self._read = 0.0
        #: Grows when the keys change: what was checked with the old ones is checked again.
        self.version = 0

    def key(self, key_id: str | None) -> IssuerKey | None:
        """The key of this id; without an id the only key. Raises IssuerUnavailable if no keys were read so far."""
        if self._keys is None:
            raise IssuerUnavailable("The issuer of tokens does not answer")
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    def is_due(self, *, wanted: bool) -> bool:
        """Whether to `read` now. wanted: a token names a key that is not known."""
        now = self._clock.monotonic()
        if self._asked is not None and now - self._asked < self._retry_seconds:
            return False
        return wanted or self._keys is None or now - self._read >= self._max_age_seconds

    def read(self) -> None:
        """Read the keys again. If the issuer does not answer, the old ones stay: it is logged."""
        self._asked = self._clock.monotonic()
        try:
            found = self._fetch()
        except (IssuerUnavailable, ConfigError) as error:
            logger.warning("cannot read the keys of the issuer %s: %s", self._issuer, error.message)
            return
        self._read = self._asked
        self._replace(found)

    def read_first(self) -> None:
        """Read the keys at the start. Raises ConfigError for an issuer that is another one than it says; one that does
        not answer is asked again later."""
        self._asked = self._clock.monotonic()
        try:
            self._replace(self._fetch())
            self._read = self._asked
        except IssuerUnavailable as error:
            logger.warning("no token of %s is accepted before it answers: %s", self._issuer, error.message)

    def _replace(self, found: Mapping[str, dict[str, Any]]) -> None:
        keys = _usable(found)
        known = {key_id: key.key for key_id, key in (self._keys or {}).items()}
        if {key_id: key.key for key_id, key in keys.items()} != known:
            self.version += 1
        self._keys = keys

    def _fetch(self) -> Mapping[str, Any]:
        """The key set. Asks again after a lost answer: it would refuse all callers for `retry_seconds`."""
        clock = self._clock
        until = clock.monotonic() + READ_SECONDS
        retrying = Retrying(
            retry=retry_if_exception_type(IssuerUnavailable),
            # Callers wait for this read: an issuer that takes long to fail is not asked again.
            stop=lambda state: state.attempt_number == ATTEMPTS or clock.monotonic() >= until,
            wait=wait_exponential(multiplier=_RETRY_SECONDS),
            # Jitter: all servers miss the answers of an issuer that restarts.
            sleep=lambda seconds: clock.sleep(seconds * (0.5 + clock.jitter())),
            reraise=True,
        )
        return retrying(self._fetch_once)

    def _fetch_once(self) -> Mapping[str, Any]:
        document = fetch_json(self._issuer.rstrip("/") + _DISCOVERY, self._clock)
        if document.get("issuer") != self._issuer:
            raise ConfigError(
                f"the issuer {self._issuer} says that it is another one", next_step="set rest.oidc.issuer as it says"
            )
        where = document.get("jwks_uri")
        if not isinstance(where, str):
            raise ConfigError(f"the issuer {self._issuer} names no jwks_uri", next_step="name an OpenID Connect issuer")
        check_url(where)
        return fetch_json(where, self._clock)


def check_url(url: str) -> None:
    """Raises ConfigError for what is neither https nor on this machine: its answer could be anybody's."""
    try:
        parts = urlsplit(url)
        safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _HOSTS_OF_THIS_MACHINE)
        good = safe and bool(parts.hostname) and parts.username is None and not parts.fragment and url.isascii()
    except ValueError:
        good = False
    if not good or not url.isprintable() or " " in url:
        raise ConfigError(f"{url[:256]!r} is no https address", next_step="name the issuer by an https address")


def _opener() -> urllib.request.OpenerDirector:
    """Knows no redirects: an address that was checked must not lead to one that was not."""
    opener = urllib.request.OpenerDirector()
    opener.add_handler(urllib.request.ProxyHandler())
    opener.add_handler(urllib.request.HTTPHandler())
    opener.add_handler(urllib.request.HTTPSHandler())
    opener.add_handler(urllib.request.HTTPDefaultErrorHandler())
    opener.add_handler(urllib.request.HTTPErrorProcessor())
    return opener


_OPENER: Final = _opener()


def fetch_json(url: str, clock: Clock) -> Mapping[str, Any]:
    """A JSON object. Raises IssuerUnavailable for anything else."""
    try:
        with _OPENER.open(url, timeout=READ_SECONDS) as response:
            value = orjson.loads(_read(response, clock.monotonic() + DOCUMENT_SECONDS, clock))
    except (OSError, HTTPException, orjson.JSONDecodeError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise IssuerUnavailable(f"{url} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise IssuerUnavailable(f"{url} is not a JSON object")
    return value


def _read(response: HTTPResponse, deadline: float, clock: Clock) -> bytes:
    data = bytearray()
    while piece := response.read1(_PIECE):
        data += piece
        if len(data) > DOCUMENT_BYTES_MAX:
            raise OSError(f"it has more than {DOCUMENT_BYTES_MAX} bytes")
        if clock.monotonic() > deadline:
            raise TimeoutError(f"it takes more than {DOCUMENT_SECONDS:g} s")
    return bytes(data)


def _usable(document: Mapping[str, Any]) -> dict[str | None, IssuerKey]:
    """The keys of a key set (RFC 7517) that sign; others are left out."""
    listed = document.get("keys")
    keys: dict[str | None, IssuerKey] = {}
    for raw in listed[:KEYS_MAX] if isinstance(listed, list) else ():
        if not isinstance(raw, dict) or raw.get("use", "sig") != "sig" or raw.get("kty") not in _ALGORITHMS_OF:
            continue
        allowed = _ALGORITHMS_OF[raw["kty"]]
        try:
            key = jwt.PyJWK(raw, algorithm=raw.get("alg") or _default_algorithm(raw)).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
            logger.warning("left out a key of the issuer: %s", type(error).__name__)
            continue
        if isinstance(key, RSAPublicKey) and key.key_size not in RSA_BITS:
            logger.warning("left out a key of the issuer of %d bits", key.key_size)
            continue
        key_id = raw.get("kid")
        said = raw.get("alg")
        keys[key_id if isinstance(key_id, str) else None] = IssuerKey(
            key, allowed if said is None else allowed & {said}
        )
    return keys


def _default_algorithm(raw: Mapping[str, Any]) -> str:
    curves = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
    return {"RSA": "RS256", "EC": curves.get(str(raw.get("crv")), "ES256"), "OKP": "EdDSA"}[raw["kty"]]
