"""Which clients send a commit again after it was refused.

Some engines never do, and neither does a client that was killed. Waiting for them only delays other writers. The server
keeps no list of such engines: it judges each sender by what it did lately.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from iceberg_hms.coordinator.ports import Runtime

#: After so many refused commits in a row that a sender did not send again, stop waiting for it until one comes back.
MISSES_MAX: Final = 2
#: How many senders with misses to remember; the one whose last miss is oldest is forgotten first.
SENDERS_MAX: Final = 256
#: How many characters of a sender's name to compare; clients choose the name.
_NAME_MAX: Final = 256


class ReturningClients:
    """What is known of the senders of all tables. Safe for threads.

    A sender is what a change says of its origin (`Identity.sender`): the name and version of an engine, and what it
    does.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._misses_in_a_row: OrderedDict[str, int] = OrderedDict()
        self._mutex = runtime.mutex()

    def returns(self, sender: str) -> bool:
        """Whether refused commits of this sender are worth waiting for."""
        with self._mutex:
            return self._misses_in_a_row.get(sender[:_NAME_MAX], 0) < MISSES_MAX

    def record_return(self, sender: str) -> None:
        """This sender sent a refused commit again."""
        with self._mutex:
            self._misses_in_a_row.pop(sender[:_NAME_MAX], None)

    def record_miss(self, sender: str) -> None:
        """This sender did not send a refused commit again in time."""
        name = sender[:_NAME_MAX]
        with self._mutex:
            self._misses_in_a_row[name] = self._misses_in_a_row.get(name, 0) + 1
            self._misses_in_a_row.move_to_end(name)
            while len(self._misses_in_a_row) > SENDERS_MAX:
                self._misses_in_a_row.popitem(last=False)
