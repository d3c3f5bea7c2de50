"""Deleting a task, if its row has not changed since it was read."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from pynamodb.constants import NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused, send
from pynamodb_tracker.exceptions import TaskLockedError, TaskNotFoundError
from pynamodb_tracker.features.overflow import clear_orphans
from pynamodb_tracker.model.row import Membership, TaskRow, membership_of
from pynamodb_tracker.status import CANCELLED, END, Status, end_of
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes import register
from pynamodb_tracker.writes.conditions import seen_values
from pynamodb_tracker.writes.participants import send_with
from pynamodb_tracker.writes.prepared import PreparedWrite
from pynamodb_tracker.writes.refusals import build_error, check_format, check_life, describe_holder, is_same_life
from pynamodb_tracker.writes.statements import get

T = TypeVar("T", bound=TaskRow)

_TRIES = 4


def delete(model: type[T], task_id: str, *, repeated: bool = False) -> bool:
    """Delete a task that no worker holds, and return whether it repeats. If `repeated`, it may be deleted already."""
    meant: T | None = None
    for _ in range(_TRIES):
        row, now = get(model, task_id), clock.now()
        if row is not None and not repeated:
            check_life(row, meant, "delete")
        if row is None or (meant is not None and not is_same_life(row, meant)):
            clear_orphans(model, task_id)
            if repeated:
                return False  # an earlier copy of the request has deleted the row
            raise TaskNotFoundError(f"cannot delete {model.__name__} {task_id!r}: it does not exist", task_id=task_id)
        check_format(row, "delete")
        meant = row
        held = _is_held(row)
        if held and row.lock_expire_time >= now - model.tracker.margin:
            why = f"it is {row.tracker.name_of(row.status)}, {describe_holder(row)}"
            raise build_error(row, TaskLockedError, "delete", why)
        try:
            _delete(model, row, now, held=held)
        except Refused as refused:
            repeated = refused.repeated
        else:
            clear_orphans(model, task_id)
            return "repeat" in row._row_state.stored
    raise TaskLockedError(
        f"cannot delete {model.__name__} {task_id!r}: it changed {_TRIES} times during the call. Try again",
        task_id=task_id,
    )


def _is_held(row: TaskRow) -> bool:
    """Return whether a worker may hold the task. At an undeclared step, only the fence can tell."""
    steps = row.tracker.steps
    if end_of(row.status) or any(row.status in codes.own for codes in steps):
        return any(row.status == codes.in_progress for codes in steps)
    return row.fence in (row.unfinished or ())


class SeenDeletes(Generic[T]):
    """Deletes tasks that a consistent scan has just read."""

    def __init__(self, model: type[T]) -> None:
        self._model = model
        self._writes: dict[bool, PreparedWrite] = {}
        """By whether the row has a lock."""
        own = (each for codes in model.tracker.steps for each in codes.own.items())
        at_rest = (code for code, status in own if status is not Status.IN_PROGRESS)
        self._at_rest = {str(code) for code in (END, CANCELLED, *at_rest)}
        """Codes of declared steps in which no worker holds a task."""

    def delete(self, task_id: str, seen: Item | None) -> None:
        """Delete a task as `delete` does. `seen` is its row as the scan returned it."""
        repeated = False
        try:
            if seen is not None and self._delete(task_id, seen):
                return
        except Refused as refused:
            repeated = refused.repeated
        delete(self._model, task_id, repeated=repeated)

    def _delete(self, task_id: str, seen: Item) -> bool:
        """Delete a row without related rows. Return False if it has to be read first."""
        tracker, has_lock = self._model.tracker, "lock" in seen
        values = {f"seen_{name}": seen.get(name, {}).get(kind) for name, kind in _SEEN.items()}
        is_whole = all(value is not None for name, value in values.items() if has_lock or name != "seen_lock")
        at_rest = values["seen_status"] in self._at_rest
        if not (is_whole and at_rest) or not seen.keys().isdisjoint({"group", "parent"}):
            return False
        if has_lock not in self._writes:
            # With the lock that was seen, there are no new overflow chunks: claims and commands write both.
            self._writes[has_lock] = build_delete(self._model, when.lock_seen(is_there=has_lock))
        send(tracker.connection(), "DeleteItem", self._writes[has_lock].request(tracker.key(task_id), values))
        return True


_SEEN = {"status": NUMBER, "fence": NUMBER, "attempt": NUMBER, "creation": STRING, "lock": STRING}
"""Attributes that show whether a row has changed."""


def build_delete(model: type[TaskRow], *guards: when.Guard, membership: Membership = Membership.NONE) -> PreparedWrite:
    """Delete exactly the row that was read, not a task that was created since."""
    as_read = when.as_read(), when.membership_seen(membership), when.known_format()
    return PreparedWrite(model.tracker.connection(), condition=when.all_of([*as_read, *guards]))


def _delete(model: type[T], row: T, now: datetime, *, held: bool) -> None:
    values = {
        **seen_values(row),
        "now_minus_margin": clock.stamp(now - model.tracker.margin),
        "seen_parent": row.parent,
    }
    guards = [when.lock_expired()] if held else []
    if row.parent:
        guards.append(when.parent_seen())
    table, write = model.tracker.connection(), build_delete(model, *guards, membership=membership_of(row))
    request = write.request(model.tracker.key(row.task_id), values)
    own = {"Delete": {"TableName": table.table_name, **request}}
    if not send_with(table, own, register.deletion_participants(row), None):
        send(table, "DeleteItem", request)
