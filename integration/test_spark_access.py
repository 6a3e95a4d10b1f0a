"""Stock Spark as a client of a server with TLS of a private authority, named tokens, and tokens of an OpenID Connect
issuer. docs/authentication.md has the same settings."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.spark.configuration import ICEBERG_RUNTIME, PACKAGES
from integration.command_line import running
from integration.spark_fixtures import SETTINGS, run_elsewhere
from integration.spark_statements import Outcome
from tests.security.certificates import Authority
from tests.security.issuer import AUDIENCE, TOKEN_PATH, Issuer, running_issuer

# A session takes a minute where the machine is busy, and each test starts one.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NAMESPACE = "spark_access"
TABLE = f"{NAMESPACE}.t"
SCOPES = {"admin": "admin[*]", "writer": f"write[{NAMESPACE}]", "reader": "read[*]", "stranger": "read[other]"}
TOKENS = {name: f"{name}-{'0123456789' * 4}" for name in (*SCOPES, "nobody")}
OPTIONS = "-Djavax.net.ssl.trustStore={} -Djavax.net.ssl.trustStorePassword=changeit"


@dataclass(frozen=True)
class Serving:
    uri: str
    issuer: Issuer
    audit: Path
    truststore: Path
    metastore: Any

    def run(self, catalogs: Mapping[str, Mapping[str, str]], *statements: str, trusting: bool = True) -> list[Outcome]:
        """Run statements in a session with these catalogs."""
        options = SETTINGS["spark.driver.extraJavaOptions"]
        if trusting:
            options = f"{options} {OPTIONS.format(self.truststore)}"
        settings = {PACKAGES: ICEBERG_RUNTIME, "spark.driver.extraJavaOptions": options}
        for name, properties in catalogs.items():
            key = f"spark.sql.catalog.{name}"
            settings[key] = "org.apache.iceberg.spark.SparkCatalog"
            for each, value in {"type": "rest", "uri": self.uri, "cache-enabled": "false", **properties}.items():
                settings[f"{key}.{each}"] = value
        return run_elsewhere(self.metastore, "stock", statements, self.truststore.parent, settings)

    def audited(self, caller: str, outcome: str) -> list[str]:
        """The actions of a caller that had this outcome."""
        lines = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [line["action"] for line in lines if (line["caller"], line["outcome"]) == (caller, outcome)]


@pytest.fixture(scope="module")
def serving(metastore: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("access")
    authority = Authority.make(folder / "authority")
    tokens = folder / "tokens"
    tokens.touch(0o600)
    hashes = {name: hashlib.sha256(token.encode()).hexdigest() for name, token in TOKENS.items()}
    tokens.write_text("".join(f"{name} {SCOPES[name]} sha256:{hashes[name]}\n" for name in SCOPES))
    with running_issuer() as issuer:
        options = ["--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse, "--token-file", str(tokens)]
        options += ["--port", "0", "--exit-with-stdin", "--audit-log", str(folder / "audit")]
        options += ["--set", f"rest.ssl-certfile={authority.issue('server')}"]
        options += ["--set", f"rest.oidc.issuer={issuer.uri}", "--set", f"rest.oidc.audience={AUDIENCE}"]
        with (folder / "log").open("w") as log, running("serve", *options, stderr=log) as (_, event):
            uri = event["uri"]
            assert uri.startswith("https:")
            made = Serving(uri, issuer, folder / "audit", truststore(folder, authority), metastore)
            lines = ("CREATE NAMESPACE admin." + NAMESPACE, f"CREATE TABLE admin.{TABLE} (id int) USING iceberg")
            done = made.run({"admin": {"token": TOKENS["admin"]}}, *lines)
            assert [each.error for each in done] == [None, None], done
            yield made


def truststore(folder: Path, authority: Authority) -> Path:
    """What the JVM trusts, and the authority."""
    home = os.environ.get("JAVA_HOME") or str(Path(shutil.which("java") or "").resolve().parent.parent)
    made = folder / "truststore"
    shutil.copy(Path(home) / "lib" / "security" / "cacerts", made)
    made.chmod(0o600)
    command = [
        str(Path(home) / "bin" / "keytool"),
        "-importcert",
        "-noprompt",
        "-alias",
        "lake",
        "-storepass",
        "changeit",
    ]
    command += ["-file", str(authority.certificate), "-keystore", str(made)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return made


def insert(catalog: str, value: int) -> str:
    return f"INSERT INTO {catalog}.{TABLE} VALUES ({value})"


def test_a_named_token_may_do_what_its_scope_says(serving: Serving) -> None:
    names = ("writer", "reader", "stranger", "nobody")
    catalogs = {name: {"token": TOKENS[name]} for name in names}
    done = serving.run(
        catalogs,
        insert("writer", 1),
        f"SELECT id FROM reader.{TABLE}",
        insert("reader", 2),
        f"DROP TABLE reader.{TABLE}",
        f"ALTER TABLE writer.{TABLE} SET TBLPROPERTIES ('iceberg-hms.exclusive'='true')",
        f"SELECT id FROM stranger.{TABLE}",
        f"SELECT id FROM nobody.{TABLE}",
        "CREATE NAMESPACE writer.more",
        f"SELECT id FROM writer.{TABLE}",
    )
    refused = {number: each.message for number, each in enumerate(done) if each.error}
    assert list(refused) == [2, 3, 4, 5, 6, 7], done
    for number, scope in ((2, "write"), (3, "write"), (4, "admin"), (5, "read")):
        assert "ForbiddenException" in refused[number]
        assert f"lacks the scope {scope}[{NAMESPACE}]" in refused[number]
    assert "NotAuthorizedException" in refused[6]
    # Spark first asks with HEAD, whose answer has no text.
    assert "ForbiddenException" in refused[7]
    assert (done[1].rows, done[8].rows) == (["(1,)"], ["(1,)"])
    assert {"commit", "drop-table"} <= set(serving.audited("reader", "refused"))
    assert serving.audited("reader", "done") == []
    assert "commit" in serving.audited("writer", "done")


def test_tokens_of_an_issuer_may_do_what_their_scopes_say(serving: Serving) -> None:
    issuer, soon = serving.issuer, int(time.time()) + 3_600
    issuer.clients["job"] = ("secret", {"exp": soon, "scope": f"openid iceberg-hms:write:{NAMESPACE}"})
    issuer.clients["viewer"] = ("other", {"exp": soon, "scope": "iceberg-hms:read:*"})
    endpoint = {"rest.auth.type": "oauth2", "oauth2-server-uri": issuer.uri + TOKEN_PATH, "scope": "lake"}
    catalogs = {
        "brought": {"token": issuer.token(exp=soon, sub="ada")},
        "expired": {"token": issuer.token(exp=soon - 7_200, sub="old")},
        "fetched": {**endpoint, "credential": "job:secret"},
        "viewing": {**endpoint, "credential": "viewer:other"},
        "wrong": {**endpoint, "credential": "job:guessed"},
        "unset": {"credential": "job:secret"},
    }
    done = serving.run(
        catalogs,
        f"SELECT count(id) >= 0 FROM brought.{TABLE}",
        insert("brought", 3),
        f"SELECT count(id) >= 0 FROM expired.{TABLE}",
        insert("fetched", 4),
        f"SELECT id FROM viewing.{TABLE} WHERE id = 4",
        insert("viewing", 5),
        f"SELECT id FROM wrong.{TABLE}",
        f"SELECT id FROM unset.{TABLE}",
    )
    refused = {number: each.message for number, each in enumerate(done) if each.error}
    assert list(refused) == [1, 2, 5, 6, 7], done
    for number in (1, 5):
        assert f"lacks the scope write[{NAMESPACE}]" in refused[number]
    assert "NotAuthorizedException" in refused[2]
    # The issuer's own answer; and this server's, which is no issuer.
    assert "invalid_client" in refused[6]
    assert "401" in refused[7]
    assert done[4].rows == ["(4,)"]
    assert "commit" in serving.audited("job", "done")
    assert set(serving.audited("ada", "done")) | set(serving.audited("viewer", "done")) == set()


def test_a_session_that_does_not_trust_the_authority_sends_nothing(serving: Serving) -> None:
    before = serving.audit.read_text()
    [done] = serving.run({"lake": {"token": TOKENS["nobody"]}}, f"SELECT id FROM lake.{TABLE}", trusting=False)
    assert "RESTException" in done.message
    # Whatever it would have sent, the server saw no caller.
    assert serving.audit.read_text() == before
