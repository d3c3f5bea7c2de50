"""A join: a task waits for tasks that its run has created, its children, and the last of them makes it due.

The parent's row has their number, `waits`; each child has a reference to its parent, in the round that created it. A
child counts in the transaction of its own success, or of its deletion, and its reference is removed with that: it
counts once, whatever is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import send
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model.references import parse, round_of
from pynamodb_tracker.model.row import FORMAT, TaskRow, check_tracker_attributes, load
from pynamodb_tracker.model.row_state import readable_value
from pynamodb_tracker.status import END
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.company import Action, Companion, MadeDue, Reason
from pynamodb_tracker.transitions.finishes import wait_before_retry
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.prepared import PreparedWrite, fill
from pynamodb_tracker.transitions.refusals import check_format
from pynamodb_tracker.transitions.transition import Added, Constant, Transition

T = TypeVar("T", bound=TaskRow)


def counted(table: TableConnection, *, has_token: bool = True) -> PreparedWrite:
    """Return the count of a child that is not the last one of its parent's."""
    guards = [when.same_round(has_token=has_token), when.waits_for_more(), when.known_format()]
    return PreparedWrite(table, condition=when.all_of(guards), actions=[TaskRow.waits.set(TaskRow.waits - 1)])


def counted_last(table: TableConnection, *, parked: bool, has_token: bool = True) -> PreparedWrite:
    """Return the count of the last child: the parent waits no longer, and is due if it was `parked`."""
    guards = [when.same_round(has_token=has_token), when.waits_for_one(), when.status_seen(), when.known_format()]
    due = [fill(TaskRow.due_time, "due")] if parked else []
    return PreparedWrite(
        table, condition=when.all_of(guards), actions=[*due, TaskRow.waits.remove(), TaskRow.wait_until.remove()]
    )


def waiting(lock: Lock[T], found: TaskRow | None, success: Transition) -> None:
    """Let a success have the next step wait for what the block has created, if that is anything.

    A child that exists already, put by an earlier success in this round, has counted, or is among those for which the
    row waits. `found` is the row, if it has turned out that it waits for none of these any more.
    """
    asked = next((each for companion in lock.company if (each := companion.waiting()) is not None), None)
    waits = readable_value(found or lock.task, "waits")
    if asked is None or not (asked.children or waits):
        return
    success.due = asked.until or clock.NEVER
    if asked.children:
        success.add(waits=Added(asked.children, after=asked.children + (waits or 0)))
        success.add(format_version=Constant(FORMAT))
    else:
        success.add(when.waits_for_others())
    success.add(wait_until=asked.until)


class Parent(Companion):
    """The company of a child's success, or of its deletion: its parent waits for one task less."""

    def __init__(self, child: TaskRow, lock: Lock[Any] | None = None) -> None:
        """`lock` is the child's, if its success counts."""
        self._owner: Any = child.tracker.table.owner
        self._table = child.tracker.connection()
        self._lock = lock
        self._last: list[MadeDue] = []
        """The parent, if this is the last child that it waits for."""
        try:
            self._reference = parse(child.parent)
        except ValueError as error:
            raise TaskError(
                f"the success of {type(child).__name__} {child.task_id!r} cannot be counted: its parent, {error}; "
                "correct or remove the attribute `parent` of its row",
                task_id=child.task_id,
                task=child,
            ) from error

    def actions(self) -> Sequence[Action]:
        """Return the count; nothing if the parent is gone, or waits no more for this child.

        Its round is never found again then: it is a token.
        """
        row, self._last = self._read(), []
        if row is None or round_of(row) != self._reference.round or "waits" not in row._row_state.stored:
            return []
        check_format(row, "count a task that has ended for")
        has_token, parked = self._reference.round != "", row.due_time in {clock.NEVER, row.wait_until}
        write = counted(self._table, has_token=has_token)
        due = max(clock.now(), row.update_time)
        if row.waits <= 1:
            write = counted_last(self._table, parked=parked, has_token=has_token)
            model = self._owner.tracker.table.use_cases.get(self._reference.use_case)
            if parked and model is not None:
                self._last = [MadeDue(model, row.task_id, row.status, row.creation or "", due)]
        values = {
            "seen_round": self._reference.round,
            "seen_status": str(row.status),
            "due": clock.stamp(due),
        }
        return [{"Update": {"TableName": self._table.table_name, **write.request(self._key, values)}}]

    def made_due(self) -> list[MadeDue]:
        """Return the parent, if this was the last child that it waited for."""
        return self._last

    def refused(self, reasons: Sequence[Reason]) -> None:
        """Try again: the parent has changed since it was read."""

    @property
    def _key(self) -> dict[str, dict[str, str]]:
        return {"task_id": {"S": self._reference.task_id}, "use_case_id": {"S": self._reference.use_case}}

    def _read(self) -> TaskRow | None:
        """Read the parent as a row of the table: this program may not declare its use case."""
        request, retries = {"Key": self._key, "ConsistentRead": True}, 0
        while True:
            try:
                until = self._lock.expire_time if self._lock else None
                item = send(self._table, "GetItem", request, until=until).get("Item")
            except PynamoDBConnectionError as error:
                if self._lock is None:
                    raise
                wait_before_retry(self._lock, END, error, retries)
                retries += 1
            else:
                row: TaskRow | None = check_tracker_attributes(load(self._owner, item)) if item else None
                return row
