"""What an iterator has yielded, for whoever begins anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["Kept"]

V = TypeVar("V")


class Kept(Generic[V]):
    """An iterable that goes through its source once, however often it is iterated over; by one thread at a time."""

    def __init__(self, source: Iterable[V]) -> None:
        self._source = iter(source)
        self._known: list[V] = []

    def __iter__(self) -> Iterator[V]:
        yield from self._known  # a list that grows meanwhile is gone through to its end
        for value in self._source:
            self._known.append(value)
            yield value
