"""What a verb is, and all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from labs.matrix.rows import Meaning
from labs.matrix.writers import Writer

#: A verb's deed on a table, named in full.
Run = Callable[[Writer, str], None]


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


def all_verbs() -> dict[str, Verb]:
    """By name, in the order of the docs."""
    from labs.matrix import replayed, verbs_java, verbs_pyiceberg, verbs_spark

    made = [*verbs_pyiceberg.VERBS, *verbs_spark.VERBS, *verbs_java.VERBS, *replayed.verbs()]
    verbs = {verb.name: verb for verb in made}
    if len(verbs) != len(made):
        raise ValueError("two verbs have one name")
    return verbs
