"""Cancelling a task at any step, together with the tasks that it waits for."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from pynamodb_tracker.features.children.joins import awaited_tasks, read_children
from pynamodb_tracker.features.groups.queue import Entrant, Groups
from pynamodb_tracker.model.cancelled import CancelRecord
from pynamodb_tracker.model.failure import Failure, add_note
from pynamodb_tracker.model.overflow import key_of_row
from pynamodb_tracker.model.references import parse
from pynamodb_tracker.model.row import Membership, TaskRow, membership_of
from pynamodb_tracker.model.status import CANCELLED, Codes, end_of
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.transitions.commands import Command, build_entry, has_entry
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes import refusals
from pynamodb_tracker.writes.participants import Action, Participant, Reason, send_though_busy
from pynamodb_tracker.writes.transition import ZERO, StepStatements, Transition, get, is_urgent

T_co = TypeVar("T_co", bound=TaskRow, covariant=True)

Child = tuple[str, str]  # use case and task id

MOST_ACTIONS = 100
"""Per transaction. A task needs one, two with its place in a group, or four with its turn."""
_TRIES = 8


class Cancel(NamedTuple):
    reason: str
    by: str | None
    children: bool
    go_to: Codes | None
    """The branch step to which the task itself moves, by default the use case's."""
    even_running: bool


@dataclass(frozen=True, slots=True)
class Cancellation(Generic[T_co]):
    """The effect of `cancel`."""

    task: T_co
    """The task afterwards."""
    effect: Literal["cancelled", "moved", "already_cancelled"]
    """`moved` if the task goes to a branch step first. A task that was already cancelled keeps its first reason."""
    running: bool
    """Whether a worker held the task, so its block may still be running."""
    blocked_parent: Child | None
    """The use case and id of a task that waits for this one to succeed, or None."""
    children: Sequence[Child] = ()
    """The use case and id of each task that was cancelled with it, or after it."""


class _Plan:
    """The plan for cancelling one task. Building it raises the reason why that is impossible."""

    def __init__(self, row: TaskRow, asked: Cancel, *, is_root: bool) -> None:
        self.row, self.key, now = row, _key(row), clock.now()
        here = _step_of(row)
        codes, branches = here.codes, (step._definition for step in type(row)._bound_steps.values())
        by_default = next((branch.codes for branch in branches if branch.declared.on_cancel), None)
        self.to: Codes | None = (asked.go_to if is_root else None) or by_default
        self.running = row.status == codes.in_progress and not refusals.is_abandoned(row, codes, now)
        if self.running and not asked.even_running:
            raise _running_error(row)
        self.membership = membership_of(row)
        self.member: Entrant | None = None
        """Set if the task enters its group again for the branch step."""
        if self.to is not None and self.membership is Membership.ENDED:
            self.member = Entrant(row.task_id, self.to.pending, row.creation, now)
        self.entry = build_entry("cancelled", row, codes.step, now, reason=asked.reason, by=asked.by)
        join = row.join_token if awaited_tasks(row) else None
        record = CancelRecord(codes.pending, now, self.entry.worker, self.entry.message, join)
        transition = build_cancel(row, codes, self.to, record)
        # A child that is cancelled with its parent blocks nobody.
        expires = True if not is_root and row.repeat is None else None
        self.command: Command[Any] = Command(here, transition, row, self.entry, expires=expires)

    @property
    def leaves(self) -> bool:
        """Whether the task gives up its turn or place in its group."""
        return self.to is None and self.membership not in {Membership.NONE, Membership.ENDED}

    @property
    def count(self) -> int:
        """The maximum number of actions."""
        return 4 if self.leaves or self.member else 1

    def action(self) -> Action:
        if (member := self.member) is not None:
            self.command.transition.add(**member.values)
        return self.command.action()


class _Rest(Participant):
    """Cancels a task's descendants in the same transaction."""

    def __init__(self, plans: Sequence[_Plan]) -> None:
        self._plans = plans

    def actions(self) -> Sequence[Action]:
        return [plan.action() for plan in self._plans]

    def handle_refusal(self, reasons: Sequence[Reason]) -> None:  # noqa: ARG002 - one of them is enough
        raise Refused(repeated=False)  # all tasks are read again


