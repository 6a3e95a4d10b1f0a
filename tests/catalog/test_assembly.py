import socket

import pytest

import iceberg_hms
from iceberg_hms.catalog.assembly import connect
from iceberg_hms.errors import ConfigError, MetastoreUnavailable


@pytest.fixture
def unused_tcp_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_nothing_is_connected_before_the_first_call(unused_tcp_port):
    catalog = connect(metastore_uri=f"thrift://127.0.0.1:{unused_tcp_port}", warehouse="file:/w", clients=1)
    assert catalog.settings.clients == 1
    with catalog, pytest.raises(MetastoreUnavailable, match="check that the metastore runs"):
        catalog.list_namespaces()


def test_the_public_name_is_the_same_function():
    assert iceberg_hms.connect is connect


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "no metastore is named"),
        ({"metastore_uri": "http://h:1"}, "thrift://"),
        ({"metastore_uri": "thrift://h:1", "lock": "none"}, "not available yet"),
        ({"metastore_uri": "thrift://h:1", "lokc": "hms"}, "lock"),
    ],
)
def test_settings_that_cannot_be_are_refused(arguments, says, monkeypatch):
    monkeypatch.delenv("ICEBERG_HMS_URI", raising=False)
    with pytest.raises(ConfigError, match=says):
        connect(**arguments)


def test_settings_come_from_a_file_too(tmp_path, monkeypatch):
    file = tmp_path / "iceberg hms.toml"
    file.write_text('uri = "thrift://h:1"\nclients = 7\n')
    catalog = connect(config_file=file, clients=3)
    assert catalog.settings.metastore_uri == "thrift://h:1"
    assert catalog.settings.clients == 3
    catalog.close()
