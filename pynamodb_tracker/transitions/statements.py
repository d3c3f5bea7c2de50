"""What each transition of a step asks of DynamoDB: condition and update, rendered once per step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, TypeVar

from pynamodb.connection.table import TableConnection
from pynamodb.constants import ALL_NEW
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path
from pynamodb.expressions.update import Action

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.transport import send
from pynamodb_tracker.model.damaged import decidable, load_leniently
from pynamodb_tracker.model.row import Changes, TaskRow
from pynamodb_tracker.status import Codes
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.prepared import PreparedWrite, fill
from pynamodb_tracker.transitions.user_attributes import own_actions, shape_of

__all__ = ["StepWrites", "get"]

T = TypeVar("T", bound=TaskRow)

_PAST_THE_END = 9999
"""SET of a list's element beyond its end appends; a finish cuts the list, so it is as long as a row of deaths."""

_MOST_SHAPES = 128


class StepWrites(Generic[T]):
    """The writes of one step of one use case."""

    def __init__(self, model: type[T], codes: Codes, max_attempts: int) -> None:
        self.model = model
        self.codes = codes
        self.max_attempts = max_attempts
        self._shapes: dict[tuple[object, ...], PreparedWrite] = {}

    @cached_property
    def claim(self) -> PreparedWrite:
        """Take a task that waits, or whose lock is over: the first request of every run."""
        startable = when.waiting(self.codes) | when.abandoned(self.codes)
        attempt = TaskRow.attempt.set(TaskRow.attempt + 1)
        return self._write(startable & when.under_limit() & when.later_token(), *self._taking(attempt))

    def claim_from(self, code: int) -> PreparedWrite:
        """Take a task from exactly that state, as the first attempt of this step."""

        def render() -> PreparedWrite:
            attempt = TaskRow.attempt.set(1)
            return self._write(when.at(code) & when.due() & when.later_token(), *self._taking(attempt))

        return self._shape(("claim_from", code), render)

    def succeed(self, changes: Changes) -> PreparedWrite:
        """Finish with success, together with what the block changed."""

        def render() -> PreparedWrite:
            code = self.codes.succeeded
            ends = self.model.tracker.ends_at(code)
            return self._finish(code, TaskRow.last_error.remove(), *own_actions(changes), ends=ends)

        return self._shape(("succeed", *shape_of(changes)), render)

    def commit(self, changes: Changes) -> PreparedWrite:
        """Finish with success as a part of a transaction, of which no late copy is applied after a `settle`."""

        def render() -> PreparedWrite:
            code = self.codes.succeeded
            ends = self.model.tracker.ends_at(code)
            fence = fill(TaskRow.saves, "saves")
            return self._finish(
                code, TaskRow.last_error.remove(), fence, *own_actions(changes), ends=ends, also=when.later_save()
            )

        return self._shape(("commit", *shape_of(changes)), render)

    @cached_property
    def check(self) -> PreparedWrite:
        """Say in a transaction that the lock is held; it counts as a save, so that it leaves a trace."""
        condition = when.mine(self.codes) & when.later_save()
        return PreparedWrite(self.table, condition=condition, actions=[fill(TaskRow.saves, "saves")])

    @cached_property
    def fail(self) -> PreparedWrite:
        """Finish with a failure that another attempt may mend."""
        return self._finish(self.codes.failed, *_ERRORS)

    @cached_property
    def give_up(self) -> PreparedWrite:
        """Finish with a failure after which nothing more is tried."""
        return self._finish(self.codes.ignored, *_ERRORS, ends=True)

    def failing(self, *, final: bool, beside: bool) -> PreparedWrite:
        """Finish with a failure, and with a pointer to the failures `beside` the row."""
        if not beside:
            return self.give_up if final else self.fail

        def render() -> PreparedWrite:
            pointer = fill(TaskRow.errors_beside, "errors_beside")
            return self._finish(self.codes.ignored if final else self.codes.failed, *_ERRORS, pointer, ends=final)

        return self._shape(("failing", final), render)

    @cached_property
    def release(self) -> PreparedWrite:
        """Finish without a result, as if the attempt had not begun."""
        return self._finish(self.codes.pending)

    @cached_property
    def extend(self) -> PreparedWrite:
        """Make the lock longer; touches no indexed attribute."""
        expire = fill(TaskRow.lock_expire_time, "expire")
        return PreparedWrite(self.table, condition=when.mine(self.codes) & when.grows(), actions=[expire])

    def save(self, changes: Changes) -> PreparedWrite:
        """Store what the block changed so far; touches no indexed attribute."""

        def render() -> PreparedWrite:
            condition = when.mine(self.codes) & when.later_save()
            return PreparedWrite(
                self.table, condition=condition, actions=[fill(TaskRow.saves, "saves"), *own_actions(changes)]
            )

        return self._shape(("save", *shape_of(changes)), render)

    @cached_property
    def settle(self) -> PreparedWrite:
        """Count a save that stores nothing: it keeps the late copy of an earlier one out, and tells how the row is."""
        return self._write(when.mine(self.codes) & when.later_save(), fill(TaskRow.saves, "saves"))

    @cached_property
    def keep_out(self) -> PreparedWrite:
        """Count a save that stores nothing, unless the row has counted another since it was seen."""
        condition = when.mine(self.codes) & when.saves_seen()
        return PreparedWrite(self.table, condition=condition, actions=[fill(TaskRow.saves, "saves")])

    def spend(self, *, beside: bool) -> PreparedWrite:
        """Set a task aside that waits and has no attempt left; `beside` as of `failing`."""
        return self._set_aside("spend", when.seen, beside=beside)

    def spend_abandoned(self, *, beside: bool) -> PreparedWrite:
        """Set a task aside whose last attempt died with its worker; its fence stays among the unfinished."""
        return self._set_aside("spend abandoned", lambda: when.seen() & when.lock_is_over(), beside=beside)

    @cached_property
    def reopen(self) -> PreparedWrite:
        """Give a task a fresh set of attempts, unless its end is set: then there may be more to keep than the row."""
        return self._reopen(self._may_be_reopened() & when.stays())

    @cached_property
    def reopen_ended(self) -> PreparedWrite:
        """Do so once what lies beside the row is kept."""
        return self._reopen(self._may_be_reopened())

    def ignore(self, *, beside: bool) -> PreparedWrite:
        """Set a task aside on a person's order."""

        def as_seen() -> Condition:
            free = when.at(self.codes.pending, self.codes.failed) | when.abandoned(self.codes)
            condition: Condition = when.seen() & free & when.later_token()
            return condition

        return self._set_aside("ignore", as_seen, beside=beside)

    def send(
        self, write: PreparedWrite, task_id: str, *, until: datetime | None = None, **values: Any
    ) -> dict[str, Any]:
        """Send one of these writes, for which there is time `until`; raise Refused, or PynamoDB's UpdateError."""
        request = write.request(self.model.tracker.key(task_id), values)
        return send(self.model.tracker.connection(), "UpdateItem", request, until=until)

    def moved(self, code: int, task_id: str, now: datetime, due: datetime | None = None) -> dict[str, Any]:
        """Return the values of every change of state: its index keys and its times, from one reading of the clock."""
        stamped = clock.stamp(now)
        values = {
            "status_key": self.model.tracker.use_case.status_key(code, task_id),
            "now": stamped,
            "due": stamped if due is None or due <= now else clock.stamp(due),
        }
        if keep_until := self.keep_until(code, now):
            values["keep_until"] = keep_until
        return values

    def keep_until(self, code: int, now: datetime) -> str | None:
        """Return the stored time to live of a task that came to this state now; None where it stays."""
        keep_for = self.model.tracker.use_case.keep_for
        return str(int((now + keep_for).timestamp())) if keep_for and self.model.tracker.ends_at(code) else None

    @property
    def table(self) -> TableConnection:
        """The connection of the table: PynamoDB renders by it."""
        return self.model.tracker.connection()

    def _taking(self, attempt: Action) -> list[Action]:
        return [
            *self._moves(self.codes.in_progress),
            attempt,
            fill(TaskRow.lock_expire_time, "due"),
            fill(TaskRow.lock, "token"),
            fill(TaskRow.worker, "worker"),
            TaskRow.fence.set(TaskRow.fence + 1),
            Path(TaskRow.unfinished)[_PAST_THE_END].set(TaskRow.fence + 1),
            TaskRow.saves.set(0),
            TaskRow.expire_time.remove(),
        ]

    def _finish(self, code: int, *actions: Action, ends: bool = False, also: Condition | None = None) -> PreparedWrite:
        moves = [
            *self._moves(code, ends=ends),
            fill(TaskRow.attempt, "attempt"),
            fill(TaskRow.unfinished, "unfinished"),
        ]
        mine = when.mine(self.codes)
        condition = mine if also is None else mine & also
        return PreparedWrite(self.table, condition=condition, actions=[*moves, *actions])

    def _may_be_reopened(self) -> Condition:
        condition: Condition = when.at(self.codes.failed, self.codes.ignored) & when.later_token()
        return condition

    def _reopen(self, condition: Condition) -> PreparedWrite:
        actions = [*self._moves(self.codes.pending), fill(TaskRow.lock, "token"), TaskRow.attempt.set(0)]
        return self._write(condition, *actions, TaskRow.expire_time.remove())

    def _set_aside(self, name: str, condition: Callable[[], Condition], *, beside: bool) -> PreparedWrite:
        def render() -> PreparedWrite:
            token = fill(TaskRow.lock, "token")  # without a later one, the late copy of a refused reopen could undo it
            moves, pointer = self._moves(self.codes.ignored, ends=True), fill(TaskRow.errors_beside, "errors_beside")
            return self._write(condition(), *moves, *_ERRORS, token, *([pointer] if beside else []))

        return self._shape((name, beside), render)

    def _moves(self, code: int, *, ends: bool = False) -> list[Action]:
        actions: list[Action] = [
            TaskRow.status.set(code),
            fill(TaskRow.status_key, "status_key"),
            fill(TaskRow.due_time, "due"),
            fill(TaskRow.update_time, "now"),
        ]
        if ends and self.model.tracker.use_case.keep_for:
            actions.append(fill(TaskRow.expire_time, "keep_until"))
        return actions

    def _write(self, condition: Condition, *actions: Action) -> PreparedWrite:
        return PreparedWrite(self.table, condition=condition, actions=actions, return_values=ALL_NEW)

    def _shape(self, key: tuple[object, ...], render: Callable[[], PreparedWrite]) -> PreparedWrite:
        """Return the write of that shape, rendered when it is first wanted: blocks change few sets of attributes."""
        write = self._shapes.get(key)
        if write is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            write = self._shapes[key] = render()
        return write


_ERRORS = (
    fill(TaskRow.errors, "errors"),
    fill(TaskRow.last_error, "last_error"),
)


def get(model: type[T], task_id: str, *, until: datetime | None = None) -> T | None:
    """Read a task, strongly consistent; None where there is none, a TaskError where nothing can be decided by it."""
    request = {"Key": model.tracker.key(task_id), "ConsistentRead": True}
    item = send(model.tracker.connection(), "GetItem", request, until=until).get("Item")
    return decidable(load_leniently(model, item)) if item else None
