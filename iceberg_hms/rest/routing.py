"""Finds the route of a request's path.

Paths are matched before they are decoded, so that an encoded slash stays in its name; handlers decode the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

Target = TypeVar("Target")


class Match(NamedTuple, Generic[Target]):
    """target: of the path. parameters: the names in it, still encoded."""

    target: Target
    parameters: Mapping[str, str]


class Routes(Generic[Target]):
    """Targets by the template of their path, such as `/v1/namespaces/{namespace}/tables`.

    A name in braces stands for one segment that is not empty. No path may match two templates.
    """

    def __init__(self, targets: Iterable[tuple[str, Target]]) -> None:
        self._by_length: dict[int, list[tuple[tuple[str, ...], Target]]] = {}
        for template, target in targets:
            parts = tuple(template.split("/"))
            self._by_length.setdefault(len(parts), []).append((parts, target))

    def find(self, path: str) -> Match[Target] | None:
        """The target of a path, if there is one."""
        segments = path.split("/")
        for parts, target in self._by_length.get(len(segments), ()):
            parameters: dict[str, str] = {}
            for part, segment in zip(parts, segments, strict=True):
                if part[:1] == "{" and segment:
                    parameters[part[1:-1]] = segment
                elif part != segment:
                    break
            else:
                return Match(target, parameters)
        return None
