"""Repair of groups that stopped: another program, or a person, deleted the group's row or the task with the turn."""

from __future__ import annotations

from contextlib import suppress

from pynamodb.constants import STRING

from pynamodb_tracker.dynamodb.connection import Refused, get_items, send
from pynamodb_tracker.dynamodb.retries import TRIES, slept_before_retry
from pynamodb_tracker.dynamodb.transact_write import transact_write
from pynamodb_tracker.features.groups.queue import TURN, GroupChange, read_queue
from pynamodb_tracker.features.groups.records import row_key
from pynamodb_tracker.model.row import TaskRow, load, readable
from pynamodb_tracker.writes.participants import Action, is_busy


def needs_repair(model: type[TaskRow], name: str) -> bool:
    """Return whether nobody will hand on the turn: its task has ended or is gone, or no task has it."""
    row, places = read_queue(model, name)
    turn = None if row is None else row.turn
    return bool(places) if turn is None else _if_ended(model, name, turn) is not None


def repair(model: type[TaskRow], name: str) -> str | None:
    """Hand on the turn if its task has ended or is gone. Return the task that has it then, or None.

    Groups need this only if another program, or a person in the console, deleted the group's row or the task.
    """
    retry = 0
    while True:
        row, places = read_queue(model, name)
        turn = None if row is None else row.turn
        check = None if turn is None else _if_ended(model, name, turn)
        if (turn is None and not places) or (turn is not None and check is None):
            return turn
        change = GroupChange(model, name)
        change.repairs = True
        change.last = max((place.number for place in places), default=0)
        writes = change.actions()
        unapplied = transact_write(model.tracker.connection(), writes if check is None else [check, *writes])
        if unapplied is None:
            return change.woken
        if retry == TRIES - 1 or not is_busy(unapplied) or not slept_before_retry(retry):
            raise unapplied.error
        retry += 1


def forget(model: type[TaskRow], name: str) -> None:
    """Delete the row of a group, with its data, unless a task has the turn."""
    if repair(model, name) is None:
        table = model.tracker.connection()
        request = table.get_operation_kwargs("", "", condition=TURN.does_not_exist())
        del request["TableName"]
        with suppress(Refused):  # a task has entered since
            send(table, "DeleteItem", {**request, "Key": row_key(model.tracker.use_case.name, name)})


def _if_ended(model: type[TaskRow], name: str, task_id: str) -> Action | None:
    """Return the check that a task has ended or is gone, or None if it keeps the turn, as a damaged one does."""
    key = model.tracker.key(task_id)
    condition, item = TaskRow.task_id.does_not_exist(), next(get_items(model.tracker.connection(), [key]), None)
    if item is not None:
        row = readable(load(model, item))
        in_turn = item.get("group") == {STRING: name} and "turn_due_time" not in item
        if None in (row.status, row.creation) or (in_turn and not model.tracker.ends_at(row.status)):
            return None
        condition = (TaskRow.status == row.status) & (TaskRow.creation == row.creation)
    check = model.tracker.connection().get_operation_kwargs("", "", condition=condition)
    return {"ConditionCheck": {**check, "Key": key}}
