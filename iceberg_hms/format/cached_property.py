"""`cached_property` without the lock that Python 3.11's has, which is one for all objects of a class.

With it, a table would wait for what is found out about another, and a forked child for a thread of its parent, which is
not in the child.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class CachedProperty(Generic[T]):
    """An attribute that is found out when it is first asked for. Threads that ask at once find out the same twice: for
    objects that never change."""

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        # What is in `__dict__` is found there before this is asked.
        found: T = instance.__dict__.setdefault(self._name, self._find(instance))
        return found


cached_property = CachedProperty
