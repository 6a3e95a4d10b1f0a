"""The verbs of all engines."""

from __future__ import annotations

from labs.matrix import replayed, verbs_java, verbs_pyiceberg, verbs_spark
from labs.matrix.verb import Verb


def all_verbs() -> dict[str, Verb]:
    """By name, in the order of the docs."""
    made = [*verbs_pyiceberg.VERBS, *verbs_spark.VERBS, *verbs_java.VERBS, *replayed.verbs()]
    verbs = {verb.name: verb for verb in made}
    if len(verbs) != len(made):
        raise ValueError("two verbs have one name")
    return verbs
