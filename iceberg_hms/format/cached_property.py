"""`cached_property` without the lock of Python 3.11's, which all objects of a class share.

With that lock, one table would wait for a computation on another, and a forked child would wait forever for a thread
that exists only in its parent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class CachedProperty(Generic[T]):
    """An attribute that is computed on first access. Threads that access it at once may compute it twice, so it is for
    immutable objects."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        # Python looks into `__dict__` first, so this runs only while the value is missing.
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value


cached_property = CachedProperty
