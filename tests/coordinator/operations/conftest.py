"""A table, and none yet, for operations on tables as a whole."""

import pytest

from tests.coordinator.creations import LIST
from tests.coordinator.harness import Harness, append


@pytest.fixture
def empty() -> Harness:
    """No table yet, and the lists of the snapshots that creations bring."""
    made = Harness()
    made.manifests.lists.update((LIST.format(id_), ()) for id_ in (5, 77, 78))
    return made


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.create()
    made.commit(append("file:/a"))
    return made
