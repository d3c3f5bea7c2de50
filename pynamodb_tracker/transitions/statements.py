"""The write of each transition of a step: condition and update, rendered once per step."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property, reduce
from operator import and_
from typing import Any, TypeVar

from pynamodb.attributes import Attribute
from pynamodb.constants import MAP
from pynamodb.exceptions import PynamoDBConnectionError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path
from pynamodb.expressions.update import Action

from pynamodb_tracker.dynamodb.connection import Item, send
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.model.changes import Changes
from pynamodb_tracker.model.row import FORMAT, Membership, TaskRow, check_tracker_attributes, load
from pynamodb_tracker.status import END
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.ending import PARTS, Ending
from pynamodb_tracker.transitions.prepared import PreparedWrite, fill, slot
from pynamodb_tracker.transitions.step_writes import StepWrites, rendered_once, user_actions

T = TypeVar("T", bound=TaskRow)

_PAST_THE_END = 9999
"""SET of an element beyond the end of a list appends it. A finish shortens the list; only dead claims extend it."""


class StepStatements(StepWrites[T]):
    """The writes of one step of one use case."""

    def first_claim(self, *, with_payload: bool) -> PreparedWrite:
        """Return the first request of a run."""
        return self.claim_with_payload if with_payload else self.claim

    @cached_property
    def claim(self) -> PreparedWrite:
        """Take a task that waits, or whose lock has expired: the first request of every run."""
        return self._write(self._startable(), *self._taking())

    @cached_property
    def claim_with_payload(self) -> PreparedWrite:
        """The same, if the payload is the one that the step was first started with."""
        return self._with_payload(self._startable(), *self._taking())

    @rendered_once
    def shut_out(self, *, has_token: bool) -> PreparedWrite:
        """Raise the token of a task that no worker holds, so that a claim still on its way is refused."""
        condition = when.seen() & when.lock_seen(is_there=has_token)
        return PreparedWrite(self.table, condition=condition, actions=[fill(TaskRow.lock, "token")])

    @rendered_once
    def claim_from(self, code: int, *, with_payload: bool = False) -> PreparedWrite:
        """Take a task from exactly that state, as the first attempt of this step."""
        condition = when.at(code) & when.due() & when.later_token() & when.known_format()
        taking = self._taking(TaskRow.attempt.set(1))
        if code == END:
            taking += [fill(TaskRow.round, "token"), TaskRow.waits.remove(), TaskRow.wait_until.remove()]
        return self._with_payload(condition, *taking) if with_payload else self._write(condition, *taking)

    @rendered_once
    def succeed(self, changes: Changes, ending: Ending | None = None) -> PreparedWrite:
        """Finish with success, together with what the block changed."""
        return self._succeed(changes, ending)

    @rendered_once
    def commit(self, changes: Changes, ending: Ending | None = None) -> PreparedWrite:
        """Finish with success as part of a transaction; after a `settle`, no late copy of it is applied."""
        return self._succeed(changes, ending, fill(TaskRow.saves, "saves"), also=when.later_save())

    @cached_property
    def check(self) -> PreparedWrite:
        """Check in a transaction that the lock is held; it counts as a save, so that it leaves a trace in the row."""
        condition = when.mine(self.codes) & when.later_save()
        return PreparedWrite(self.table, condition=condition, actions=[fill(TaskRow.saves, "saves")])

    @cached_property
    def fail(self) -> PreparedWrite:
        """Finish with a failure after which another attempt is allowed."""
        return self._finish(self.codes.failed, *_ERRORS)

    @rendered_once
    def give_up(self, *, expires: bool = True, ending: Ending | None = None) -> PreparedWrite:
        """Finish with a failure after which the task is ignored, or with its ending, if it has one.

        It gets no time to live unless it `expires`.
        """
        code, actions = self.codes.ignored, list(_ERRORS)
        if ending is not None:
            code, actions = ending.code, [*_ERRORS, *self._next_round(ending)]
        return self._finish(code, *actions, expires=expires)

    @cached_property
    def release(self) -> PreparedWrite:
        """Finish without a result, as if the attempt had not started."""
        return self._finish(self.codes.pending, fill(TaskRow.release_count, "release_count"))

    @cached_property
    def extend(self) -> PreparedWrite:
        """Extend the lock; writes no indexed attribute."""
        expire = fill(TaskRow.lock_expire_time, "expire")
        return PreparedWrite(self.table, condition=when.mine(self.codes) & when.grows(), actions=[expire])

    @rendered_once
    def save(self, changes: Changes) -> PreparedWrite:
        """Store what the block changed so far; writes no indexed attribute."""
        condition = when.mine(self.codes) & when.later_save()
        actions = [fill(TaskRow.saves, "saves"), *user_actions(changes)]
        return PreparedWrite(self.table, condition=condition, actions=actions)

    @cached_property
    def settle(self) -> PreparedWrite:
        """Count a save that stores nothing: late copies of earlier saves are refused after it. Returns the row."""
        return self._write(when.mine(self.codes) & when.later_save(), fill(TaskRow.saves, "saves"))

    @cached_property
    def keep_out(self) -> PreparedWrite:
        """Count a save that stores nothing, unless the row has counted another one since it was read."""
        condition = when.mine(self.codes) & when.saves_seen()
        return PreparedWrite(self.table, condition=condition, actions=[fill(TaskRow.saves, "saves")])

    @rendered_once
    def spend(self, *, expires: bool = True) -> PreparedWrite:
        """Ignore a runnable task that has no attempt left."""
        return self._set_aside(when.as_read(), expires=expires)

    @rendered_once
    def spend_abandoned(self, *, expires: bool = True) -> PreparedWrite:
        """Ignore an abandoned task that has no attempt left; its fence stays in `unfinished`."""
        condition = when.as_read() & when.lock_expired()
        return self._set_aside(condition, expires=expires)

    @rendered_once
    def skip(self, ending: Ending, *, abandoned: bool, has_asked: bool) -> PreparedWrite:
        """Let a task that has no attempt left begin its next round, as its ending says; a fence stays in `unfinished`.

        Its turn depends on its rule, which a merge may change.
        """
        condition = when.as_read() & when.asked_as_seen(is_there=has_asked)
        if abandoned:
            condition &= when.lock_expired()
        actions = [*self._moves(ending.code), *_ERRORS, fill(TaskRow.lock, "token"), TaskRow.attempt.set(0)]
        return self._write(condition & when.known_format(), *actions, *self._next_round(ending))

    @rendered_once
    def reopen(
        self,
        *,
        kept: bool,
        recorded: bool,
        has_errors: bool = False,
        is_read: bool = False,
        parked: bool = False,
        ending: Ending | None = None,
        has_asked: bool = False,
        membership: Membership = Membership.NONE,
    ) -> PreparedWrite:
        """Give a task a fresh set of attempts; if it is to be `recorded`, append to `errors` who did it.

        If it `has_errors`, the append needs no if_not_exists, which no statement of PartiQL can express.
        The next start may have another payload. If the row `is_read`, it has to be that of the same task: the values
        that follow were taken from it. A task that waits for others is `parked`: it goes on waiting.
        A task with a time to live is reopened only if it is `kept`: its overflow chunks have one, too, until `keep`.
        One that repeats has an ending, which says for which turn it is pending.
        """
        condition = when.at(self.codes.failed, self.codes.ignored) & when.later_token()
        condition &= when.waits_for_others() if parked else when.waits_for_none()
        condition &= when.has_no_rule() if ending is None else when.asked_as_seen(is_there=has_asked)
        condition &= when.membership_seen(membership)
        parts = [action for part in ending.parts for action in PARTS[part]()[1]] if ending else []
        if is_read:
            condition &= when.same_life()
        if has_errors:
            condition &= TaskRow.errors.exists()
        return self._reopen(condition, *parts, kept=kept, recorded=recorded, has_errors=has_errors)

    @rendered_once
    def enter_again(self, *, kept: bool, recorded: bool, has_turn: bool, waits: bool) -> PreparedWrite:
        """Give an ignored task of a group a fresh set of attempts, at the end of the queue.

        It goes on to wait for other tasks if it `waits`.
        """
        condition = when.at(self.codes.ignored) & when.later_token()
        condition &= when.waits_seen(is_there=waits) & when.membership_seen(Membership.ENDED) & when.same_life()
        entering = [fill(TaskRow.group_number, "number")]
        if not has_turn:
            entering += [fill(TaskRow.starts, "starts"), fill(TaskRow.waits, "waits")]
        return self._reopen(condition, *entering, kept=kept, recorded=recorded)

    def _reopen(
        self, condition: Condition, *also: Action, kept: bool, recorded: bool, has_errors: bool = False
    ) -> PreparedWrite:
        if not kept:
            condition &= when.has_no_time_to_live()
        condition &= when.known_format()
        actions = [*self._moves(self.codes.pending), fill(TaskRow.lock, "token"), TaskRow.attempt.set(0)]
        if recorded and has_errors:
            added: Any = slot(TaskRow.errors, "entry_map", MAP)
            actions.append(Path(TaskRow.errors)[_PAST_THE_END].set(added))
        elif recorded:
            actions.append(TaskRow.errors.set((TaskRow.errors | []).append(slot(TaskRow.errors, "entry"))))
        actions += [TaskRow.release_count.remove(), TaskRow.expire_time.remove(), self.payload.remove(), *also]
        return self._write(condition, *actions)

    @cached_property
    def revoke(self) -> PreparedWrite:
        """Release a task that another worker holds; its attempt stays counted, and its fence in `unfinished`.

        The later token refuses late copies of claims that were refused while that worker held the task.
        """
        moves = [*self._moves(self.codes.pending), fill(TaskRow.errors, "errors"), fill(TaskRow.lock, "token")]
        return self._write(when.held_as_seen(self.codes) & when.known_format(), *moves)

    @rendered_once
    def ignore(self, *, expires: bool = True, membership: Membership = Membership.NONE) -> PreparedWrite:
        """Ignore a task by command; one that waits for its turn in a group waits no longer."""
        free = when.at(self.codes.pending, self.codes.failed) | when.abandoned(self.codes)
        condition = when.as_read() & free & when.later_token() & when.membership_seen(membership)
        leaving: list[Action] = []
        if membership in {Membership.QUEUE, Membership.QUEUE_AND_OTHERS}:
            waits = TaskRow.waits.remove() if membership is Membership.QUEUE else fill(TaskRow.waits, "others")
            leaving = [TaskRow.starts.remove(), waits]
        return self._set_aside(condition, *leaving, expires=expires)

    @rendered_once
    def cancel(self, *, expires: bool = True) -> PreparedWrite:
        """Ignore a task that another worker holds; its fence stays in `unfinished`."""
        return self._set_aside(when.held_as_seen(self.codes), expires=expires)

    def merge(self, how: str, stored: Item, changes: Changes, *, moves_due: bool = False) -> PreparedWrite:
        """Store what is asked for in the row as it was read: in its attributes, in `again`, or as a new round.

        `stored` is that row; the write depends on which attributes it had.
        """
        before = [next(iter(stored.get(attribute.attr_name, ())), None) for attribute, _ in changes.values()]
        has = ("asked" in stored, "again" in stored)
        return self._merge(how, changes, tuple(before), has, moves_due=moves_due)

    @rendered_once
    def _merge(
        self,
        how: str,
        changes: Changes,
        before: tuple[str | None, ...],
        has: tuple[bool, bool],
        *,
        moves_due: bool,
    ) -> PreparedWrite:
        has_asked, has_again = has
        actions = [fill(TaskRow.asked, "asked"), fill(TaskRow.asked_by, "asked_by"), *user_actions(changes)]
        if how == "again":
            condition = when.keeps_asked() if has_again else when.cannot_take(self.codes)
            actions += [fill(TaskRow.again, "again"), TaskRow.format_version.set(FORMAT)]
        elif how == "anew":
            condition = when.at(END) & when.later_token()
            actions += self._new_round()
        else:
            condition = when.can_take(self.codes)
        if moves_due:
            condition &= when.at(self.codes.pending) & when.due_as_seen()
            actions.append(fill(TaskRow.due_time, "due"))
        condition &= when.asked_as_seen(is_there=has_asked) & when.same_life()
        for (name, (attribute, _)), kind in zip(changes.items(), before, strict=True):
            condition &= when.value_seen(attribute, name, kind)
        return self._write(condition & when.known_format(), *actions)

    def _new_round(self) -> list[Action]:
        """Return what makes a task that has succeeded pending at this step, its first one."""
        left: tuple[Attribute[Any], ...] = (TaskRow.again, TaskRow.expire_time, TaskRow.release_count, TaskRow.waits)
        return [
            *self._moves(self.codes.pending),
            fill(TaskRow.lock, "token"),
            fill(TaskRow.round, "token"),
            TaskRow.attempt.set(0),
            TaskRow.format_version.set(FORMAT),
            *(attribute.remove() for attribute in (*left, TaskRow.wait_until, *self.payloads())),
        ]

    def _startable(self) -> Condition:
        startable = when.runnable(self.codes) | when.abandoned(self.codes)
        condition: Condition = startable & when.under_limit() & when.later_token() & when.known_format()
        return condition

    def _with_payload(self, condition: Condition, *taking: Action) -> PreparedWrite:
        return self._write(condition & when.same_payload(self.payload), *taking, fill(self.payload, "payload"))

    def _taking(self, attempt: Action | None = None) -> list[Action]:
        return [
            *self._moves(self.codes.in_progress),
            attempt or TaskRow.attempt.set(TaskRow.attempt + 1),
            fill(TaskRow.lock_expire_time, "due"),
            fill(TaskRow.lock, "token"),
            fill(TaskRow.worker, "worker"),
            TaskRow.fence.set(TaskRow.fence + 1),
            Path(TaskRow.unfinished)[_PAST_THE_END].set(TaskRow.fence + 1),
            TaskRow.saves.set(0),
            TaskRow.expire_time.remove(),
        ]

    def _succeed(
        self, changes: Changes, ending: Ending | None, *actions: Action, also: Condition | None = None
    ) -> PreparedWrite:
        code, names = self.codes.succeeded, ["nothing asked"] if self.codes.succeeded == END else []
        if ending is not None:
            code, names = ending.code, ending.parts
        parts = [PARTS[name]() for name in names]
        guards = [guard for guards, _ in parts for guard in guards]
        own = [TaskRow.last_error.remove(), TaskRow.release_count.remove(), *actions]
        own += [action for _, actions in parts for action in actions]
        if "starts over" in names:
            own += [payload.remove() for payload in self.payloads()]
        also_guards = [*guards, *([] if also is None else [also])]
        expires = ending is None or ending.expires
        return self._finish(code, *own, *user_actions(changes), also=also_guards, expires=expires)

    def _next_round(self, ending: Ending) -> list[Action]:
        """Return what a task gets that begins its next round after a failure, beyond the move."""
        parts = [action for part in ending.parts for action in PARTS[part]()[1]]
        return [TaskRow.release_count.remove(), *(payload.remove() for payload in self.payloads()), *parts]

    def _finish(
        self, code: int, *actions: Action, also: Sequence[Condition] = (), expires: bool = True
    ) -> PreparedWrite:
        moves = [
            *self._moves(code, expires=expires),
            fill(TaskRow.attempt, "attempt"),
            fill(TaskRow.unfinished, "unfinished"),
        ]
        condition = reduce(and_, also, when.mine(self.codes))
        return PreparedWrite(self.table, condition=condition, actions=[*moves, *actions])

    def _set_aside(self, condition: Condition, *actions: Action, expires: bool) -> PreparedWrite:
        token = fill(TaskRow.lock, "token")  # a later token: otherwise the late copy of a refused reopen could undo it
        moves = self._moves(self.codes.ignored, expires=expires)
        return self._write(condition & when.known_format(), *moves, *_ERRORS, token, *actions)


_ERRORS = (
    fill(TaskRow.errors, "errors"),
    fill(TaskRow.last_error, "last_error"),
)


def get(model: type[T], task_id: str, *, until: datetime | None = None) -> T | None:
    """Read a task, strongly consistent; None if there is none, a TaskError if the tracker's attributes are damaged."""
    request = {"Key": model.tracker.key(task_id), "ConsistentRead": True}
    item = send(model.tracker.table.connection(), "GetItem", request, until=until).get("Item")
    return loaded(model, item) if item else None


def loaded(model: type[T], item: Item) -> T:
    """Return the task of an item that was read; a TaskError if the tracker's attributes are damaged."""
    return check_tracker_attributes(load(model, item))


def raise_if_damaged(model: type[T], task_id: str, error: PynamoDBConnectionError) -> None:
    """Raise a TaskError if an update was invalid because the tracker's attributes in the row are damaged."""
    if is_invalid(error):
        get(model, task_id)