def cancel(model: type[Any], task_id: str, asked: Cancel) -> Cancellation[Any]:
    """Cancel a task, and its descendants if asked: in one transaction, or the deepest first if they do not fit.

    If the task is already cancelled, the descendants that are left follow it. An error has a note that names the
    cancelled tasks.
    """
    model.tracker.use_case  # noqa: B018 - a TypeError on the table class, which lacks steps
    meant, was_running, tries = None, False, 2 * len(model.tracker.steps) + _TRIES
    plans, done, sent = list[_Plan](), list[Child](), defaultdict[Child, list[Failure]](list)
    try:
        for _ in range(tries):
            row = refusals.check_found(model, get(model, task_id), task_id, "cancel")
            refusals.check_life(row, meant, "cancel")
            meant = row
            if any(has_entry(row, entry) for entry in sent[_key(row)]):  # a repeated request met its own success
                done += [each.key for each in plans if each.key not in done]
                return _cancellation(row, done, running=was_running, is_own=True)
            plans = [_Plan(row, asked, is_root=True)] if row.cancelled is None else []
            was_running = any(plan.running for plan in plans)
            for child in _descendants(row) if asked.children else ():
                if child.cancelled is None:
                    plans.append(_Plan(child, asked, is_root=False))
                elif _key(child) not in done and any(has_entry(child, entry) for entry in sent[_key(child)]):
                    done.append(_key(child))  # the response to its cancel was lost
            for plan in plans:
                sent[plan.key].append(plan.entry)
            is_own = row.cancelled is None
            send = _cancel_together if _can_share_transaction(plans) else _cancel_deepest_first
            found = send(plans, done) if plans else row
            if found is not None:
                return _cancellation(found if is_own else row, done, running=was_running, is_own=is_own)
    except (PynamoDBException, TrackerError) as error:
        if done:
            names = ", ".join(f"{use_case} {name!r}" for use_case, name in done)
            add_note(error, f"pynamodb_tracker: {len(done)} tasks are cancelled, and you can repeat the call: {names}")
        raise
    raise refusals.kept_changing_error(model, task_id, "cancel", tries)


def record_of_new(model: type[TaskRow]) -> Item:
    """Return the stored record for a task that is created as cancelled."""
    record = CancelRecord(model.tracker.steps[0].pending, clock.now(), this_worker(), "")
    return {"cancelled": {MAP: record.stored()}}


def _cancel_together(plans: Sequence[_Plan], done: list[Child]) -> Any:
    """Cancel tasks in one transaction. Return the first one, or None if a task has changed."""
    plan, *rest = plans
    if not rest and plan.member is None:
        found = plan.command.send()
        done += [] if found is None else [plan.key]
        return found
    groups = Groups()
    for each in plans:
        if each.leaves:
            groups.leave(each.row)
        if each.member:
            groups.change_of(type(each.row), each.row.group).entrants.append(each.member)
    participants = [groups, _Rest(rest)]
    try:
        unconfirmed = send_though_busy(plan.row.tracker.connection(), plan.action, participants)
    except Refused:
        return None
    if unconfirmed is not None:
        if unconfirmed.refused:
            return None
        if not (rest and is_invalid(unconfirmed.error)):
            raise unconfirmed.error
        return _cancel_deepest_first(plans, done)  # a row is too full for the reason
    done += [each.key for each in plans]
    found, *_ = [each.command.finish(each.command.load_after()) for each in plans]
    return found


def _cancel_deepest_first(plans: Sequence[_Plan], done: list[Child]) -> Any:
    """Cancel tasks one by one, the first one last. Return it, or None if a task has changed."""
    found = None
    for each in reversed(plans):
        if (found := _cancel_together([each], done)) is None:
            return None
    return found


def _can_share_transaction(plans: Sequence[_Plan]) -> bool:
    """Return whether one transaction, which writes each group's row only once, can cancel these tasks."""
    groups = [(plan.row.use_case_id, plan.row.group) for plan in plans if plan.row.group is not None]
    return sum(plan.count for plan in plans) <= MOST_ACTIONS and len({*groups}) == len(groups)


