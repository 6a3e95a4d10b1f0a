"""Which appends to rebase if a table has no policy of its own: its namespace's policy, else the server's setting."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from iceberg_hms.changes.clients.blind_append import NONE, REBASE_APPENDS, RebasePolicy, parse_mode
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.errors import IcebergHmsError

#: How many namespaces' policies are cached.
CACHED_MAX: Final = 1_000


class RebasePolicies:
    """Cached policies of namespaces. Safe for threads.

    A namespace is read only when an append's branch has moved: other commits cost no call. The result counts for
    `max_age_seconds`, also a failure to read.

    A namespace that cannot be read counts as `none`: its property may forbid what the server's setting permits. It
    is always safe to refuse the append: the branch did move, the change is not in the table, and the client validates
    and retries, as on a server that never rebases. The metastore's error instead would leave the client without a known
    outcome. A read takes as long as one call of the metastore may take
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
        #: Each with the time of the end of its call.
        self._cached: OrderedDict[str, tuple[float, RebasePolicy]] = OrderedDict()

    def of(self, namespace: str) -> RebasePolicy:
        """The policy for tables of a namespace without one of their own. Raises no error of the metastore's."""
        with self._mutex:
            known = self._cached.get(namespace)
        if known is not None and self._runtime.now() - known[0] < self._max_age_seconds:
            return known[1]
        policy = self._read(namespace)
        # The time after the call: else a call that timed out would expire at once, and repeat for each append of a
        # group.
        answered_at = self._runtime.now()
        with self._mutex:
            self._cached[namespace] = (answered_at, policy)
            self._cached.move_to_end(namespace)
            while len(self._cached) > CACHED_MAX:
                self._cached.popitem(last=False)
        return policy

    def _read(self, namespace: str) -> RebasePolicy:
        try:
            text = self._load(namespace).get(REBASE_APPENDS)
        except IcebergHmsError as error:
            reason = f"its namespace {namespace} cannot be read, which may forbid it ({error.message})"
            return RebasePolicy(NONE, f"{reason}; set {REBASE_APPENDS} on the table to do without it")
        if text is None:
            return self._server
        return RebasePolicy(parse_mode(text), f"the namespace {namespace} says {REBASE_APPENDS}={text}")
