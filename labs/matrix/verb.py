"""What a verb is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from labs.matrix.rows import Meaning
from labs.matrix.writers import Writer

#: A verb's deed on a table, named in full.
Run = Callable[[Writer, str], object]


@dataclass(frozen=True)
class Verb:
    """One way in which a stock client sends a snapshot.

    name: engine and statement. client: the attribute of a writer that it uses. prepare: what has to be there before
    both writers plan. properties: of the table, when the verb is planned. creates: it makes the table, so that it can
    only meet itself.
    """

    name: str
    run: Run
    meaning: Meaning
    client: str = "pyiceberg"
    prepare: Run | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    creates: bool = False

    def make_client(self, writer: Writer) -> None:
        """Before it runs on a thread of its own: PySpark makes a session on the main thread alone."""
        getattr(writer, self.client)
