"""The harness that most tests of the coordinator begin with."""

from collections.abc import Iterator

import pytest

from tests.coordinator.harness import Harness


@pytest.fixture
def harness() -> Iterator[Harness]:
    """With an empty table. Its threads end before the test does."""
    made = Harness()
    made.create()
    yield made
    made.runtime.join()
