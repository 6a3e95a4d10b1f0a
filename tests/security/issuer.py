"""A local OpenID Connect issuer: a small HTTP server on loopback, with real keys."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "iceberg"
TOKEN_PATH = "/token"


@cache
def private_key(name: str) -> Any:
    """A key pair by its name: rsa..., ec..., ed... Made once for all tests."""
    if name.startswith("rsa"):
        return rsa.generate_private_key(public_exponent=65_537, key_size=1_024 if "short" in name else 2_048)
    return ec.generate_private_key(ec.SECP256R1()) if name.startswith("ec") else ed25519.Ed25519PrivateKey.generate()


def public_jwk(name: str, **fields: Any) -> dict[str, Any]:
    public = private_key(name).public_key()
    algorithm: Any = {"rs": RSAAlgorithm, "ec": ECAlgorithm, "ed": OKPAlgorithm}[name[:2]]
    return {**algorithm.to_jwk(public, as_dict=True), "kid": name, "use": "sig", **fields}


class Issuer:
    """keys: the names of its keys. documents: path -> (status, headers, body) that differ from a good issuer's.
    failing: so many of the next requests get 503. clients: the secret of each client that may ask for tokens, and the
    claims that they get. asked: the paths of all requests."""

    def __init__(self, port: int) -> None:
        self.uri = f"http://127.0.0.1:{port}"
        self.keys: list[dict[str, Any]] = []
        self.documents: dict[str, tuple[int, Mapping[str, str], bytes]] = {}
        self.clients: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self.failing = 0
        self.asked: list[str] = []

    def answer(self, path: str) -> tuple[int, Mapping[str, str], bytes]:
        self.asked.append(path)
        if self.failing:
            self.failing -= 1
            return 503, {}, b""
        if path in self.documents:
            return self.documents[path]
        if path == "/.well-known/openid-configuration":
            return 200, {}, json.dumps({"issuer": self.uri, "jwks_uri": f"{self.uri}/keys"}).encode()
        return 200, {}, json.dumps({"keys": self.keys}).encode()

    def grant(self, form: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        """The answer to a request of its token endpoint (RFC 6749, section 4.4): status and JSON."""
        self.asked.append(TOKEN_PATH)
        secret, claims = self.clients.get(form.get("client_id", ""), ("", {}))
        if form.get("grant_type") != "client_credentials" or not secret or form.get("client_secret") != secret:
            return 401, {"error": "invalid_client"}
        token = self.token(sub=form["client_id"], **claims)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": 3_600}

    def token(self, key: str = "rsa", algorithm: str | None = None, header: Any = None, **claims: Any) -> str:
        """A token of this issuer. claims: None leaves one out."""
        default = {"rs": "RS256", "ec": "ES256", "ed": "EdDSA"}[key[:2]]
        filled = {"iss": self.uri, "aud": AUDIENCE, "sub": "ada", "exp": 2_000, "scope": "iceberg-hms:read:*", **claims}
        payload = {name: value for name, value in filled.items() if value is not None}
        with warnings.catch_warnings():
            # The library warns of a short key, which one test is about.
            warnings.simplefilter("ignore")
            return jwt.encode(payload, private_key(key), algorithm or default, headers={"kid": key, **(header or {})})


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = issuer.answer(self.path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            status, answer = issuer.grant({name: values[0] for name, values in form.items()})
            body = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), "Content-Type": "application/json"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = Issuer(server.server_address[1])
        issuer.keys = [public_jwk("rsa"), public_jwk("ec"), public_jwk("ed")]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield issuer
        server.shutdown()
        thread.join(10)