def _descendants(row: TaskRow) -> Iterator[TaskRow]:
    """Yield a task's children and their children, level by level. Raise TrackerError if one is missing."""
    level, seen = [row], {key_of_row(row)}  # in a damaged table, references may form a circle
    while level:
        # At a branch step, a cancelled task waits for children that undo its work.
        found = read_children([each for each in level if each.cancelled is None or not awaited_tasks(each)])
        level = []
        for (task_id, use_case), (children, unlisted, is_cut) in found.items():
            if unlisted or is_cut:
                waits = f"waits for {unlisted}" if unlisted else "is cancelled, and it may have waited for tasks"
                raise TaskNotReadyError(
                    f"cannot cancel {use_case} {task_id!r} with its children: it {waits} that no list names. Cancel "
                    "them by id",
                    task_id=task_id,
                )
            level += [child for child in children if key_of_row(child) not in seen]
        for child in level:
            seen.add(key_of_row(child))
            if child.cancelled is None and child.use_case_id not in child.tracker.table.use_cases:
                raise TrackerError(
                    f"cannot cancel {child.use_case_id} {child.task_id!r}: this program does not declare its use case"
                )
        yield from level


def _cancellation(row: Any, done: Sequence[Child], *, running: bool, is_own: bool) -> Cancellation[Any]:
    found = None
    if row.parent:
        with suppress(ValueError):  # a damaged reference, which `doctor --rows` reports
            found = parse(row.parent)
    effect: Literal["cancelled", "moved", "already_cancelled"] = "cancelled" if is_own else "already_cancelled"
    if is_own and row.cancelled is not None and end_of(row.status) is None:
        effect = "moved"
    children = tuple(key for key in done if key != _key(row))
    return Cancellation(row, effect, running, found and (found.use_case, found.task_id), children)


def _key(row: TaskRow) -> Child:
    return row.use_case_id, row.task_id


def _step_of(row: TaskRow) -> StepStatements[Any]:
    for step in type(row)._bound_steps.values():
        statements: StepStatements[Any] = step._definition.statements
        if row.status in statements.codes.own:
            return statements
    kind: type[TaskNotStartableError]
    kind, why = TaskNotStartableError, "this program declares no such step"
    if end_of(row.status):
        kind, why = TaskAlreadySucceededError, "it has ended"
    raise refusals.build_error(row, kind, "cancel", f"it is {row.tracker.name_of(row.status)}, and {why}")


def _running_error(row: TaskRow) -> TaskLockedError:
    then = "" if row.group is None else f", and the next task of group {row.group!r} starts"
    held = f"it is {row.tracker.name_of(row.status)}, attempt {row.attempt}, {refusals.describe_holder(row)}"
    advice = f"even_running=True takes it away from its worker, although its block may still run{then}"
    return refusals.build_error(row, TaskLockedError, "cancel", f"{held}. {advice}")


def build_cancel(row: TaskRow, codes: Codes, to: Codes | None, record: CancelRecord) -> Transition:
    """Cancel a task, or move it `to` a branch step that leads there, with its turn or place in its group."""
    held = row.status == codes.in_progress and not refusals.is_abandoned(row, codes, record.time)
    code, membership = CANCELLED if to is None else to.pending, membership_of(row)
    cancel = Transition("cancel running" if held else "cancel", code)
    if held:
        cancel.add(when.held_as_seen(codes), seen={"seen_lock": row.lock})
    else:
        cancel.add(when.as_read(), when.later_token(), when.membership_seen(membership), seen=when.seen_values(row))
        if row.status == codes.in_progress:
            cancel.add(when.lock_expired())
        if to is not None and row.tracker.lane_codes:
            cancel.add(when.urgent_seen(is_there=is_urgent(row)))
    until = codes.pending if to is None else min(codes.pending, to.pending)
    skipped = [number for number in row.skipped_steps or () if number < until]
    skipped += [each.pending for each in row.tracker.steps if codes.pending <= each.pending < code]
    cancel.add(cancelled=record, skipped_steps=skipped or None, blockers=None, awaited_signals=None, wait_until=None)
    if to is None:
        cancel.add(turn_due_time=None)
        return cancel
    cancel.add(attempt=ZERO, release_count=None, postpone_count=None, first_failure=None)
    if membership in {Membership.QUEUE, Membership.QUEUE_AND_OTHERS}:
        cancel.due = clock.NEVER
        cancel.add(blockers=1)
    return cancel
