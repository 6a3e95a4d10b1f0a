"""Several writers while faults of all kinds hit calls that the seed chooses: each result that a writer gets is
true."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError
from iceberg_hms.testing.faults.script import (
    CUT_AFTER_SEND,
    CUT_BEFORE_REPLY,
    CUT_BEFORE_SEND,
    DUPLICATE,
    Action,
    FaultStep,
    Wait,
    delay,
)
from integration.faults import ALTER, LEASE_SECONDS, LIMIT, ReapingMetastore, Scene, Timing, in_background, until

WRITERS = 3
APPENDS = 4

#: Repeating a `lock` or a `create` call makes a second entry, which no metastore does by itself; an alter it may.
ANY_CALL: list[tuple[Action, float]] = [
    (CUT_BEFORE_SEND, 0.02),
    (CUT_AFTER_SEND, 0.02),
    (CUT_BEFORE_REPLY, 0.02),
    (delay(0.2), 0.02),
]
ANY_SWAP: list[tuple[Action, float]] = [
    (CUT_BEFORE_REPLY, 0.1),
    (CUT_BEFORE_SEND, 0.05),
    (DUPLICATE, 0.1),
    # It arrives when its sender has long looked for it.
    ((FaultStep.CUT, Wait(0.5), FaultStep.SEND), 0.05),
    # Its lock is in danger, if heartbeats are lost as well.
    (delay(LEASE_SECONDS * 0.7), 0.03),
]


@pytest.fixture
def scene(quick_lease: ReapingMetastore, tmp_path: Path, timing: Timing) -> Iterator[Scene]:
    scene = Scene(quick_lease, tmp_path, timing)
    scene.append("first")
    yield scene
    scene.close()


def by_chance(seed: str, probability: float) -> Callable[[bytes], bool]:
    chance = random.Random(seed)
    return lambda _: chance.random() < probability


def plan_faults(scene: Scene) -> None:
    seed = scene.timing.seed
    for number, (action, probability) in enumerate(ANY_SWAP):
        scene.proxy.on(ALTER, action, times=None, only=by_chance(f"{seed} swap {number}", probability))
    for number, (action, probability) in enumerate(ANY_CALL):
        scene.proxy.on("", action, times=None, only=by_chance(f"{seed} any {number}", probability))


def write(scene: Scene, writer: Catalog, number: int) -> Counter[str]:
    """Run one writer's appends, and count the results: acknowledged, refused with proof, unknown."""
    results: Counter[str] = Counter()
    for step in range(APPENDS):
        data_file = scene.data_file(f"{number}-{step}")
        try:
            report = writer.load_table(scene.name).append([data_file])
        except CommitStateUnknown:
            results["unknown"] += 1
        except IcebergHmsError:
            # Any other error, of the load or of the commit, says that nothing was changed.
            scene.refused.append(data_file.file_path)
            results["refused"] += 1
        else:
            scene.acknowledged += [data_file.file_path, *report.snapshot_ids]
            results["acknowledged"] += 1
    return results


def test_every_result_that_a_writer_gets_is_true_whatever_is_lost(scene: Scene, quick_lease: ReapingMetastore) -> None:
    """
    three writers append four files each; one call in twelve is cut, lost, late or repeated, and every third swap
    a reaper runs, so that locks whose heartbeats are lost are lost

    Acknowledged: there, once. Refused: not there. Unknown: there once, or not. The history is whole, and no lock is
    left for longer than a lease.
    """
    writers = [scene.catalog() for _ in range(WRITERS)]
    plan_faults(scene)
    with quick_lease.reaper():
        pending = [in_background(lambda each=each: write(scene, writers[each], each)) for each in range(WRITERS)]
        results = sum((each.result(2 * LIMIT) for each in pending), Counter[str]())
        scene.proxy.clear()
        until(lambda: not scene.lock_entries(), "no lock is left")
    assert results.total() == WRITERS * APPENDS
    report = scene.check_history(others=True)
    files = {item for item in scene.acknowledged if isinstance(item, str)}
    assert len(set(report.data_files) - files) <= results["unknown"]
    scene.append("last", scene.catalog())
    scene.check_history(others=True)
