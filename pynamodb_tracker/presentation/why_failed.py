"""Why tasks failed: the newest entries of each failed and ignored state, in groups with the same error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import methodcaller
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.presentation.errors import ErrorGroup, ErrorGroups
from pynamodb_tracker.presentation.listing import NO_ERROR
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.index_page import IndexEntry
from pynamodb_tracker.step.state import State, given_up

SAMPLE = 400
"""Entries of a state that are looked at, the newest by their due time: one request, and about 15 read units."""
MOST_SAMPLED = 25_600
"""The largest sample that can be asked for."""

_NEWEST = 5
_LONG_AGO = datetime.fromtimestamp(0, UTC)
"""Of an entry whose time cannot be read."""


@dataclass(frozen=True, slots=True)
class Errors:
    """What a look at failed and ignored tasks has found."""

    groups: Sequence[ErrorGroup[State[Any]]]
    """The largest first."""
    searched: int
    counts: dict[State[Any], int]
    """How many tasks a state has, where the sample was all of it."""
    cut: Mapping[State[Any], int]
    """The states of which only a sample was looked at, and how many tasks that were."""
    first: datetime
    """The earliest failure that was looked at."""
    time: datetime
    """When it was looked at."""
    ignored: Sequence[tuple[State[Any], IndexEntry]]
    """The last tasks that were ignored: they wait for a person."""


NO_ERRORS = Errors([], 0, {}, {}, _LONG_AGO, _LONG_AGO, [])
"""Nothing, for a look that was refused."""


def find_errors(steps: Sequence[BoundStep[Any]], *, since: datetime | None = None, sample: int = SAMPLE) -> Errors:
    """Look at the failed and ignored tasks of these steps, and at those that gave up an occurrence of their rule."""
    now = clock.now()
    states = [state for step in steps for state in (step.failed, step.ignored)]
    glances = side_by_side(methodcaller("index_page", limit=sample, since=since, latest_due_first=True), states)
    found = list(zip(states, glances, strict=True))
    ignored = [
        (state, entry) for state, part in found if state.status == "ignored" for entry in part.tasks[: 4 * _NEWEST]
    ]
    ignored.sort(key=lambda each: each[1].update_time or _LONG_AGO, reverse=True)
    model = steps[0].model
    waiting, is_all = given_up(model, [step.name for step in steps], since, None, most=sample)
    entries = [(state, entry) for state, part in found for entry in part.tasks]
    entries += [(row.state, IndexEntry.of(row._row_state.stored)) for row in waiting]
    cut = {state: len(part.tasks) for state, part in found if part.cursor is not None}
    if not is_all:
        cut[next(iter(model._bound_steps.values())).pending] = len(waiting)
    groups = ErrorGroups[State[Any]]()
    for state, entry in entries:
        groups.add(state, entry.task_id, entry.last_error or NO_ERROR, entry.update_time or _LONG_AGO)
    return Errors(
        groups.sorted(),
        len(entries),
        {state: len(part.tasks) for state, part in found if part.cursor is None},
        cut,
        min(groups.first, now),
        now,
        ignored[:_NEWEST],
    )
