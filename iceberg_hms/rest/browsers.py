"""What a server without tokens asks of requests that a browser may send for a page of somebody else.

A browser on the server's machine or network reaches the server, and a page of any site can make it send requests. With
tokens that is harmless, since the page knows none. Without them three headers that a page cannot choose freely tell its
requests from those of clients:

- Host is the name in the page's URL. A site whose name suddenly resolves to 127.0.0.1 (DNS rebinding) sends its own.
- Origin names the site of the page. Iceberg clients send none.
- Content-Type: only `text/plain` and the types of HTML forms cross sites without the server's consent (CORS).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

JSON: Final = "application/json"


class BrowserCheck:
    """Refuses requests of foreign pages. hosts: the names by which browsers may call the server, besides addresses and
    names of this machine."""

    def __init__(self, hosts: str) -> None:
        self._hosts = frozenset(_plain(host) for host in hosts.split(",") if host.strip())

    def check(self, fields: Sequence[tuple[str, str]]) -> None:
        """fields: of the header, with their names in lower case. Raises HTTPException: 403 for a foreign host or
        origin, 415 for a body that does not say that it is JSON."""
        headers = dict(reversed(fields))
        hosts = [text for name, text in fields if name == "host"]
        for host in hosts:
            if not self._known(_name(host)):
                raise HTTPException(
                    403,
                    f"This server has no tokens, so it answers only under names that it knows; {host[:128]!r} is none"
                    " (add it to `rest.allowed-hosts`)",
                )
        for origin in [text for name, text in fields if name == "origin"]:
            host = _host_of(origin)
            if host not in hosts and _name(host) not in self._hosts:
                raise HTTPException(
                    403,
                    f"This server has no tokens, so pages of other sites may not use it, and {origin[:128]!r} is one"
                    " (add its host to `rest.allowed-hosts`)",
                )
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
            if media_type != JSON:
                raise HTTPException(415, f"The request body needs the header Content-Type: {JSON}")

    def _known(self, name: str) -> bool:
        return name in self._hosts or name == "localhost" or name.endswith(".localhost") or _is_address(name)


def _host_of(origin: str) -> str:
    """The host and port of an origin; nothing for one that is no URL."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _name(host: str) -> str:
    """The name or address in `name:port`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return _plain(host.partition(":")[0])


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
