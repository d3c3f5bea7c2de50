"""Why tasks failed: the newest entries of each failed and ignored state, in groups with the same error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import methodcaller
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.glance import Glance, IndexEntry
from pynamodb_tracker.step.state import State
from pynamodb_tracker.web.listing import pattern_of

SAMPLE = 400
"""Entries of a state that are looked at, the newest by their due time: one request, and about 15 read units."""
MOST_SAMPLED = 25_600
"""The largest sample that can be asked for."""

_NEWEST = 5
_LONG_AGO = datetime.min.replace(tzinfo=clock.NEVER.tzinfo)


@dataclass(slots=True)
class ErrorGroup:
    """Tasks of a state whose errors have the same pattern."""

    state: State[Any]
    pattern: str
    tasks: int
    newest: datetime
    example: str
    """The id of the newest one."""


@dataclass(frozen=True, slots=True)
class Errors:
    """What a look at failed and ignored tasks has found."""

    groups: Sequence[ErrorGroup]
    """The largest first."""
    searched: int
    counts: dict[State[Any], int]
    """How many tasks a state has, where the sample was all of it."""
    cut: Sequence[State[Any]]
    """The states of which only a sample was looked at."""
    ignored: Sequence[tuple[State[Any], IndexEntry]]
    """The last tasks that were ignored: they wait for a person."""


def find_errors(steps: Sequence[BoundStep[Any]], *, since: datetime | None = None, sample: int = SAMPLE) -> Errors:
    """Look at the failed and ignored tasks of these steps."""
    states = [state for step in steps for state in (step.failed, step.ignored)]
    glances = side_by_side(methodcaller("glance", limit=sample, since=since, latest_first=True), states)
    found = list(zip(states, glances, strict=True))
    ignored = [
        (state, entry) for state, part in found if state.status == "ignored" for entry in part.tasks[: 4 * _NEWEST]
    ]
    ignored.sort(key=lambda each: each[1].update_time or _LONG_AGO, reverse=True)
    return Errors(
        _groups(found),
        sum(len(part.tasks) for part in glances),
        {state: len(part.tasks) for state, part in found if part.cursor is None},
        [state for state, part in found if part.cursor is not None],
        ignored[:_NEWEST],
    )


def _groups(found: Sequence[tuple[State[Any], Glance]]) -> list[ErrorGroup]:
    groups: dict[tuple[State[Any], str], ErrorGroup] = {}
    for state, part in found:
        for entry in part.tasks:
            pattern, time = pattern_of(entry), entry.update_time or _LONG_AGO
            group = groups.setdefault((state, pattern), ErrorGroup(state, pattern, 0, time, entry.task_id))
            group.tasks += 1
            if time > group.newest:
                group.newest, group.example = time, entry.task_id
    return sorted(groups.values(), key=lambda group: (-group.tasks, str(group.state), group.pattern))
