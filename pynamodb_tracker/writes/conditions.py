"""The guards of the lock protocol as named parts of a condition; docs/explanation/lock.md has the reason for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce, wraps
from operator import and_
from typing import Any, NamedTuple, ParamSpec

from pynamodb.attributes import UnicodeAttribute
from pynamodb.expressions.condition import Condition

from pynamodb_tracker.model.row import LATEST_FORMAT, Membership, TaskRow, membership_of
from pynamodb_tracker.status import Codes
from pynamodb_tracker.writes.prepared import slot

P = ParamSpec("P")


class Guard(NamedTuple):
    """A named part of a condition, which is built when a write is rendered; equal to another one of the same parts."""

    part: Callable[..., Condition]
    given: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]

    @property
    def condition(self) -> Condition:
        """The condition in PynamoDB's form, with slots for its values."""
        return self.part(*self.given, **dict(self.options))


def guard(part: Callable[P, Condition]) -> Callable[P, Guard]:
    """Let a function that builds a condition return that as a guard."""

    @wraps(part)
    def named(*given: P.args, **options: P.kwargs) -> Guard:
        return Guard(part, given, tuple(options.items()))

    return named


def all_of(guards: Iterable[Guard]) -> Condition:
    """Return the condition that all of these hold, in their order."""
    return reduce(and_, (guard.condition for guard in guards))


@guard
def at(*codes: int) -> Condition:
    """Require that the status is one of these."""
    return TaskRow.status == codes[0] if len(codes) == 1 else TaskRow.status.is_in(*codes)


@guard
def due() -> Condition:
    """Require that the task is due; a start by id may be early by the margin, because clocks differ."""
    return TaskRow.due_time <= slot(TaskRow.due_time, "now_plus_margin")


@guard
def lock_expired() -> Condition:
    """Require that the lock has expired for every clock within the margin."""
    return TaskRow.lock_expire_time < slot(TaskRow.lock_expire_time, "now_minus_margin")


@guard
def known_format() -> Condition:
    """Require that this version knows the row's format."""
    return TaskRow.format_version <= LATEST_FORMAT


@guard
def runnable(codes: Codes) -> Condition:
    """Require that no worker holds the task, and that it is due."""
    return at(codes.pending, codes.failed).condition & due().condition


@guard
def abandoned(codes: Codes) -> Condition:
    """Require that a worker held the task, and that its lock has expired."""
    return at(codes.in_progress).condition & lock_expired().condition


@guard
def startable(codes: Codes) -> Condition:
    """Require that no worker holds the task, or will: it is runnable, or abandoned."""
    return runnable(codes).condition | abandoned(codes).condition


@guard
def free(codes: Codes) -> Condition:
    """Require that no worker holds the task: it is pending or failed at this step, or abandoned."""
    return at(codes.pending, codes.failed).condition | abandoned(codes).condition


@guard
def under_limit() -> Condition:
    """Require that an attempt is left; as a condition, so that no claim has to be undone by a second write."""
    return TaskRow.attempt < slot(TaskRow.attempt, "max_attempts")


@guard
def later_token() -> Condition:
    """Require that no later claim or command has written the row: late copies of an applied request are refused."""
    return TaskRow.lock.does_not_exist() | (TaskRow.lock < slot(TaskRow.lock, "lock"))


@guard
def mine(codes: Codes) -> Condition:
    """Require that the claim of this run still holds the task."""
    return (TaskRow.lock == slot(TaskRow.lock, "lock")) & at(codes.in_progress).condition


@guard
def held_as_seen(codes: Codes) -> Condition:
    """Require that the task is in progress by the claim that was read: a later claim is never released with it."""
    return (TaskRow.lock == slot(TaskRow.lock, "seen_lock")) & at(codes.in_progress).condition


@guard
def same_payload(name: str) -> Condition:
    """Require that the step was not started with another payload before; a row without one accepts the first."""
    payload = UnicodeAttribute(attr_name=name)
    return payload.does_not_exist() | (payload == slot(payload, f"own {name}"))


@guard
def not_cancelled() -> Condition:
    """Require that no person has cancelled the task: only a reopen lets it start again."""
    return TaskRow.cancel_time.does_not_exist()


@guard
def no_request_pending() -> Condition:
    """Require that nobody has asked for another run of the task since this one began."""
    return TaskRow.queued.does_not_exist()


@guard
def requests_as_seen(*, is_there: bool = True) -> Condition:
    """Require that nobody has asked for another run since the row was read."""
    asked = TaskRow.request_count
    return asked == slot(asked, "seen_asked") if is_there else asked.does_not_exist()


