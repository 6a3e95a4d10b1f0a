"""What is done to a call on its way, as a few steps in a row.

    SEND        hand the request to the server and take its reply
    DELIVER     hand the request to the server and do not wait for a reply
    REPLY       hand the last reply that was taken to the client
    HOLD        wait until the test says `release` or `drop`
    CUT         hang up on the client; steps after it go on
    Wait(s)     let so many seconds pass

Every fault of a call is a row of these: what the server did, what the client heard, and in which order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto


class Step(Enum):
    SEND = auto()
    DELIVER = auto()
    REPLY = auto()
    HOLD = auto()
    CUT = auto()


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause within a call, in seconds; ends early when the proxy is closed."""

    seconds: float


Action = tuple[Step | Wait, ...]

PASS: Action = (Step.SEND, Step.REPLY)
#: The server never has the request.
CUT_BEFORE_SEND: Action = (Step.CUT,)
#: The server has the request; the client hears nothing, perhaps while the server is still at it.
CUT_AFTER_SEND: Action = (Step.DELIVER, Step.CUT)
#: The server has answered; the client hears nothing.
CUT_BEFORE_REPLY: Action = (Step.SEND, Step.CUT)
#: The server gets the request twice and the client hears the second reply, as if something between repeats calls.
DUPLICATE: Action = (Step.SEND, Step.SEND, Step.REPLY)
#: The request is kept back until it is released.
FREEZE: Action = (Step.HOLD, Step.SEND, Step.REPLY)
#: The server has answered; the reply is kept back until it is released.
FREEZE_REPLY: Action = (Step.SEND, Step.HOLD, Step.REPLY)
#: The client hears nothing; the server gets the request only when it is released.
POSTPONE: Action = (Step.CUT, Step.HOLD, Step.SEND)


def delay(seconds: float) -> Action:
    """The request comes late."""
    return (Wait(seconds), *PASS)


@dataclass(frozen=True, slots=True)
class Call:
    """One call that came by. connection: 1 for a proxy's first connection. number: 1 for its method's first call."""

    connection: int
    method: str
    number: int


@dataclass(eq=False)
class Fault:
    """One line of a proxy's script, and the test's handle on it: wait for the call, hold it, let it go.

    method: which calls; "" for all. nth, times: it hits `times` calls (None: all) from the nth on, of those that come
    after it was written. connection: this one alone, None for any. only: looks at the request's bytes; None takes all.
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

    def hits(self, call: Call, request: bytes = b"") -> bool:
        """Whether this call is one that is meant; each call is asked about once, in order."""
        if self.method not in ("", call.method) or self.connection not in (None, call.connection):
            return False
        if self.only is not None and not self.only(request):
            return False
        self._seen += 1
        return self._seen >= self.nth and (self.times is None or self._seen < self.nth + self.times)

    def held(self, timeout: float) -> bool:
        """Wait until a call stands at HOLD. False when the time (seconds) is over."""
        return self._held.wait(timeout)

    def done(self, timeout: float) -> bool:
        """Wait until the steps of a call are all done, or it was dropped. False when the time (seconds) is over."""
        return self._done.wait(timeout)

    def release(self) -> None:
        """Let the held call go on, and later ones pass HOLD without a stop."""
        self._released.set()

    def drop(self) -> None:
        """End the held call here and hang up on both sides, as when its sender's machine is gone."""
        self._dropped = True
        self._released.set()

    def hold(self) -> bool:
        """Called by the proxy at HOLD. False: end the call here."""
        self._held.set()
        self._released.wait()
        return not self._dropped

    def finish(self) -> None:
        """Called by the proxy after the last step."""
        self._done.set()
