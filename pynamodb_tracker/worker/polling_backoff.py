"""How long a worker that found nothing waits before it looks again: longer each time, and never as long as others."""

from __future__ import annotations

import random
from datetime import timedelta

__all__ = ["SHORTEST", "Pause", "spread"]

SHORTEST = timedelta(seconds=0.5)
"""The first pause; also within how much time workers spread that wait for the same moment."""


class Pause:
    """A pause that doubles, up to the longest one, until it is reset; drawn between a half and the whole of it."""

    def __init__(self, longest: timedelta, *, first: timedelta = SHORTEST) -> None:
        self._longest = longest
        self._first = min(first, longest)
        self._next = self._first

    def reset(self) -> None:
        """Begin with the first one again."""
        self._next = self._first

    def draw(self) -> timedelta:
        """Return the next pause."""
        whole, self._next = self._next, min(2 * self._next, self._longest)
        return whole * random.uniform(0.5, 1)  # noqa: S311 - spreads load, guards nothing


def spread() -> timedelta:
    """Return a moment: workers that all wait for one time come one after the other."""
    return SHORTEST * random.random()  # noqa: S311 - spreads load, guards nothing
