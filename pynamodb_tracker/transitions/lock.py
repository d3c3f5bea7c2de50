"""A claim that was won: what every later write of the run is guarded by."""

from __future__ import annotations

import threading
from copy import copy
from datetime import UTC, datetime
from typing import Generic, TypeVar

from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.failure import Failure
from pynamodb_tracker.model.overflow import Pointer, other_slot, pointer_in
from pynamodb_tracker.model.row import Changes, TaskRow, saved, stored_row
from pynamodb_tracker.transitions.pending_success import Promise

__all__ = ["Lock"]

T = TypeVar("T", bound=TaskRow)

_UNKNOWN = datetime.fromtimestamp(0, UTC)
"""Stands for a time of creation that cannot be read; the attempt fails then."""


class Lock(Generic[T]):
    """The lock of one run; `task` is the row as it was claimed, which the block then changes."""

    # No dataclass: a cold start would pay for the making of it.

    def __init__(self, task: T, token: str) -> None:
        self.task = task
        self.token = token
        """What the row's `lock` must still be, for anything of this run to be recorded."""
        values = task.attribute_values  # some of which nobody may be able to read: then the attempt fails
        self.expire_time: datetime = values["lock_expire_time"]
        """Until when this worker may believe that it holds the task; `extended` moves it."""
        self.attempt: int = values.get("attempt") or 1
        """Which attempt of the step this is, from 1."""
        *earlier, fence = values.get("unfinished") or [values.get("fence") or 0]
        self.fence: int = fence
        """Which claim of the task this is; it only grows, so that a later holder is known by a higher number."""
        self.unfinished: list[int] = earlier
        """Fences of earlier claims that never finished."""
        self.create_time: datetime = values.get("create_time", _UNKNOWN)
        """When the task was created: one that was deleted and created again since is another one."""
        self.saves = 0
        """How many saves of this run were sent."""
        self.writing = threading.RLock()
        """Saves, transactions and the end of the block go one after the other, whatever threads they are of."""
        self.slot = _slot_of(task)
        """Where the row points to for its data; None where the data is in the row."""
        self.unsure: tuple[Changes, Changes] | None = None
        """What a save changed that got no answer, and as it was sent: it may have been applied, or may be yet."""
        self.success: tuple[Changes, Changes] | None = None
        """What the success changes, and as it is sent: the same again, where the finish is sent again."""
        self.failure: tuple[Failure, Pointer | None] | None = None
        """The failure that is recorded, and where it lies: the same again, where the finish is sent again."""
        self.promise: Promise | None = None
        """Whether a transaction is to record the success."""
        self.ended = False
        """Whether the block has ended, or its success is on record: from then on this lock writes nothing."""
        self.lost: LockLostError | None = None
        """The row's proof that another one has the task, or had; it stays."""
        self.extending = threading.Lock()
        """The block and its heartbeat may extend at the same time."""

    def extended(self, expire_time: datetime) -> None:
        """Believe in the lock until then; never for less, whichever of two extensions is heard of last."""
        with self.extending:
            self.expire_time = max(self.expire_time, expire_time)
            self.task.attribute_values["lock_expire_time"] = self.expire_time

    def lose(self, proof: LockLostError) -> None:
        """Note that the row has proved the lock lost: it is gone, or its token is another one.

        What comes back after the block, or while a transaction records the success, proves nothing: the run itself has
        ended then.
        """
        found = proof.task
        ending = self.ended or (self.promise is not None and self.promise.sent is not None)
        if not ending and self.lost is None and (found is None or found.lock != self.token):
            self.lost = _again(proof)

    def mourn(self, proof: LockLostError) -> None:
        """Note that the end of the run was refused."""
        self.lost = _again(proof)

    def check(self) -> None:
        """Raise LockLostError, with the message and the row of the proof, once the lock is known to be lost."""
        if self.lost is not None:
            raise _again(self.lost)

    @property
    def free_slot(self) -> str:
        """The slot for the next version of the data."""
        return other_slot(self.slot)

    def stored(self, changes: Changes, sent: Changes) -> None:
        """Count these changes as stored, and the pointer in them as the row's."""
        self.unsure = None
        if changes:
            saved(self.task, changes, sent)
            self.slot = _slot_of(self.task)


def _slot_of(task: TaskRow) -> str | None:
    pointer = pointer_in(stored_row(task))
    return pointer.slot if pointer else None


def _again(proof: LockLostError) -> LockLostError:
    """Return a proof for one more raise: without its notes, and its traceback, which keeps the frames of a block."""
    fresh = copy(proof)
    vars(fresh).pop("__notes__", None)
    return fresh
