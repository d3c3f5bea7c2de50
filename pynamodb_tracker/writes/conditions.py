"""The lock protocol's guards, as named parts of conditions. docs/explanation/lock.md explains them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce, wraps
from operator import and_
from typing import Any, NamedTuple, ParamSpec

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.expressions.condition import Condition

from pynamodb_tracker.model.row import LATEST_FORMAT, Membership, TaskRow, membership_of
from pynamodb_tracker.status import END, Codes
from pynamodb_tracker.writes.prepared import slot

P = ParamSpec("P")


class Guard(NamedTuple):
    """A named part of a condition, built when a write is rendered."""

    part: Callable[..., Condition]
    given: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]

    @property
    def condition(self) -> Condition:
        """The condition in PynamoDB's form, with slots for its values."""
        return self.part(*self.given, **dict(self.options))


def guard(part: Callable[P, Condition]) -> Callable[P, Guard]:
    """Make a function that builds a condition return it as a guard."""

    @wraps(part)
    def named(*given: P.args, **options: P.kwargs) -> Guard:
        return Guard(part, given, tuple(options.items()))

    return named


def all_of(guards: Iterable[Guard]) -> Condition:
    """Join guards with AND."""
    return reduce(and_, (guard.condition for guard in guards))


def _equals_slot(attribute: Attribute[Any], name: str, *, is_there: bool = True) -> Condition:
    """Require the slot's value, or no value."""
    if not is_there:
        return attribute.does_not_exist()
    same: Condition = attribute == slot(attribute, name)
    return same


@guard
def has_status(*codes: int) -> Condition:
    """Require one of these statuses."""
    return TaskRow.status == codes[0] if len(codes) == 1 else TaskRow.status.is_in(*codes)


@guard
def is_due() -> Condition:
    """Require a due task, within the margin by which clocks differ."""
    return TaskRow.due_time <= slot(TaskRow.due_time, "now_plus_margin")


@guard
def lock_expired() -> Condition:
    """Require a lock that has expired on every clock within the margin."""
    return TaskRow.lock_expire_time < slot(TaskRow.lock_expire_time, "now_minus_margin")


@guard
def known_format() -> Condition:
    """Require a known row format."""
    return TaskRow.format_version <= LATEST_FORMAT


@guard
def runnable(codes: Codes) -> Condition:
    """Require a due task that no worker holds."""
    return has_status(codes.pending, codes.failed).condition & is_due().condition


@guard
def abandoned(codes: Codes) -> Condition:
    """Require a task in progress with an expired lock."""
    return has_status(codes.in_progress).condition & lock_expired().condition


@guard
def startable(codes: Codes) -> Condition:
    """Require a runnable or abandoned task."""
    return runnable(codes).condition | abandoned(codes).condition


@guard
def free(codes: Codes) -> Condition:
    """Require a task that no worker holds at this step."""
    return has_status(codes.pending, codes.failed).condition | abandoned(codes).condition


@guard
def under_limit() -> Condition:
    """Require an attempt to be left, which saves a second write that undoes the claim."""
    return TaskRow.attempt < slot(TaskRow.attempt, "max_attempts")


@guard
def later_token() -> Condition:
    """Require a later token than the row's. It blocks late copies of applied requests."""
    return TaskRow.lock.does_not_exist() | (TaskRow.lock < slot(TaskRow.lock, "lock"))


@guard
def held_by_run(codes: Codes) -> Condition:
    """Require that this run still holds the task."""
    return _equals_slot(TaskRow.lock, "lock") & has_status(codes.in_progress).condition


@guard
def held_as_seen(codes: Codes) -> Condition:
    """Require that the claim that was read still holds the task."""
    return _equals_slot(TaskRow.lock, "seen_lock") & has_status(codes.in_progress).condition


@guard
def same_payload(name: str) -> Condition:
    """Require the same payload, or a row without one."""
    payload = UnicodeAttribute(attr_name=name)
    return payload.does_not_exist() | _equals_slot(payload, f"own {name}")


@guard
def not_cancelled() -> Condition:
    """Require a task that nobody has cancelled."""
    return TaskRow.cancelled.does_not_exist()


@guard
def not_ended() -> Condition:
    """Require a task that has neither succeeded nor been cancelled."""
    return TaskRow.status < END


@guard
def no_request_pending() -> Condition:
    """Require that nobody has requested another run."""
    return TaskRow.queued.does_not_exist()


