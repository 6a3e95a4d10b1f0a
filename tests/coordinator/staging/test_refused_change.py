"""A change that every table refuses."""

import pytest

from iceberg_hms.changes.change import ChangeIdentity
from iceberg_hms.coordinator.staging.refused_change import RefusedChange
from iceberg_hms.errors import InvalidInput
from tests.coordinator.harness import Harness


def test_it_raises_its_reason_on_every_base():
    harness = Harness()
    change = RefusedChange(ChangeIdentity((7,)), InvalidInput("too large"))
    for base in (None, harness.create()):
        with pytest.raises(InvalidInput, match="too large"):
            change.check(base)
        with pytest.raises(InvalidInput, match="too large"):
            change.stage(base, harness.manifests.open())
