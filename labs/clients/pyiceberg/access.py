"""PyIceberg with the tokens and certificates of docs/authentication.md and docs/security.md."""

from __future__ import annotations

import datetime
import ipaddress
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import pytest

from labs.clients import others
from labs.clients.lab import Server
from labs.clients.results import Verdict, works
from tests.security.issuer import AUDIENCE, Issuer, public_jwk

if TYPE_CHECKING:
    from collections.abc import Callable

    from labs.clients.lab import Place

CLIENT, SECRET = "etl", "a-secret-of-the-issuer"


def check_credential(place: Place) -> Verdict | None:
    """PyIceberg gets a token from the issuer for a client id and a secret, and may do what its scope says."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import ForbiddenError

    with _issuing(f"iceberg-hms:write:{place.namespace}") as issuer:
        options = ("--set", f"rest.oidc.issuer={issuer.uri}", "--set", f"rest.oidc.audience={AUDIENCE}")
        with _served(place, "oidc", *options) as server:
            catalog = load_catalog(
                "lake",
                type="rest",
                uri=server.uri,
                credential=f"{CLIENT}:{SECRET}",
                scope="anything",
                audience=AUDIENCE,
                **{"oauth2-server-uri": f"{issuer.uri}/token"},
            )
            catalog.create_table(place.table(), others.SCHEMA).append(others.rows(1))
            with pytest.raises(ForbiddenError):
                catalog.create_namespace(f"{place.namespace}_other")
    assert place.lab.catalog.pointer(place.table()).table.owner == CLIENT
    assert [row["id"] for row in place.lab.rows(place.table())] == [1]
    return None


def check_tls(place: Place) -> Verdict | None:
    """A server with a certificate of an own authority, and PyIceberg that knows the authority."""
    from pyiceberg.catalog import load_catalog

    files = _certificates(place.folder)
    options = ("--set", f"rest.ssl-certfile={files['cert']}", "--set", f"rest.ssl-keyfile={files['key']}")
    with _served(place, "tls", *options) as server, pytest.MonkeyPatch.context() as environment:
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            environment.delenv(name, raising=False)
        assert server.uri.startswith("https://"), server.uri
        ssl: dict[str, Any] = {"ssl": {"cabundle": str(files["ca"])}}
        known = {"type": "rest", "uri": server.uri, "token": place.lab.token}
        catalog = load_catalog("lake", **known, **ssl)
        catalog.create_table(place.table(), others.SCHEMA).append(others.rows(1))
        with pytest.raises(OSError, match=r"(?i)certificate verify failed"):
            load_catalog("stranger", **known)
    assert [row["id"] for row in place.lab.rows(place.table())] == [1]
    return works("with `ssl={'cabundle': FILE}`, over which REQUESTS_CA_BUNDLE in the environment wins")


@contextmanager
def _served(place: Place, name: str, *options: str) -> Iterator[Server]:
    server = Server(place.folder / name, place.lab.metastore_uri, place.lab.warehouse, *options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def _issuing(scope: str) -> Iterator[Issuer]:
    """An OpenID Connect issuer with a token endpoint for one client."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*issuer.answer(self.path)[::2])

        def do_POST(self) -> None:
            given = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            if (given["client_id"], given["client_secret"]) != ([CLIENT], [SECRET]):
                self._answer(401, b'{"error": "invalid_client"}')
                return
            expires = int(datetime.datetime.now(datetime.UTC).timestamp()) + 600
            token = issuer.token(sub=CLIENT, exp=expires, scope=scope, aud=given["audience"][0])
            self._answer(200, json.dumps({"access_token": token, "token_type": "bearer", "expires_in": 600}).encode())

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = Issuer(server.server_port)
        issuer.keys = [public_jwk("rsa")]
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()


def _certificates(folder: Path) -> dict[str, Path]:
    """An authority, and a certificate of it for 127.0.0.1 with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def certificate(subject: str, public: Any, *extensions: tuple[x509.ExtensionType, bool]) -> bytes:
        builder = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name("authority"))
        builder = builder.public_key(public).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    authority = x509.BasicConstraints(ca=True, path_length=None)
    texts = {
        "ca": certificate("authority", ca_key.public_key(), (authority, True)),
        "cert": certificate("server", key.public_key(), (address, False)),
        "key": key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }
    files = {}
    for each, content in texts.items():
        files[each] = folder / f"{each}.pem"
        files[each].write_bytes(content)
        files[each].chmod(0o600)
    return files


CHECKS: Final[dict[str, Callable[[Place], Verdict | None]]] = {
    "credential of an issuer": check_credential,
    "TLS": check_tls,
}
