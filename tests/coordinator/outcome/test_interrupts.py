"""Ctrl-C, as a real signal to the thread that waits: a KeyboardInterrupt means that nothing was sent.

Each test sends the signal from the thread that commits, at a known place of the commit."""

import logging
import threading

import pytest

from iceberg_hms.coordinator.outcome import interrupts
from iceberg_hms.coordinator.ports import Refused, TableName
from iceberg_hms.errors import CommitStateUnknown, MetastoreRefused
from tests.coordinator.harness import NAME, append, set_properties


class Interrupts(logging.Handler):
    """Sends Ctrl-C to the caller. taken_up: the caller has noticed that it must wait for the outcome."""

    def __init__(self, ctrl_c):
        super().__init__()
        self.send = ctrl_c.send
        self.taken_up = threading.Event()
        self.caller_left = threading.Event()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())
        self.taken_up.set()

    def send_and_wait(self):
        self.send()
        assert self.taken_up.wait(30)

    def send_until_the_caller_leaves(self):
        self.send_and_wait()
        self.send()
        assert self.caller_left.wait(30)


@pytest.fixture
def caller(ctrl_c):
    handler = Interrupts(ctrl_c)
    interrupts.logger.addHandler(handler)
    yield handler
    interrupts.logger.removeHandler(handler)


def before(target, method, call):
    """Call something, once, before a method of a fake does its work."""
    original = getattr(target, method)

    def wrapped(*args, **kwargs):
        setattr(target, method, original)
        call()
        return original(*args, **kwargs)

    setattr(target, method, wrapped)


def commit(harness, change):
    return harness.coordinator.commit(NAME, change, wait_seconds=30)


def test_what_is_interrupted_before_it_is_sent_is_withdrawn(harness, caller):
    left = threading.Event()

    def interrupt():
        caller.send()
        assert left.wait(30)

    before(harness.lock, "acquire", interrupt)
    with pytest.raises(KeyboardInterrupt) as raised:
        commit(harness, append("file:/a"))
    left.set()
    harness.runtime.join()
    assert raised.value.__notes__ == ["nothing of the commit to db.t was sent, and nothing will be"]
    assert harness.data_files() == []
    assert caller.messages == []


def test_what_is_interrupted_after_it_was_sent_returns_its_outcome(harness, caller):
    before(harness.pointer, "swap", caller.send_and_wait)
    report = commit(harness, append("file:/a", snapshot_id=7))
    assert report.snapshot_ids == (7,)
    assert harness.data_files() == ["file:/a"]
    [message] = caller.messages
    assert "waiting up to 60 s for its outcome" in message


def test_what_fails_after_the_interrupt_says_why(harness, caller):
    refused = Refused(conflict=False, error=MetastoreRefused("too many columns"))
    harness.pointer.swap = lambda *_, **__: refused
    before(harness.pointer, "swap", caller.send_and_wait)
    with pytest.raises(MetastoreRefused, match="too many columns") as failed:
        commit(harness, set_properties(a="b"))
    assert failed.value.proved_failed


def test_a_second_interrupt_leaves_the_outcome_unknown_and_says_what_to_look_for(harness, caller):
    before(harness.pointer, "swap", caller.send_until_the_caller_leaves)
    with pytest.raises(CommitStateUnknown, match=r"commit to db\.t") as unknown:
        commit(harness, append("file:/a", snapshot_id=7))
    caller.caller_left.set()
    assert "look for snapshot 7" in str(unknown.value)
    assert isinstance(unknown.value.__cause__, KeyboardInterrupt)
    harness.runtime.join()
    assert harness.data_files() == ["file:/a"], "it lands all the same"
    assert commit(harness, append("file:/a", snapshot_id=7)).already_committed


def test_the_wait_after_an_interrupt_is_bounded(harness, caller, monkeypatch):
    monkeypatch.setattr(interrupts, "INTERRUPTED_SECONDS", 0.01)

    def interrupt():
        caller.send()
        assert caller.caller_left.wait(30)

    before(harness.pointer, "swap", interrupt)
    with pytest.raises(CommitStateUnknown):
        commit(harness, set_properties(a="b"))
    caller.caller_left.set()


@pytest.mark.parametrize(("method", "what"), [("rename", "rename of db.t"), ("drop", "drop of db.t")])
def test_the_caller_of_a_rename_or_drop_waits_for_it_after_an_interrupt(harness, caller, method, what):
    operations = harness.coordinator.operations

    def run():
        if method == "drop":
            return operations.drop(NAME, wait_seconds=30)
        return operations.rename(NAME, TableName("db", "u"), wait_seconds=30)

    before(harness.pointer, method, caller.send_and_wait)
    run()
    assert NAME not in harness.pointer.rows
    harness.create() if method == "drop" else operations.rename(TableName("db", "u"), NAME, wait_seconds=30)
    caller.taken_up.clear()
    before(harness.pointer, method, caller.send_until_the_caller_leaves)
    with pytest.raises(CommitStateUnknown, match=what):
        run()
    caller.caller_left.set()
