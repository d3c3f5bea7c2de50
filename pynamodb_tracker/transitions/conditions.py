"""The guards of the lock protocol as named parts of a condition; docs/explanation/lock.md has the reason of each."""

from __future__ import annotations

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path

from pynamodb_tracker.model.overflow import PIECE, VERSION
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Codes
from pynamodb_tracker.transitions.prepared import slot

__all__ = [
    "abandoned",
    "at",
    "due",
    "grows",
    "later_save",
    "later_token",
    "lock_is_over",
    "mine",
    "no_later_order",
    "no_later_version",
    "same_life",
    "saves_seen",
    "seen",
    "stays",
    "under_limit",
    "waiting",
]


def at(*codes: int) -> Condition:
    """Say that the status is one of these."""
    return TaskRow.status == codes[0] if len(codes) == 1 else TaskRow.status.is_in(*codes)


def due() -> Condition:
    """Say that the task may start: a little early rather than never, because clocks differ."""
    return TaskRow.due_time <= slot(TaskRow.due_time, "now_plus_margin")


def lock_is_over() -> Condition:
    """Say that the lock has ended for every clock within the margin."""
    return TaskRow.lock_expire_time < slot(TaskRow.lock_expire_time, "now_minus_margin")


def waiting(codes: Codes) -> Condition:
    """Say that nobody has it, and it is due."""
    return at(codes.pending, codes.failed) & due()


def abandoned(codes: Codes) -> Condition:
    """Say that somebody had it, and its lock is over."""
    return at(codes.in_progress) & lock_is_over()


def under_limit() -> Condition:
    """Say that an attempt is left: in the condition, so that a claim never needs a second write to take it back."""
    return TaskRow.attempt < slot(TaskRow.attempt, "max_attempts")


def later_token() -> Condition:
    """Say that no later order was given: a late copy of a request that was applied once is refused."""
    return TaskRow.lock.does_not_exist() | (TaskRow.lock < slot(TaskRow.lock, "token"))


def mine(codes: Codes) -> Condition:
    """Say that the claim of this run still holds the task."""
    return (TaskRow.lock == slot(TaskRow.lock, "token")) & at(codes.in_progress)


def grows() -> Condition:
    """Say that the lock becomes longer: a late extension shortens nothing."""
    return TaskRow.lock_expire_time < slot(TaskRow.lock_expire_time, "expire")


def later_save() -> Condition:
    """Say that no later save of this run was applied: a late copy puts nothing old back."""
    return TaskRow.saves < slot(TaskRow.saves, "saves")


def saves_seen() -> Condition:
    """Say that the row has counted as many saves as when it was read."""
    return TaskRow.saves == slot(TaskRow.saves, "seen_saves")


def no_later_version(version: str) -> Condition:
    """Say of a piece that no later holder of the task, and no later save, has written it, nor this one before."""
    there = Path(VERSION)
    return there.does_not_exist() | (there < version)


def no_later_order() -> Condition:
    """Say of a piece that it is there, and that no later claim or order has written it."""
    lock = TaskRow.lock
    return Path(PIECE).exists() & (lock.does_not_exist() | (lock <= slot(lock, "token")))


def stays() -> Condition:
    """Say that nothing deletes the row some day, and so nothing that lies beside it."""
    return TaskRow.expire_time.does_not_exist()


def seen() -> Condition:
    """Say that the row is as it was read."""
    return (
        (TaskRow.status == slot(TaskRow.status, "seen_status"))
        & (TaskRow.fence == slot(TaskRow.fence, "seen_fence"))
        & (TaskRow.attempt == slot(TaskRow.attempt, "seen_attempt"))
    )


def same_life() -> Condition:
    """Say that the task was not deleted and created again since it was read."""
    return TaskRow.create_time == slot(TaskRow.create_time, "seen_create_time")
