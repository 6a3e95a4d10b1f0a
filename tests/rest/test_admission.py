from __future__ import annotations

import pytest

from iceberg_hms.errors import QueueFull
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.rest.admission import Admission
from iceberg_hms.work import caller_owner


def test_each_caller_has_so_many_requests() -> None:
    admission = Admission(2, MemoryBudget(1_000))
    with admission.enter("a"):
        with admission.enter("a"), pytest.raises(QueueFull, match="2 requests of this caller"):
            admission.enter("a")
        with admission.enter("a"), admission.enter("b"):
            assert admission.running == {"a": 2, "b": 1}
    assert admission.running == {}


def test_one_caller_holds_half_of_the_memory_and_all_hold_no_more_than_it() -> None:
    admission = Admission(9, MemoryBudget(1_000))
    with admission.enter("a") as first, admission.enter("b") as second, admission.enter("c") as third:
        first.hold(300)
        first.hold(200)
        with pytest.raises(QueueFull, match="too much memory"):
            first.hold(1)
        second.hold(500)
        with pytest.raises(QueueFull):
            third.hold(1)
    assert admission.memory.held() == 0
    with admission.enter("c") as third:
        third.hold(500)
        assert admission.memory.held() == 500


def test_bodies_share_their_caller_s_half_with_what_is_read_for_him() -> None:
    admission = Admission(9, MemoryBudget(1_000))
    metadata = admission.memory.share(caller_owner("a"))
    assert metadata.resize(400)
    with admission.enter("a") as held:
        held.hold(100)
        with pytest.raises(QueueFull):
            held.hold(1)
