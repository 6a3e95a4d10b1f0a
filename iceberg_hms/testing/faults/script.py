"""What a proxy does to a call, as a row of steps.

    SEND        hand the request to the server and take its reply
    DELIVER     hand the request to the server and do not wait for a reply
    REPLY       hand the last reply that was taken to the client
    HOLD        wait until the test calls `release` or `drop`
    CUT         hang up on the client; the steps after it still run
    Wait(s)     wait s seconds

Every fault of a call is a row of these: what the server does, what the client receives, and in which order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto


class FaultStep(Enum):
    SEND = auto()
    DELIVER = auto()
    REPLY = auto()
    HOLD = auto()
    CUT = auto()


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause within a call, in seconds; ends early when the proxy is closed."""

    seconds: float


Action = tuple[FaultStep | Wait, ...]

PASS: Action = (FaultStep.SEND, FaultStep.REPLY)
#: The server never receives the request.
CUT_BEFORE_SEND: Action = (FaultStep.CUT,)
#: The server receives the request; the client gets no reply, perhaps while the server still works.
CUT_AFTER_SEND: Action = (FaultStep.DELIVER, FaultStep.CUT)
#: The server answers; the client gets no reply.
CUT_BEFORE_REPLY: Action = (FaultStep.SEND, FaultStep.CUT)
#: The server receives the request twice and the client gets the second reply, as if something between repeated it.
DUPLICATE: Action = (FaultStep.SEND, FaultStep.SEND, FaultStep.REPLY)
#: The proxy holds the request until the test releases it.
FREEZE: Action = (FaultStep.HOLD, FaultStep.SEND, FaultStep.REPLY)
#: The server answers; the proxy holds the reply until the test releases it.
FREEZE_REPLY: Action = (FaultStep.SEND, FaultStep.HOLD, FaultStep.REPLY)
#: The client gets no reply; the server receives the request only when the test releases it.
POSTPONE: Action = (FaultStep.CUT, FaultStep.HOLD, FaultStep.SEND)


def delay(seconds: float) -> Action:
    """The request arrives `seconds` late."""
    return (Wait(seconds), *PASS)


@dataclass(frozen=True, slots=True)
class ProxiedCall:
    """One call through a proxy. connection: 1 for the proxy's first one. number: 1 for the method's first call."""

    connection: int
    method: str
    number: int


@dataclass(eq=False)
class ScriptedFault:
    """One line of a proxy's script, and the test's handle on it: wait for the call, release it, drop it.

    method: the calls that it hits; "" for all. nth, times: it hits `times` calls (None: all) from the nth on, counted
    since it was added. connection: this one alone, None for any. only: a test of the request's bytes; None takes all.
    """

    method: str
    action: Action
    nth: int = 1
    times: int | None = 1
    connection: int | None = None
    only: Callable[[bytes], bool] | None = None
    _seen: int = 0
    _held: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)
    _done: threading.Event = field(default_factory=threading.Event)
    _dropped: bool = False

    def hits(self, call: ProxiedCall, request: bytes = b"") -> bool:
        """Whether the fault hits this call. The proxy asks once for each call, in order."""
        if self.method not in ("", call.method) or self.connection not in (None, call.connection):
            return False
        if self.only is not None and not self.only(request):
            return False
        self._seen += 1
        return self._seen >= self.nth and (self.times is None or self._seen < self.nth + self.times)

    def held(self, timeout: float) -> bool:
        """Wait until a call stands at HOLD. False after `timeout` seconds."""
        return self._held.wait(timeout)

    def done(self, timeout: float) -> bool:
        """Wait until all steps of a call are done, or it was dropped. False after `timeout` seconds."""
        return self._done.wait(timeout)

    def release(self) -> None:
        """Let the held call go on, and later calls pass HOLD at once."""
        self._released.set()

    def drop(self) -> None:
        """End the held call here and hang up on both sides, as when the client's machine is gone."""
        self._dropped = True
        self._released.set()

    def hold(self) -> bool:
        """The proxy calls this at HOLD. False: end the call here."""
        self._held.set()
        self._released.wait()
        return not self._dropped

    def finish(self) -> None:
        """The proxy calls this after the last step."""
        self._done.set()
