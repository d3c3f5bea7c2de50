"""A task that is created already claimed: one put takes the place of a create and a claim."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.transitions.creations import NewTask, new_task, tracked
from pynamodb_tracker.transitions.lock import new_token
from pynamodb_tracker.transitions.statements import StepStatements

T = TypeVar("T", bound=TaskRow)


def claimed_task(
    statements: StepStatements[T],
    task_id: str,
    attributes: Mapping[str, Any],
    *,
    lock_for: timedelta,
    payload: str | None = None,
    trace: Mapping[str, str] | None = None,
) -> NewTask[T]:
    """Check the values of a task that is to be created in progress at this step; errors as of `new_task`.

    One token is its `lock`, its `creation`, and the `lock` of its overflow chunks. Its size counts all that a claim
    sets.
    """
    model, codes, now = statements.model, statements.codes, clock.now()
    token, expire = {"S": new_token()}, {"S": clock.stamp(now + lock_for)}
    also: Item = {
        **tracked(model, task_id, trace=trace),
        "creation": token,
        "lock": token,
        "due_time": expire,
        "lock_expire_time": expire,
        "attempt": {"N": "1"},
        "fence": {"N": "1"},
        "unfinished": {"L": [{"N": "1"}]},
        "saves": {"N": "0"},
        "worker": {"S": this_worker()},
    }
    if payload is not None:
        also[statements.payload.attr_name] = {"S": payload}
    return new_task(model, task_id, codes.in_progress, None, attributes, also=also, now=now)


def as_pending(statements: StepStatements[T], task: NewTask[T], token: str) -> NewTask[T]:
    """Return the same task, pending at this step, with a token that refuses late copies of earlier requests."""
    code, now, lock = statements.codes.pending, {"S": clock.stamp(clock.now())}, {"S": token}
    item: Item = {
        **task.item,
        "status": {"N": str(code)},
        "due_time": now,
        "update_time": now,
        "attempt": {"N": "0"},
        "unfinished": {"L": []},
        "creation": lock,
        "lock": lock,
    }
    if "status_key" in item:
        item["status_key"] = {"S": statements.model.tracker.use_case.status_key(code, task.row.task_id)}
    return NewTask(task.row, item, task.changes, [{**chunk, "lock": lock} for chunk in task.chunks])
