"""Tasks that have given up an occurrence of their rule: they are pending at their first step until the next one."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from functools import partial
from typing import TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import read_page
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.model import hydration
from pynamodb_tracker.model.failure_log import failures_in_row
from pynamodb_tracker.model.row import StatusIndex, TaskRow
from pynamodb_tracker.model.row_state import readable_value
from pynamodb_tracker.query.state_scan import INDEX, Window

T = TypeVar("T", bound=TaskRow)

_ALMOST_NEVER = clock.NEVER - timedelta(seconds=1)
"""What waits for others without a limit is due later than that."""

_COMMANDS = ("ignored", "reopened", "released")
"""What a command leaves in `errors` as its type."""


def given_up(model: type[T], steps: Collection[str], window: Window, most: int) -> tuple[list[T], bool]:
    """Return the tasks that gave up an occurrence at one of these steps, and whether all that might have were searched.

    It reads from the index up to `most` tasks of the first step that are due later, because any number may have been
    created so, and the rows of those that have an error. A task is found until its next occurrence is due.
    """
    keys = model.tracker.use_case.status_keys(model.tracker.steps[0].pending)
    searched = side_by_side(partial(_with_an_error, model, window, -(-most // len(keys))), keys)
    found = hydration.rows(model, (task_id for task_ids, _ in searched for task_id in task_ids))
    return [row for row in found.values() if _gave_up_at(row) in steps], all(is_all for _, is_all in searched)


def _with_an_error(model: type[TaskRow], window: Window, most: int, status_key: str) -> tuple[list[str], bool]:
    """Return the ids of tasks with an error among the next ones of a shard, and whether these are all."""
    table, start, task_ids = model.tracker.connection(), None, list[str]()
    now = clock.now()
    due = StatusIndex.due_time.between(max(now, window.since or now), _ALMOST_NEVER)
    has_error = TaskRow.last_error.exists() & (TaskRow.attempt == 0)
    in_window = window.on_update_time()
    while True:
        found = read_page(
            table,
            table.query,
            status_key,
            start=start,
            range_key_condition=due,
            filter_condition=has_error if in_window is None else has_error & in_window,
            index_name=INDEX,
            limit=most,
        )
        task_ids += (entry["task_id"]["S"] for entry in found["Items"])
        most -= found["ScannedCount"]
        start = found.get("LastEvaluatedKey")
        if not start or most <= 0:
            return task_ids, not start


def _gave_up_at(row: TaskRow) -> str | None:
    """Return the step at which the row gave up its last occurrence; None if a command has moved it since."""
    first, failures = row.tracker.steps[0], failures_in_row(row)
    values = (readable_value(row, name) for name in ("status", "attempt"))
    if (*values,) != (first.pending, 0) or not (readable_value(row, "repeat") and readable_value(row, "last_error")):
        return None
    if not failures:  # the row had no room for the failure
        return first.step
    last = failures[-1]
    is_newest = last.time == readable_value(row, "update_time")
    return last.step if is_newest and last.type not in _COMMANDS else None
