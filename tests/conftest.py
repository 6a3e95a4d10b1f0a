"""For the quick tests: how hypothesis searches, and no socket left open."""

from __future__ import annotations

import pytest
from hypothesis import settings

# No deadline: a busy machine is no defect. The blob that replays a failure is printed.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")


def pytest_itemcollected(item: pytest.Item) -> None:
    # The project's settings let foreign libraries of the integration tests get away with it.
    item.add_marker(pytest.mark.filterwarnings("error:unclosed <socket:ResourceWarning"))
