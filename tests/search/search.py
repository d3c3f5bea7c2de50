"""A search through all states that a protocol can reach, breadth first, so that a trace is as short as it can be."""

from collections import deque
from typing import NamedTuple

from tests.search.protocol import Protocol, State
from tests.support.uncollected import uncollected


class Found(NamedTuple):
    """What a search has found."""

    states: int
    violation: str | None
    """What was broken; None if nothing was."""
    trace: list[str]
    """The shortest way there."""
    is_complete: bool
    """Whether all states were searched."""


def search(protocol: Protocol, *, most: int) -> Found:
    """Search until something is broken, nothing is left, or so many states were seen."""
    with uncollected():
        return _search(protocol, most)


def _search(protocol: Protocol, most: int) -> Found:
    start = protocol.start()
    before: dict[State, tuple[State, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for name, after in protocol.following(state):
            if after in before:
                continue
            if (violation := protocol.broken(after)) is not None:
                return Found(len(before), violation, [*_way(before, state), name], is_complete=False)
            if len(before) >= most:
                return Found(len(before), None, [], is_complete=False)
            before[after] = state, name
            waiting.append(after)
    return Found(len(before), None, [], is_complete=True)


def _way(before: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    names: list[str] = []
    while (step := before[state]) is not None:
        state, name = step
        names.append(name)
    return names[::-1]
