"""Deleting a task: a conditional DeleteItem of exactly the row that was read, together with its participants."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from pynamodb.constants import NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused, send
from pynamodb_tracker.exceptions import TaskLockedError, TaskNotFoundError
from pynamodb_tracker.features.overflow import clear_orphans
from pynamodb_tracker.model.row import Membership, TaskRow, membership_of
from pynamodb_tracker.status import END, Status
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes import register
from pynamodb_tracker.writes.conditions import seen_values
from pynamodb_tracker.writes.participants import send_with
from pynamodb_tracker.writes.prepared import PreparedWrite
from pynamodb_tracker.writes.refusals import check_format, check_life, holder, is_same_life
from pynamodb_tracker.writes.statements import get

T = TypeVar("T", bound=TaskRow)

_TRIES = 4


def delete(model: type[T], task_id: str, *, repeated: bool = False) -> bool:
    """Delete a task that no worker holds, and return whether it repeats. Raise TaskLockedError or TaskNotFoundError.

    If it is `repeated`, an earlier request of the same command may already have deleted it.
    """
    meant: T | None = None
    for _ in range(_TRIES):
        row, now = get(model, task_id), clock.now()
        if row is not None and not repeated:
            check_life(row, meant, "delete")
        if row is None or (meant is not None and not is_same_life(row, meant)):
            clear_orphans(model, task_id)
            if repeated:
                return False  # the SDK repeated a request that had deleted the row, because the response was lost
            raise TaskNotFoundError(
                f"cannot delete {model.__name__} {task_id!r}: there is no such task", task_id=task_id
            )
        check_format(row, "delete")
        meant = row
        held = _is_held(row)
        if held and row.lock_expire_time >= now - model.tracker.margin:
            raise TaskLockedError(
                f"cannot delete {model.__name__} {task_id!r}: it is {row.tracker.name_of(row.status)}, {holder(row)}",
                task_id=task_id,
                task=row,
            )
        try:
            _delete(model, row, now, held=held)
        except Refused as refused:
            repeated = refused.repeated
        else:
            clear_orphans(model, task_id)
            return "repeat" in row._row_state.stored
    raise TaskLockedError(
        f"cannot delete {model.__name__} {task_id!r}: it changed {_TRIES} times meanwhile; try again", task_id=task_id
    )


def _is_held(row: TaskRow) -> bool:
    """Return whether a worker may hold the task. At a step that this program does not declare, no code tells."""
    steps = row.tracker.steps
    if row.status == END or any(row.status in codes.own for codes in steps):
        return any(row.status == codes.in_progress for codes in steps)
    return row.fence in (row.unfinished or ())


class SeenDeletes(Generic[T]):
    """Deletes tasks that a consistent scan has just seen, without reading them again."""

    def __init__(self, model: type[T]) -> None:
        self._model = model
        self._writes: dict[bool, PreparedWrite] = {}
        """By whether the row has a lock."""
        own = (each for codes in model.tracker.steps for each in codes.own.items())
        self._at_rest = {str(END), *(str(code) for code, status in own if status is not Status.IN_PROGRESS)}
        """The codes in which no worker holds a task. A step that only other programs declare is not among them."""

    def delete(self, task_id: str, seen: Item | None) -> None:
        """Delete a task as `delete` does. `seen` has the attributes of its row that the scan returned."""
        repeated = False
        try:
            if seen is not None and self._delete(task_id, seen):
                return
        except Refused as refused:
            repeated = refused.repeated
        delete(self._model, task_id, repeated=repeated)

    def _delete(self, task_id: str, seen: Item) -> bool:
        """Delete a row that has no related rows. Return False if it has to be read first.

        Only a claim or a command writes overflow chunks, and both write a lock.
        """
        tracker, has_lock = self._model.tracker, "lock" in seen
        values = {f"seen_{name}": seen.get(name, {}).get(kind) for name, kind in _SEEN.items()}
        is_whole = all(value is not None for name, value in values.items() if has_lock or name != "seen_lock")
        at_rest = values["seen_status"] in self._at_rest
        if not (is_whole and at_rest) or not seen.keys().isdisjoint({"group", "parent"}):
            return False
        if has_lock not in self._writes:
            self._writes[has_lock] = deletion_as_seen(self._model, has_lock=has_lock)
        send(tracker.connection(), "DeleteItem", self._writes[has_lock].request(tracker.key(task_id), values))
        return True


_SEEN = {"status": NUMBER, "fence": NUMBER, "attempt": NUMBER, "creation": STRING, "lock": STRING}
"""The attributes that show whether the row has changed, and their types."""


def deletion(
    model: type[T], *, held: bool, is_child: bool = False, membership: Membership = Membership.NONE
) -> PreparedWrite:
    """Return the delete of exactly the row that was read: a late copy must not delete a task created since."""
    guards = [*_as_read(membership), *([when.lock_expired()] if held else [])]
    guards += [when.parent_seen()] if is_child else []
    return PreparedWrite(model.tracker.connection(), condition=when.all_of(guards))


def deletion_as_seen(model: type[T], *, has_lock: bool) -> PreparedWrite:
    """Return the delete of a row without overflow chunks, unless a claim or a command has written it since."""
    guards = [*_as_read(Membership.NONE), when.lock_seen(is_there=has_lock)]
    return PreparedWrite(model.tracker.connection(), condition=when.all_of(guards))


def _as_read(membership: Membership) -> list[when.Guard]:
    return [when.as_read(), when.membership_seen(membership), when.known_format()]


def _delete(model: type[T], row: T, now: datetime, *, held: bool) -> None:
    """Delete the row if it has not changed since it was read. If it is a child, its parent counts that."""
    values = {
        **seen_values(row),
        "now_minus_margin": clock.stamp(now - model.tracker.margin),
        "seen_parent": row.parent,
    }
    table, write = (
        model.tracker.connection(),
        deletion(model, held=held, is_child=row.parent is not None, membership=membership_of(row)),
    )
    request = write.request(model.tracker.key(row.task_id), values)
    own = {"Delete": {"TableName": table.table_name, **request}}
    if not send_with(table, own, register.at_deletion(row), None):
        send(table, "DeleteItem", request)
