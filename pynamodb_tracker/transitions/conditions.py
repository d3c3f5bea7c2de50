"""The guards of the lock protocol as named parts of a condition; docs/explanation/lock.md has the reason for each."""

from __future__ import annotations

from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path

from pynamodb_tracker import clock
from pynamodb_tracker.model.overflow import CHUNK, VERSION
from pynamodb_tracker.model.row import FORMAT, Membership, TaskRow, membership_of
from pynamodb_tracker.model.row_state import readable_value
from pynamodb_tracker.status import END, Codes
from pynamodb_tracker.transitions.prepared import slot


def at(*codes: int) -> Condition:
    """Require that the status is one of these."""
    return TaskRow.status == codes[0] if len(codes) == 1 else TaskRow.status.is_in(*codes)


def due() -> Condition:
    """Require that the task is due; it may start early by the margin, because clocks differ."""
    return TaskRow.due_time <= slot(TaskRow.due_time, "now_plus_margin")


def lock_expired() -> Condition:
    """Require that the lock has expired for every clock within the margin."""
    return TaskRow.lock_expire_time < slot(TaskRow.lock_expire_time, "now_minus_margin")


def known_format() -> Condition:
    """Require that no later version of the library wrote the row in a format that this version would misread."""
    version = TaskRow.format_version
    return version.does_not_exist() | (version <= FORMAT)


def runnable(codes: Codes) -> Condition:
    """Require that no worker holds the task, and that it is due."""
    return at(codes.pending, codes.failed) & due()


def abandoned(codes: Codes) -> Condition:
    """Require that a worker held the task, and that its lock has expired."""
    return at(codes.in_progress) & lock_expired()


def under_limit() -> Condition:
    """Require that an attempt is left; as a condition, so that no claim has to be undone by a second write."""
    return TaskRow.attempt < slot(TaskRow.attempt, "max_attempts")


def later_token() -> Condition:
    """Require that no later claim or command has written the row: late copies of an applied request are refused."""
    return TaskRow.lock.does_not_exist() | (TaskRow.lock < slot(TaskRow.lock, "token"))


def mine(codes: Codes) -> Condition:
    """Require that the claim of this run still holds the task."""
    return (TaskRow.lock == slot(TaskRow.lock, "token")) & at(codes.in_progress)


def held_as_seen(codes: Codes) -> Condition:
    """Require that the task is in progress by the claim that was read: a later claim is never released with it."""
    return (TaskRow.lock == slot(TaskRow.lock, "seen_lock")) & at(codes.in_progress)


def same_payload(payload: Attribute[str]) -> Condition:
    """Require that the step was not started with another payload before; a row without one accepts the first."""
    return payload.does_not_exist() | (payload == slot(payload, "payload"))


def nothing_asked() -> Condition:
    """Require that nobody has asked for another run of the task since this one began."""
    return TaskRow.again.does_not_exist()


def asked_as_seen(*, is_there: bool = True) -> Condition:
    """Require that nobody has asked for another run since the row was read."""
    asked = TaskRow.asked
    return asked == slot(asked, "seen_asked") if is_there else asked.does_not_exist()


def can_take(codes: Codes) -> Condition:
    """Require that the task waits at this step, its first one, and that nothing asked for earlier waits for it."""
    return at(codes.pending, codes.failed, codes.ignored) & nothing_asked()


def cannot_take(codes: Codes) -> Condition:
    """Require that the task runs, or is past this step, its first one, and that nobody has asked since."""
    return ~at(codes.pending, codes.failed, codes.ignored, END) & nothing_asked()


def keeps_asked() -> Condition:
    """Require that what was asked for still waits for the success of the last step."""
    return TaskRow.again.exists() & (TaskRow.status < END)


def grows() -> Condition:
    """Require that the lock becomes longer: a late extension never shortens it."""
    return TaskRow.lock_expire_time < slot(TaskRow.lock_expire_time, "expire")


def later_save() -> Condition:
    """Require that no later save of this run was applied: a late copy never restores old values."""
    return TaskRow.saves < slot(TaskRow.saves, "saves")


def saves_seen() -> Condition:
    """Require that the row has counted as many saves as when it was read."""
    return TaskRow.saves == slot(TaskRow.saves, "seen_saves")


def no_later_version(version: str) -> Condition:
    """Require that this chunk was not written by a later holder of the task, a later save, or this save itself."""
    there = Path(VERSION)
    return there.does_not_exist() | (there < version)


def no_later_command() -> Condition:
    """Require that the chunk exists, and that no later claim or command has written it."""
    lock = TaskRow.lock
    return Path(CHUNK).exists() & (lock.does_not_exist() | (lock <= slot(lock, "token")))


