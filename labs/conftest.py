"""The labs' tests share the servers of integration/servers.py with the integration tests."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.import_plugin("integration.servers")
