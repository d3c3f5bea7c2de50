"""Repairing groups in which another program, or a person, has deleted or changed a row."""

from contextlib import suppress
from typing import Any

from pynamodb.constants import STRING
from pynamodb.expressions.operand import Path

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused, send
from pynamodb_tracker.dynamodb.retries import TRIES, slept_before_retry
from pynamodb_tracker.dynamodb.transact_write import transact_write
from pynamodb_tracker.features.groups.queue import TURN, GroupChange, read_queue
from pynamodb_tracker.features.groups.records import row_key
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.row import TaskRow, is_beyond_limit
from pynamodb_tracker.writes.conditions import single_request
from pynamodb_tracker.writes.participants import Action, is_busy


def needs_repair(model: type[TaskRow], name: str) -> bool:
    """Return whether nobody will hand on the turn."""
    row, places = read_queue(model, name)
    turn = None if row is None else row.turn
    if turn is None:
        return bool(places)
    holder = rows_to_show(model, [turn]).get(turn)
    return _if_ended(model, name, turn, holder) is not None or (holder is not None and is_beyond_limit(holder))


def repair(model: type[TaskRow], name: str) -> str | None:
    """Hand on the turn if its task has ended or is gone, and return the task with the turn.

    If that is parked beyond its limit, make it due.
    """
    retry = 0
    while True:
        row, places = read_queue(model, name)
        turn = None if row is None else row.turn
        holder = None if turn is None else rows_to_show(model, [turn]).get(turn)
        check = None if turn is None else _if_ended(model, name, turn, holder)
        if holder is not None and is_beyond_limit(holder):
            _end_wait(holder)
        if (turn is None and not places) or (turn is not None and check is None):
            return turn
        change = GroupChange(model, name)
        change.repairs = True
        change.last = max((place.number for place in places), default=0)
        writes = change.actions()
        unconfirmed = transact_write(model.tracker.connection(), writes if check is None else [check, *writes])
        if unconfirmed is None:
            return change.woken
        if retry == TRIES - 1 or not is_busy(unconfirmed) or not slept_before_retry(retry):
            raise unconfirmed.error
        retry += 1


def forget(model: type[TaskRow], name: str) -> None:
    """Delete a group's row with its data, unless a task has the turn."""
    if repair(model, name) is None:
        table = model.tracker.connection()
        key = row_key(model.tracker.use_case.name, name)
        with suppress(Refused):  # a task has entered since
            send(table, "DeleteItem", single_request(table, key, TURN.does_not_exist()))


def _end_wait(row: TaskRow) -> None:
    """Let a parked task start at its limit, unless it has changed."""
    due: Any = TaskRow.due_time
    condition = (due == clock.NEVER) & (TaskRow.fence == row.fence) & (TaskRow.creation == row.creation)
    condition &= TaskRow.turn_due_time.does_not_exist() & TaskRow.wait_until.exists()
    table, actions = row.tracker.connection(), [due.set(Path(TaskRow.wait_until))]
    with suppress(Refused):
        send(table, "UpdateItem", single_request(table, row.tracker.key(row.task_id), condition, actions))


def _if_ended(model: type[TaskRow], name: str, task_id: str, row: TaskRow | None) -> Action | None:
    """Return the check that a task has ended or is gone, or None if it keeps the turn."""
    key, condition = model.tracker.key(task_id), TaskRow.task_id.does_not_exist()
    if row is not None:
        item = row._row_state.stored
        in_turn = item.get("group") == {STRING: name} and "turn_due_time" not in item
        if None in (row.status, row.creation) or (in_turn and not model.tracker.ends_at(row.status)):
            return None
        condition = (TaskRow.status == row.status) & (TaskRow.creation == row.creation)
    return {"ConditionCheck": single_request(model.tracker.connection(), key, condition)}