def has_no_time_to_live() -> Condition:
    """Require that the row has no time to live; then its overflow chunks have none either."""
    return TaskRow.expire_time.does_not_exist()


def waits_for_none() -> Condition:
    """Require that the task waits for no other task."""
    return TaskRow.waits.does_not_exist()


def waits_for_others() -> Condition:
    """Require that the task waits for other tasks: the last of them makes it due."""
    return TaskRow.waits.exists()


def waits_for_more() -> Condition:
    """Require that the task waits for more than one task: the count of the last one has to make it due."""
    return TaskRow.waits > 1


def waits_for_one() -> Condition:
    """Require that the task waits for one task only; none is put or has ended since that was read."""
    return TaskRow.waits <= 1


def same_round(*, has_token: bool) -> Condition:
    """Require that the task was not started over, or deleted and created again, since it was referred to."""
    if not has_token:  # of a row from before creations had tokens
        return TaskRow.round.does_not_exist() & TaskRow.creation.does_not_exist()
    token = slot(TaskRow.round, "seen_round")
    return (TaskRow.round == token) | (TaskRow.round.does_not_exist() & (TaskRow.creation == token))


def status_seen() -> Condition:
    """Require that the status is the one that was read."""
    return TaskRow.status == slot(TaskRow.status, "seen_status")


def has_no_rule() -> Condition:
    """Require that the task does not repeat: otherwise its next occurrence is computed from the row."""
    return TaskRow.repeat.does_not_exist()


def membership_seen(membership: Membership) -> Condition:
    """Require that the task has not entered its group, or got its turn, since it was read.

    Each entry has a number of its own. A task that is in no group has none.
    """
    if membership is Membership.NONE:
        return TaskRow.group.does_not_exist()
    same: Condition = TaskRow.group_number == slot(TaskRow.group_number, "seen_number")
    if membership in {Membership.TURN, Membership.ENDED}:
        return same
    return same & TaskRow.starts.exists() & (TaskRow.waits == slot(TaskRow.waits, "seen_waits"))


def waits_seen(*, is_there: bool) -> Condition:
    """Require that the task waits for as many others as when it was read."""
    return TaskRow.waits == slot(TaskRow.waits, "seen_waits") if is_there else TaskRow.waits.does_not_exist()


def seen() -> Condition:
    """Require that status, fence and attempt are those that were read."""
    return (
        (TaskRow.status == slot(TaskRow.status, "seen_status"))
        & (TaskRow.fence == slot(TaskRow.fence, "seen_fence"))
        & (TaskRow.attempt == slot(TaskRow.attempt, "seen_attempt"))
    )


def lock_seen(*, is_there: bool) -> Condition:
    """Require that no claim or command has written the row since it was read, with a token or without one."""
    lock = TaskRow.lock
    return lock == slot(lock, "seen_lock") if is_there else lock.does_not_exist()


def same_life() -> Condition:
    """Require that the task was not deleted and created again since it was read."""
    creation, create_time = TaskRow.creation, TaskRow.create_time
    without_token = creation.does_not_exist() & (create_time == slot(create_time, "seen_create_time"))
    return (creation == slot(creation, "seen_creation")) | without_token


def as_read() -> Condition:
    """Require that the row is as it was read, and of the same task."""
    return seen() & same_life()


def due_as_seen() -> Condition:
    """Require that nobody has moved the due time since the row was read."""
    return TaskRow.due_time == slot(TaskRow.due_time, "seen_due")


def value_seen(attribute: Attribute[Any], name: str, kind: str | None) -> Condition:
    """Require that the attribute has the value of this type that was read, or none if it had none."""
    path = Path(attribute)
    return path.does_not_exist() if kind is None else path == slot(attribute, f"seen {name}", kind)


def life_seen(row: TaskRow) -> dict[str, str]:
    """Return the values of the slots of `same_life`; a row from before creations had tokens has none."""
    return {"seen_creation": row.creation or "", "seen_create_time": clock.stamp(row.create_time)}


def seen_values(row: TaskRow) -> dict[str, str]:
    """Return the values of the slots of `as_read`, and of `membership_seen` for the task of a group."""
    values = {
        "seen_status": str(row.status),
        "seen_fence": str(row.fence),
        "seen_attempt": str(row.attempt),
        **life_seen(row),
    }
    if membership_of(row) is not Membership.NONE:
        waits = readable_value(row, "waits") or 0
        values |= {"seen_number": str(row.group_number), "seen_waits": str(waits), "others": str(waits - 1)}
    return values