@guard
def grows() -> Condition:
    """Require that the lock becomes longer: a late extension never shortens it."""
    return TaskRow.lock_expire_time < slot(TaskRow.lock_expire_time, "lock_expire_time")


@guard
def later_save() -> Condition:
    """Require that no later save of this run was applied: a late copy never restores old values."""
    return TaskRow.saves < slot(TaskRow.saves, "saves")


@guard
def saves_seen() -> Condition:
    """Require that the row has counted as many saves as when it was read."""
    return TaskRow.saves == slot(TaskRow.saves, "seen_saves")


@guard
def has_errors() -> Condition:
    """Require that the row has `errors`, to which an entry is appended."""
    return TaskRow.errors.exists()


@guard
def has_no_time_to_live() -> Condition:
    """Require that the row has no time to live; then its overflow chunks have none either."""
    return TaskRow.expire_time.does_not_exist()


@guard
def waits_for_none() -> Condition:
    """Require that the task waits for no other task."""
    return TaskRow.blockers.does_not_exist()


@guard
def waits_for_signals() -> Condition:
    """Require that the task awaits signals: the last of them makes it due."""
    return TaskRow.awaited_signals.exists()


@guard
def waits_for_others() -> Condition:
    """Require that the task waits for other tasks: the last of them makes it due."""
    return TaskRow.blockers.exists()


@guard
def same_round() -> Condition:
    """Require that the task was not started over, or deleted and created again, since it was referred to."""
    token = slot(TaskRow.round, "seen_round")
    return (TaskRow.round == token) | (TaskRow.round.does_not_exist() & (TaskRow.creation == token))


@guard
def has_no_rule() -> Condition:
    """Require that the task does not repeat: otherwise its next occurrence is computed from the row."""
    return TaskRow.repeat.does_not_exist()


@guard
def membership_seen(membership: Membership) -> Condition:
    """Require that the task has not entered its group, or got its turn, since it was read.

    Each entry has a number of its own. A task that is in no group has none.
    """
    if membership is Membership.NONE:
        return TaskRow.group.does_not_exist()
    same: Condition = TaskRow.group_number == slot(TaskRow.group_number, "seen_number")
    if membership in {Membership.TURN, Membership.ENDED}:
        return same
    return same & TaskRow.turn_due_time.exists() & (TaskRow.blockers == slot(TaskRow.blockers, "seen_waits"))


@guard
def waits_seen(*, is_there: bool) -> Condition:
    """Require that the task waits for as many others as when it was read."""
    return TaskRow.blockers == slot(TaskRow.blockers, "seen_waits") if is_there else TaskRow.blockers.does_not_exist()


@guard
def parent_seen() -> Condition:
    """Require that the same task waits for this one as when it was read, by the same run."""
    return TaskRow.parent == slot(TaskRow.parent, "seen_parent")


@guard
def awaits_seen(*, is_there: bool) -> Condition:
    """Require that the task awaits the same signals as when it was read."""
    return (
        TaskRow.awaited_signals == slot(TaskRow.awaited_signals, "seen_awaits")
        if is_there
        else TaskRow.awaited_signals.does_not_exist()
    )


@guard
def urgent_seen(*, is_there: bool) -> Condition:
    """Require that the task is urgent, or not, as when it was read: its index key depends on that."""
    return TaskRow.urgent.exists() if is_there else TaskRow.urgent.does_not_exist()


@guard
def seen() -> Condition:
    """Require that status, fence and attempt are those that were read."""
    return (
        (TaskRow.status == slot(TaskRow.status, "seen_status"))
        & (TaskRow.fence == slot(TaskRow.fence, "seen_fence"))
        & (TaskRow.attempt == slot(TaskRow.attempt, "seen_attempt"))
    )


@guard
def lock_seen(*, is_there: bool) -> Condition:
    """Require that no claim or command has written the row since it was read, with a token or without one."""
    lock = TaskRow.lock
    return lock == slot(lock, "seen_lock") if is_there else lock.does_not_exist()


@guard
def same_life() -> Condition:
    """Require that the task was not deleted and created again since it was read."""
    return TaskRow.creation == slot(TaskRow.creation, "seen_creation")


@guard
def as_read() -> Condition:
    """Require that the row has not changed since it was read, and is of the same task."""
    return seen().condition & same_life().condition


def seen_values(row: TaskRow) -> dict[str, str]:
    """Return the values of the slots of `as_read`, and of `membership_seen` for the task of a group."""
    values = {
        "seen_status": str(row.status),
        "seen_fence": str(row.fence),
        "seen_attempt": str(row.attempt),
        "seen_creation": row.creation,
    }
    if membership_of(row) is not Membership.NONE:
        waits = row.blockers or 0
        values |= {"seen_number": str(row.group_number), "seen_waits": str(waits)}
    return values
