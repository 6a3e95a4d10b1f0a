"""Which clients come back after their commit was refused.

Some engines never send a refused commit again, and neither does a client that was killed. Waiting for them only delays
the other writers. The server keeps no list of such engines: it judges each sender by what it did lately.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from iceberg_hms.coordinator.ports import Runtime

#: After staying away so often in a row a sender is not waited for, until one of its commits comes back.
VAIN_MAX: Final = 2
#: How many senders that stayed away are remembered; those that did so longest ago are forgotten first.
REMEMBERED_MAX: Final = 256
#: How much of a sender's name tells it from others; clients choose the name.
_NAME_MAX: Final = 256


class ReturningClients:
    """What is known of the senders of all tables. Safe for threads.

    A sender is what a change says of who sent it (`Identity.sender`): the name and version of an engine, and what it
    does.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        #: How often in a row each stayed away.
        self._vain: OrderedDict[str, int] = OrderedDict()
        self._mutex = self._runtime.mutex()

    def come_back(self, sender: str) -> bool:
        """Whether refused commits of this sender are worth waiting for."""
        with self._mutex:
            return self._vain.get(sender[:_NAME_MAX], 0) < VAIN_MAX

    def came_back(self, sender: str) -> None:
        """A refused commit of this sender came again."""
        with self._mutex:
            self._vain.pop(sender[:_NAME_MAX], None)

    def stayed_away(self, sender: str) -> None:
        """A refused commit of this sender did not come again in time."""
        name = sender[:_NAME_MAX]
        with self._mutex:
            self._vain[name] = self._vain.get(name, 0) + 1
            self._vain.move_to_end(name)
            while len(self._vain) > REMEMBERED_MAX:
                self._vain.popitem(last=False)
