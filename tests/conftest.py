"""For the quick tests: how hypothesis searches, and no socket or commit left over."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.ctrl_c import CtrlC

#: In seconds. A worker ends right after the last commit that it answered.
_ENDS_WITHIN = 10.0

# No deadline: a busy machine is no defect. The blob that replays a failure is printed.
settings.register_profile("exploring", deadline=None, print_blob=True)
# The same examples in each run: for a machine that judges changes, where a rare example would refuse an innocent one.
settings.register_profile("reproducible", settings.get_profile("exploring"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "exploring"))


def pytest_itemcollected(item: pytest.Item) -> None:
    # The project's settings let foreign libraries of the integration tests get away with it.
    item.add_marker(pytest.mark.filterwarnings("error:unclosed <socket:ResourceWarning"))


@pytest.fixture
def ctrl_c() -> Iterator[CtrlC]:
    """Sends Ctrl-C to the main thread, also where who started the tests in the background has it ignored."""
    sent = CtrlC()
    before = signal.signal(signal.SIGINT, sent)
    yield sent
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module", autouse=True)
def _commits_have_ended() -> Iterator[None]:
    """A worker that still commits when its file ends would disturb the files after it in the same process."""
    yield
    workers = [thread for thread in threading.enumerate() if thread.name.startswith("commit ")]
    for worker in workers:
        worker.join(_ENDS_WITHIN)
    assert [worker.name for worker in workers if worker.is_alive()] == []
