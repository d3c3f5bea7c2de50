"""Failed and ignored tasks, grouped by error."""

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
from pynamodb_tracker.step.pages import IndexEntry
from pynamodb_tracker.step.state import State, given_up

SAMPLE = 400  # entries to read per state, the latest due ones, at about 15 read units
LARGE_SAMPLE = 5000  # the sample for one step, or from a time on
MOST_SAMPLED = 25_600

_LONG_AGO = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Errors:
    groups: Sequence[ErrorGroup[State[Any]]]
    searched: int
    cut: Mapping[State[Any], int]  # the number of tasks that were read, by state, if there are more
    first: datetime  # the earliest failure. `time` is when the errors were read
    time: datetime


NO_ERRORS = Errors([], 0, {}, _LONG_AGO, _LONG_AGO)


def find_errors(steps: Sequence[BoundStep[Any]], *, since: datetime | None = None, sample: int = SAMPLE) -> Errors:
    """Load the errors of failed and ignored tasks, and of repeating tasks that gave up an occurrence."""
    now = clock.now()
    states = [state for step in steps for state in (step.failed, step.ignored)]
    glances = side_by_side(methodcaller("index_page", limit=sample, since=since, latest_due_first=True), states)
    found = list(zip(states, glances, strict=True))
    model = steps[0].model
    waiting, is_all = given_up(model, [step.name for step in steps], since, None, most=sample)
    entries = [(state, entry) for state, part in found for entry in part.tasks]
    entries += [(row.state, IndexEntry.of(row._row_state.stored)) for row in waiting]
    cut = {state: len(part.tasks) for state, part in found if part.cursor is not None}
    if not is_all:
        cut[next(iter(model._bound_steps.values())).pending] = len(waiting)
    groups = ErrorGroups[State[Any]]()
    for state, entry in entries:
        created = entry.create_time if (entry.attempt or 0) > 1 else None
        groups.add(state, entry.task_id, entry.last_error or NO_ERROR, entry.update_time, created=created)
    return Errors(groups.sorted(cut), len(entries), cut, min(groups.first, now), now)
