"""The server's gate for one writer: it records what the writer sends, and may hold back commits that change rows.

Two writers have two servers over one catalog, so that the matrix knows what each of them sends, while one queue has the
commits of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Self

from iceberg_hms.format.metadata.snapshot import Snapshot
from integration.rest_clients import Delayed

#: Seconds that a commit may be held back; the writer's own timeouts are longer.
HOLD_SECONDS = 120.0


@dataclass
class Sent:
    """One commit as it came, the manifests that its snapshots brought, and its answer.

    answer: `committed`, `rebased`, or the error's type and message; empty while there is none.
    """

    requirements: Sequence[Mapping[str, Any]]
    updates: Sequence[Mapping[str, Any]]
    headers: Mapping[str, str]
    own_manifests: Sequence[Mapping[str, Any]]
    answer: str = ""

    @property
    def adds_snapshot(self) -> bool:
        return any(update["action"] == "add-snapshot" for update in self.updates)

    @property
    def moves_table(self) -> bool:
        """Whether it changes which rows a reader of main sees, or brings a snapshot."""
        return self.adds_snapshot or any(update["action"] == "set-snapshot-ref" for update in self.updates)


class CommitGate:
    """A catalog for one writer's server."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self.sent: list[Sent] = []
        self.arrived = Event()
        self._open = Event()
        self._open.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def for_clients(self, allowed_locations: str = "", *, strict: bool = False) -> Self:
        """As the catalog does. The server calls this object, and this object the guarded catalog."""
        self._catalog = self._catalog.for_clients(allowed_locations, strict=strict)
        return self

    def close(self) -> None:
        """Hold commits back from now on; forget what was sent."""
        self.sent = []
        self.arrived.clear()
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def commit(self, *arguments: Any, **options: Any) -> Any:
        sent = self._note(*arguments, **options)
        self._wait(sent)
        return self._answer(sent, lambda: self._catalog.commit(*arguments, **options))

    def submit(self, *arguments: Any, **options: Any) -> Any:
        sent = self._note(*arguments, **options)

        def submit() -> Any:
            return self._catalog.submit(*arguments, **options)

        return Held(lambda: self._wait(sent), submit, lambda call: self._answer(sent, call))

    def _note(self, _table: Any, requirements: Any, updates: Any, **options: Any) -> Sent:
        client = options["client"]
        headers = {"User-Agent": client.user_agent, "X-Client-Version": client.client_version}
        sent = Sent(requirements, updates, headers, self._own_manifests(updates))
        self.sent.append(sent)
        return sent

    def _wait(self, sent: Sent) -> None:
        if not sent.moves_table:
            return
        self.arrived.set()
        if not self._open.wait(HOLD_SECONDS):
            raise TimeoutError("nobody opened the gate")

    def _answer(self, sent: Sent, call: Callable[[], Any]) -> Any:
        try:
            report = call()
        except Exception as error:
            sent.answer = f"{type(error).__name__}: {error}"
            raise
        sent.answer = "rebased" if report.rebased else "committed"
        return report

    def _own_manifests(self, updates: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        manifests = self._catalog.services.ports.manifests()
        return [
            {
                "content": "deletes" if each.content else "data",
                "added_files_count": each.added_files_count or 0,
                "existing_files_count": each.existing_files_count or 0,
                "deleted_files_count": each.deleted_files_count or 0,
            }
            for update in updates
            if update["action"] == "add-snapshot"
            for each in manifests.list(Snapshot(update["snapshot"]))
            if each.added_snapshot_id == update["snapshot"]["snapshot-id"]
        ]


class Held(Delayed):
    """A commit behind a gate."""

    def __init__(
        self, wait: Callable[[], None], submit: Callable[[], Any], answer: Callable[[Callable[[], Any]], Any]
    ) -> None:
        self._answer = answer
        super().__init__(wait, submit)

    def result(self) -> Any:
        return self._answer(super().result)
