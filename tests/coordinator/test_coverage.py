import pytest

from iceberg_hms.coordinator.coverage import keep_covered
from iceberg_hms.errors import LockLost


class Lock:
    lease_seconds = 300.0

    def __init__(self, *, lost=False, renews=True):
        self.lost, self.renews, self.renewed = lost, renews, 0

    def covered_since(self):
        if self.lost:
            raise LockLost("reaped")
        return 1_000.0

    def renew(self):
        self.renewed += 1
        if not self.renews:
            raise LockLost("reaped")


@pytest.mark.parametrize(("age", "renewed"), [(0.0, 0), (150.0, 0), (150.1, 1)])
def test_a_lock_is_renewed_when_half_of_its_lease_is_over(age, renewed):
    lock = Lock()
    keep_covered(lock, 1_000.0 + age)
    assert lock.renewed == renewed


@pytest.mark.parametrize("lock", [Lock(lost=True), Lock(renews=False)])
def test_a_lock_that_is_lost_is_told(lock):
    with pytest.raises(LockLost):
        keep_covered(lock, 1_200.0)
