from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.errors import ConfigError
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.rest.tls import certificates


def test_without_a_certificate_there_is_no_tls() -> None:
    assert certificates(RestSettings()) is None


@pytest.mark.parametrize("name", ["rest_ssl_keyfile", "rest_ssl_ca_certs"])
def test_other_files_without_a_certificate_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"rest\.ssl-certfile"):
        certificates(RestSettings(**{name: "/some/file.pem"}))


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_a_file_that_is_no_certificate_is_refused_by_its_name(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "server.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=r"server\.pem"):
        certificates(RestSettings(rest_ssl_certfile=str(file)))