@guard
def requests_as_seen(*, is_there: bool = True) -> Condition:
    """Require that nobody has requested another run since the row was read."""
    return _equals_slot(TaskRow.request_count, "seen_asked", is_there=is_there)


@guard
def lock_grows() -> Condition:
    """Require a later expiry, so that a late extension cannot shorten the lock."""
    return TaskRow.lock_expire_time < slot(TaskRow.lock_expire_time, "lock_expire_time")


@guard
def later_save() -> Condition:
    """Require a later save than the row's, so that a late copy cannot restore old values."""
    return TaskRow.saves < slot(TaskRow.saves, "saves")


@guard
def saves_seen() -> Condition:
    """Require the number of saves that was read."""
    return _equals_slot(TaskRow.saves, "seen_saves")


@guard
def has_errors() -> Condition:
    """Require an `errors` list to append to."""
    return TaskRow.errors.exists()


@guard
def has_no_time_to_live() -> Condition:
    """Require a row, and so overflow chunks, without a time to live."""
    return TaskRow.expire_time.does_not_exist()


@guard
def waits_for_none() -> Condition:
    """Require a task that waits for no other task."""
    return TaskRow.blockers.does_not_exist()


@guard
def waits_for_signals() -> Condition:
    """Require a task that awaits signals."""
    return TaskRow.awaited_signals.exists()


@guard
def waits_for_others() -> Condition:
    """Require a task that waits for other tasks."""
    return TaskRow.blockers.exists()


@guard
def same_round() -> Condition:
    """Require the round that a callback names."""
    token = slot(TaskRow.round, "seen_round")
    return (TaskRow.round == token) | (TaskRow.round.does_not_exist() & (TaskRow.creation == token))


@guard
def has_no_rule() -> Condition:
    """Require a task that does not repeat, because its next occurrence depends on the row."""
    return TaskRow.repeat.does_not_exist()


@guard
def membership_seen(membership: Membership) -> Condition:
    """Require the membership that was read. Each entry into a group has a new number."""
    if membership is Membership.NONE:
        return TaskRow.group.does_not_exist()
    same = _equals_slot(TaskRow.group_number, "seen_number")
    if membership in {Membership.TURN, Membership.ENDED}:
        return same
    return same & TaskRow.turn_due_time.exists() & _equals_slot(TaskRow.blockers, "seen_waits")


@guard
def waits_seen(*, is_there: bool) -> Condition:
    """Require the number of blockers that was read."""
    return _equals_slot(TaskRow.blockers, "seen_waits", is_there=is_there)


@guard
def parent_seen() -> Condition:
    """Require the parent that was read."""
    return _equals_slot(TaskRow.parent, "seen_parent")


@guard
def awaits_seen(*, is_there: bool) -> Condition:
    """Require the awaited signals that were read."""
    return _equals_slot(TaskRow.awaited_signals, "seen_awaits", is_there=is_there)


@guard
def urgent_seen(*, is_there: bool) -> Condition:
    """Require the urgency that was read, because the index key depends on it."""
    return TaskRow.urgent.exists() if is_there else TaskRow.urgent.does_not_exist()


@guard
def state_seen() -> Condition:
    """Require the status, fence and attempt that were read."""
    return (
        _equals_slot(TaskRow.status, "seen_status")
        & _equals_slot(TaskRow.fence, "seen_fence")
        & _equals_slot(TaskRow.attempt, "seen_attempt")
    )


@guard
def lock_seen(*, is_there: bool) -> Condition:
    """Require the lock that was read."""
    return _equals_slot(TaskRow.lock, "seen_lock", is_there=is_there)


@guard
def same_life() -> Condition:
    """Require the same task, not a recreated one."""
    return _equals_slot(TaskRow.creation, "seen_creation")


@guard
def as_read() -> Condition:
    """Require an unchanged row of the same task."""
    return state_seen().condition & same_life().condition


def seen_values(row: TaskRow) -> dict[str, str]:
    """Return the slot values for `as_read`, and for `membership_seen` if the task is in a group."""
    values = {
        "seen_status": str(row.status),
        "seen_fence": str(row.fence),
        "seen_attempt": str(row.attempt),
        "seen_creation": row.creation,
    }
    if membership_of(row) is not Membership.NONE:
        values |= {"seen_number": str(row.group_number), "seen_waits": str(row.blockers or 0)}
    return values
