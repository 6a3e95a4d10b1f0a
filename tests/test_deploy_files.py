"""conf/deploy: its options and settings exist, and its paths agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from iceberg_hms.cli.serve import EXIT_SECONDS
from iceberg_hms.metastore.locks.table_lock import CLOSE_SECONDS
from iceberg_hms.rest.health import LIVE_PATH, READY_PATH
from iceberg_hms.rest.server import STOP_MARGIN_SECONDS, STOP_SECONDS
from iceberg_hms.rest.settings import RestSettings, load
from tests.cli.fakes import run

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "conf" / "deploy"
KUBERNETES = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
UNIT = (DEPLOY / "iceberg-hms.service").read_text(encoding="utf-8")


def kubernetes_configuration() -> str:
    """The TOML file in the ConfigMap."""
    found = re.search(r"iceberg-hms\.toml: \|\n((?:    .*\n)+)", KUBERNETES)
    assert found is not None
    return re.sub(r"^    ", "", found[1], flags=re.MULTILINE)


@pytest.mark.parametrize("text", [DOCKERFILE, UNIT], ids=["Dockerfile", "unit"])
def test_serve_has_the_options_that_start_it(text: str) -> None:
    help_text = run("serve", "--help").stdout
    options = set(re.findall(r"--(?:config|host|port|no-auth|token-file|set)\b", text))
    assert options == {"--config", "--token-file"}
    assert all(option in help_text for option in options)


def test_the_configuration_of_kubernetes_holds_settings(tmp_path: Path) -> None:
    file = tmp_path / "iceberg-hms.toml"
    file.write_text(kubernetes_configuration(), encoding="utf-8")
    settings, server = load({}, environ={}, file=file)
    assert server.rest_host == "0.0.0.0"
    assert tomllib.loads(file.read_text(encoding="utf-8"))["uri"] == settings.metastore_uri


def test_paths_and_users_agree() -> None:
    mounts = set(re.findall(r"mountPath: ([^,}\s]+)", KUBERNETES))
    command = re.search(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)
    assert command is not None
    for path in re.findall(r'"(/[^"]+)"', command[1] + kubernetes_configuration()):
        assert any(path == mount or path.startswith(f"{mount}/") for mount in mounts), path
    assert set(re.findall(r"runAs(?:User|Group): (\d+)", KUBERNETES)) == set(re.findall(r"--uid (\d+)", DOCKERFILE))
    assert {LIVE_PATH, READY_PATH} == set(re.findall(r"path: (/health/[a-z]+)", KUBERNETES))


def test_every_file_that_the_image_copies_exists() -> None:
    copied = [
        name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()
    ]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_guide_begins_with_the_metastore() -> None:
    headings = re.findall(r"^## (.*)$", GUIDE, re.MULTILINE)
    assert headings[0] == "Close the metastore first"
    assert "thrift" in GUIDE.split("## ")[1]


def test_no_other_user_reads_the_configuration() -> None:
    """It may hold credentials for clients."""
    assert "install -d -o root -g iceberg-hms -m 750 /etc/iceberg-hms" in GUIDE
    assert "install -o root -g iceberg-hms -m 640 conf/iceberg-hms.toml /etc/iceberg-hms/" in GUIDE
    assert re.findall(r"-m (\d+) conf/iceberg-hms.toml", GUIDE) == ["640"]
    for volume in ("configMap: {name: iceberg-hms", "secretName: iceberg-hms-tokens", "secretName: iceberg-hms-tls"):
        assert re.search(volume + r", defaultMode: 0440", KUBERNETES), volume


def test_a_digest_pins_the_image_that_all_stages_begin_with() -> None:
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE}"}
    pinned = re.findall(r"^ARG BASE=(\S+)@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
    assert len(pinned) == 1
    assert f"--build-arg BASE={pinned[0]}@sha256:" in GUIDE


def test_nobody_kills_a_server_that_stops_in_order() -> None:
    settings = RestSettings()
    requests = settings.rest_commit_wait_ms / 1000 + STOP_SECONDS + STOP_MARGIN_SECONDS
    longest = settings.rest_drain_ms / 1000 + requests + CLOSE_SECONDS + EXIT_SECONDS
    for text, pattern in ((KUBERNETES, r"terminationGracePeriodSeconds: (\d+)"), (UNIT, r"TimeoutStopSec=(\d+)")):
        found = re.search(pattern, text)
        assert found is not None
        assert longest < int(found[1]) < 2 * longest
