"""TLS: the server's certificate and the authorities of clients' certificates, read again when their files change."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final

from iceberg_hms.errors import ConfigError
from iceberg_hms.rest.settings import RestSettings

logger = logging.getLogger(__name__)

#: How often at most the files are looked at, in seconds.
LOOK_SECONDS: Final = 5.0


class Certificates:
    """The TLS context of new connections. Only the event loop calls `context`. Raises ConfigError for files that cannot
    be used."""

    def __init__(self, certificate: str, key: str, authorities: str) -> None:
        self._files = tuple(Path(name) for name in (certificate, key or certificate, authorities) if name)
        self._authorities = authorities
        self._looked = 0.0
        self._stamp = tuple(map(_stamp, self._files))
        self._context = self._load()

    def context(self, now: float) -> ssl.SSLContext:
        """The context by the newest files; if they cannot be used, that is logged, and the last one stays. now: seconds
        on a clock that never goes back."""
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            stamp = tuple(map(_stamp, self._files))
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._context = self._load()
                    logger.info("read the certificate %s again", self._files[0])
                except ConfigError as error:
                    logger.warning("new connections still get the last certificate: %s", error)
        return self._context

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without a function for the password, OpenSSL would ask on the terminal.
            context.load_cert_chain(self._files[0], self._files[1], password=lambda: "")
            if self._authorities:
                context.load_verify_locations(self._authorities)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:
            names = ", ".join(map(str, self._files))
            raise ConfigError(
                f"cannot use the TLS files {names}: {error}",
                next_step="name PEM files that this process may read, with the key not under a password",
            ) from error
        return context


def _stamp(path: Path) -> tuple[int, int] | None:
    """A file's time of change and its size."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def certificates(settings: RestSettings) -> Certificates | None:
    """Those that the settings name; None for a server without TLS. Raises ConfigError as `Certificates`, and for a key
    or authorities without a certificate."""
    others = settings.rest_ssl_keyfile or settings.rest_ssl_ca_certs
    if settings.rest_ssl_certfile:
        return Certificates(settings.rest_ssl_certfile, settings.rest_ssl_keyfile, settings.rest_ssl_ca_certs)
    if others:
        raise ConfigError(f"{others} is named for TLS without a certificate", next_step="set `rest.ssl-certfile` too")
    return None
