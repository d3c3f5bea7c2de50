"""Cancelling a task at any step, with the tasks that it waits for, and reopening it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pynamodb.constants import MAP
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.exceptions import (
    TaskAlreadySucceededError,
    TaskLockedError,
    TaskNotReadyError,
    TaskNotStartableError,
    TrackerError,
)
from pynamodb_tracker.features.cancelling import cancel as cancelling
from pynamodb_tracker.features.children.child_list import children_of
from pynamodb_tracker.features.groups.queue import Groups
from pynamodb_tracker.features.groups.reentry import ReopenedMember
from pynamodb_tracker.model.cancelled import CancelRecord
from pynamodb_tracker.model.failure import Failure, add_note
from pynamodb_tracker.model.references import parse
from pynamodb_tracker.model.row import Membership, TaskRow, membership_of
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.status import Codes, end_of
from pynamodb_tracker.transitions.commands import Command, checked, entry_of, has_entry
from pynamodb_tracker.writes.participants import Action, Participant, Reason, send_though_busy
from pynamodb_tracker.writes.refusals import check_life, holder, is_abandoned, kept_changing
from pynamodb_tracker.writes.statements import StepStatements, get

T_co = TypeVar("T_co", bound=TaskRow, covariant=True)

Child = tuple[str, str]  # the use case and the id of a task

MOST_ACTIONS = 100
"""Of one transaction. A task is one of them, with its place in a group two, and with its turn four."""

_TRIES = 8


class Cancel(NamedTuple):
    """What a call of `cancel` asks for."""

    reason: str
    by: str | None
    children: bool
    go_to: Codes | None
    """The branch step to which the task itself moves, by default the one that its use case declares."""
    even_running: bool


@dataclass(frozen=True, slots=True)
class Cancellation(Generic[T_co]):
    """What a `cancel` did."""

    task: T_co
    """The task afterwards."""
    effect: Literal["cancelled", "moved", "already_cancelled"]
    """`moved` if a branch step leads the task to its end. A task that was cancelled before keeps its first reason."""
    running: bool
    """Whether a worker held the task, so that its block may still run."""
    blocked_parent: Child | None
    """The use case and the id of the task that waits for this one to succeed, or None."""
    children: Sequence[Child] = ()
    """The use case and the id of each task that was cancelled with it."""


class _Plan:
    """The cancelling of one task, as it was read."""

    def __init__(self, row: TaskRow, asked: Cancel, *, is_root: bool) -> None:
        """Raise the reason why the task cannot be cancelled."""
        self.row, self.key, now = row, (row.use_case_id, row.task_id), clock.now()
        here = _step_of(row)
        codes, self.to = here.codes, _go_to(row, asked.go_to if is_root else None)
        self.running = row.status == codes.in_progress and not is_abandoned(row, codes, now)
        if self.running and not asked.even_running:
            raise _is_running(row)
        self.membership = membership_of(row)
        self.member: ReopenedMember | None = None
        """A task whose turn has passed, and that enters its group again for the branch step."""
        if self.to is not None and self.membership is Membership.ENDED:
            self.member = ReopenedMember(row, self.to.pending, now)
        self.entry = entry_of("cancelled", row, codes.step, now, reason=asked.reason, by=asked.by)
        record = CancelRecord(codes.pending, now, self.entry.worker, self.entry.message)
        transition = cancelling(row, codes, self.to, record)
        # A child that is cancelled with its parent blocks nobody.
        expires = True if not is_root and row.repeat is None else None
        self.command: Command[Any] = Command(here, transition, row, self.entry, expires=expires)

    @property
    def leaves(self) -> bool:
        """Whether the task leaves its group, or its place in it."""
        return self.to is None and self.membership not in {Membership.NONE, Membership.ENDED}

    @property
    def count(self) -> int:
        """How many actions of a transaction cancel this task, at most."""
        return 4 if self.leaves or self.member else 1

    def action(self) -> Action:
        """Return the write as an action, after the group of a task that enters it was read."""
        if (member := self.member) is not None:
            due, turn, waits = member.turn_due_time, None, None
            if not member.has_turn:
                due, turn, waits = clock.NEVER, due, 1
            self.command.transition.add(group_number=member.number, due_time=due, turn_due_time=turn, blockers=waits)
        return self.command.action()


class _Rest(Participant):
    """Takes part in cancelling a task: its descendants are cancelled in the same transaction."""

    def __init__(self, plans: Sequence[_Plan]) -> None:
        self._plans = plans

    def actions(self) -> Sequence[Action]:
        """Return the write of each descendant."""
        return [plan.action() for plan in self._plans]

    def refused(self, reasons: Sequence[Reason]) -> None:  # noqa: ARG002 - one of them is enough
        """Read all tasks again, because one has changed."""
        raise Refused(repeated=False)


def cancel(model: type[Any], task_id: str, asked: Cancel) -> Cancellation[Any]:
    """Cancel a task, and its descendants if asked: all together if that fits into a transaction, or the deepest first.

    If a task has changed since it was read, all are read again. Raises what keeps the first task from being cancelled,
    with a note that says which ones are cancelled.
    """
    model.tracker.use_case  # noqa: B018 - a TypeError on the table class, which has no steps
    first, meant, was_running = _statements(model)[0], None, False
    rest, done, sent = list[_Plan](), list[Child](), list[Failure]()
    try:
        for _ in range(2 * len(model.tracker.steps) + _TRIES):
            row = checked(first, get(model, task_id), task_id, "cancel")
            check_life(row, meant, "cancel")
            meant = row
            is_own = any(has_entry(row, entry) for entry in sent)  # a repeated request met its own success
            if is_own or row.cancelled is not None:
                done += [each.key for each in rest if is_own and each.key not in done]
                return _cancellation(row, done, running=is_own and was_running, is_own=is_own)
            plan = _Plan(row, asked, is_root=True)
            rest = [_Plan(child, asked, is_root=False) for child in _descendants(row)] if asked.children else []
            sent.append(plan.entry)
            was_running = plan.running
            if _fit([plan, *rest]):
                found = _cancel_together(plan, rest, done)
            else:
                found = _cancel_deepest_first(plan, rest, done)
            if found is not None:
                return _cancellation(found, done, running=plan.running, is_own=True)
    except (PynamoDBException, TrackerError) as error:
        if done:
            names = ", ".join(f"{use_case} {name!r}" for use_case, name in done)
            add_note(error, f"pynamodb_tracker: {len(done)} are cancelled, and the call can be repeated: {names}")
        raise
    raise kept_changing(first, task_id, "cancel", _TRIES)


def record_of_new(model: type[TaskRow]) -> Item:
    """Return the stored record of a task that is created as cancelled."""
    record = CancelRecord(model.tracker.steps[0].pending, clock.now(), this_worker(), "")
    return {"cancelled": {MAP: record.stored()}}


def _cancel_together(plan: _Plan, rest: Sequence[_Plan], done: list[Child]) -> Any:
    """Cancel a task and its descendants in one transaction. Return the task, or None if one of them has changed."""
    if not rest and plan.member is None:
        return plan.command.send()
    participants = [_groups_of([plan, *rest]), _Rest(rest)]
    try:
        unapplied = send_though_busy(plan.row.tracker.connection(), plan.action, participants)
    except Refused:
        return None
    if unapplied is not None:
        if unapplied.refused:
            return None
        if not (rest and is_invalid(unapplied.error)):
            raise unapplied.error
        return _cancel_deepest_first(plan, rest, done)  # one of the rows has no room for the reason
    for each in rest:
        each.command.applied(each.command.loaded_after())
        done.append(each.key)
    return plan.command.applied(plan.command.loaded_after())


def _groups_of(plans: Sequence[_Plan]) -> Groups:
    groups = Groups()
    for plan in plans:
        if plan.leaves:
            groups.leave(plan.row)
        if plan.member:
            groups.of(type(plan.row), plan.row.group).entrants.append(plan.member)
    return groups


def _cancel_deepest_first(plan: _Plan, rest: Sequence[_Plan], done: list[Child]) -> Any:
    """Cancel the descendants one by one, and the task last. Return it, or None if one of them has changed."""
    for each in reversed(rest):
        if _cancel_together(each, (), done) is None:
            return None
        done.append(each.key)
    return _cancel_together(plan, (), done)


def _fit(plans: Sequence[_Plan]) -> bool:
    """Return whether one transaction can cancel these tasks. It writes each row once, also that of a group."""
    groups = [(plan.row.use_case_id, plan.row.group) for plan in plans if plan.row.group is not None]
    return sum(plan.count for plan in plans) <= MOST_ACTIONS and len({*groups}) == len(groups)


def _descendants(row: TaskRow) -> Iterator[TaskRow]:
    """Yield the tasks that a task waits for, and those that they wait for, each after the one that waits for it.

    Tasks that are cancelled already are left out. Raises TrackerError for children that no list names, and for those of
    use cases that this program does not declare.
    """
    level, seen = [row], {(row.task_id, row.use_case_id)}  # in a damaged table, references may form a circle
    while level:
        found = children_of(level)
        level = []
        for (task_id, use_case), (children, unlisted) in found.items():
            if unlisted:
                raise TaskNotReadyError(
                    f"cannot cancel {use_case} {task_id!r} with its children: it waits for {unlisted} that no list "
                    "names; cancel each of them by its id before",
                    task_id=task_id,
                )
            level += [child for child in children if child.cancelled is None]
        level = [child for child in level if (child.task_id, child.use_case_id) not in seen]
        for child in level:
            seen.add((child.task_id, child.use_case_id))
            if child.use_case_id not in child.tracker.table.use_cases:
                raise TrackerError(
                    f"cannot cancel {child.use_case_id} {child.task_id!r}: this program does not declare its use case"
                )
        yield from level


def _cancellation(row: Any, done: Sequence[Child], *, running: bool, is_own: bool) -> Cancellation[Any]:
    found = None
    if row.parent:
        with suppress(ValueError):  # a damaged reference names nobody; `doctor --rows` finds it
            found = parse(row.parent)
    effect: Literal["cancelled", "moved", "already_cancelled"] = "cancelled" if is_own else "already_cancelled"
    if is_own and row.cancelled is not None and end_of(row.status) is None:
        effect = "moved"
    return Cancellation(row, effect, running, found and (found.use_case, found.task_id), tuple(done))


def _statements(model: type[Any]) -> list[StepStatements[Any]]:
    return [step._definition.statements for step in model._bound_steps.values()]


def _step_of(row: TaskRow) -> StepStatements[Any]:
    """Return the step at which a task is, or raise the reason why there is none."""
    for statements in _statements(type(row)):
        if row.status in statements.codes.own:
            return statements
    kind, why = TaskNotStartableError, "no step has that"
    if end_of(row.status):
        kind, why = TaskAlreadySucceededError, "it has ended"
    what = f"cannot cancel {type(row).__name__} {row.task_id!r}: it is {row.tracker.name_of(row.status)}, and {why}"
    raise kind(what, task_id=row.task_id, task=row)


def _go_to(row: TaskRow, given: Codes | None) -> Codes | None:
    """Return the branch step to which a task moves, by default the one that its use case declares for that."""
    declared = (step for step in type(row)._bound_steps.values() if step._definition.declared.on_cancel)
    return given or next((step._definition.codes for step in declared), None)


def _is_running(row: TaskRow) -> TaskLockedError:
    then = "" if row.group is None else f", and the next task of group {row.group!r} then starts"
    return TaskLockedError(
        f"cannot cancel {type(row).__name__} {row.task_id!r}: it is {row.tracker.name_of(row.status)}, attempt "
        f"{row.attempt}, {holder(row)}; even_running=True takes it away, although its block may still run{then}",
        task_id=row.task_id,
        task=row,
    )


def reopen(model: type[Any], task_id: str, by: str | None, due_time: datetime | None, **options: bool) -> Any:
    """Reopen a task at the step at which it was cancelled, has failed or is ignored."""
    from pynamodb_tracker.transitions.reopening import reopen  # noqa: PLC0415 - few calls of this module need it

    model.tracker.use_case  # noqa: B018 - as above
    first = _statements(model)[0]
    row = checked(first, get(model, task_id), task_id, "reopen")
    cancelled = row.cancelled is not None and end_of(row.status) == "cancelled"
    at = row.cancelled.step if cancelled else row.status
    for statements in _statements(model):
        if at in statements.codes.own:
            return reopen(
                statements, task_id, by, due_time, found=row if cancelled else None, cancelled=cancelled, **options
            )
    why = "it has ended" if end_of(at) else f"this program declares no step {at}"
    raise TaskNotStartableError(
        f"cannot reopen {model.__name__} {task_id!r}: it is {row.tracker.name_of(row.status)}, and {why}",
        task_id=task_id,
        task=row,
    )
