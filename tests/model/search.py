"""A search through all states that a protocol can reach, breadth first, so that a trace is as short as it can be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple, TypeVar

__all__ = ["Found", "search"]

S = TypeVar("S", bound=Hashable)


class Found(NamedTuple):
    """What a search has found."""

    states: int
    violation: str | None
    """What was broken; None if nothing was."""
    trace: list[str]
    """The shortest way there."""
    is_complete: bool
    """Whether all states were searched."""


def search(start: S, following: Callable[[S], Iterator[tuple[str, S, str | None]]], *, most: int) -> Found:
    """Search until something is broken, nothing is left, or so many states were seen.

    `following` yields what may happen in a state: its name, the state after it, and what it breaks, or None.
    """
    before: dict[S, tuple[S, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for name, after, violation in following(state):
            if violation is not None:
                return Found(len(before), violation, [*_way(before, state), name], is_complete=False)
            if after not in before:
                if len(before) >= most:
                    return Found(len(before), None, [], is_complete=False)
                before[after] = state, name
                waiting.append(after)
    return Found(len(before), None, [], is_complete=True)


def _way(before: dict[S, tuple[S, str] | None], state: S) -> list[str]:
    names: list[str] = []
    while (step := before[state]) is not None:
        state, name = step
        names.append(name)
    return names[::-1]
