"""Which appends may be rebased where a table says nothing itself: its namespace's word, else the server's setting."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from iceberg_hms.changes.blind_append import NONE, REBASE_APPENDS, RebasePolicy, parse_mode
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.errors import IcebergHmsError

#: How many namespaces are remembered.
_REMEMBERED_MAX: Final = 1_000


class RebasePolicies:
    """The words of namespaces, each remembered for a while. Safe for threads.

    A namespace is read only when an append has lost its branch's place: a commit that wins costs no call.
    What was read, also that it could not be read, counts for `max_age_seconds`.

    A namespace that cannot be read counts as `none`, whatever the reason. Its property may forbid what the server's
    setting permits, and to refuse is always right: the branch did move, nothing of the change is in the table, and its
    client validates and tries again, as on a server that rebases nothing. To report the metastore's error instead would
    leave a client without an outcome that has one. The look-up takes as long as one call of the metastore may take
    (`metastore.connect-timeout-ms`, `metastore.socket-timeout-ms`), once in `max_age_seconds` for each namespace.

    setting: `rebase-appends`. load: a namespace's properties; raises IcebergHmsError.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        setting: str,
        max_age_seconds: float,
        load: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._runtime = runtime
        self._server = RebasePolicy(setting, f"the server says rebase-appends={setting}")
        self._max_age_seconds = max_age_seconds
        self._load = load
        self._mutex = self._runtime.mutex()
        #: Each with the time when the call ended.
        self._remembered: OrderedDict[str, tuple[float, RebasePolicy]] = OrderedDict()

    def of(self, namespace: str) -> RebasePolicy:
        """The word for tables of a namespace that say nothing themselves. Raises nothing of the metastore's."""
        with self._mutex:
            known = self._remembered.get(namespace)
        if known is not None and self._runtime.now() - known[0] < self._max_age_seconds:
            return known[1]
        word = self._read(namespace)
        # Not the time before the call: one that ended by its time-out would then be over at once, and be made again for
        # each append of a group.
        answered_at = self._runtime.now()
        with self._mutex:
            self._remembered[namespace] = (answered_at, word)
            self._remembered.move_to_end(namespace)
            while len(self._remembered) > _REMEMBERED_MAX:
                self._remembered.popitem(last=False)
        return word

    def _read(self, namespace: str) -> RebasePolicy:
        try:
            text = self._load(namespace).get(REBASE_APPENDS)
        except IcebergHmsError as error:
            reason = f"its namespace {namespace} cannot be read, which may forbid it ({error.message})"
            return RebasePolicy(NONE, f"{reason}; set {REBASE_APPENDS} on the table to do without it")
        if text is None:
            return self._server
        return RebasePolicy(parse_mode(text), f"the namespace {namespace} says {REBASE_APPENDS}={text}")
