"""A claim that was won: what every later write of the run is guarded by."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from pynamodb_tracker.model import TaskRow

__all__ = ["Lock"]

T = TypeVar("T", bound=TaskRow)


@dataclass(slots=True)
class Lock(Generic[T]):
    """The lock of one run; `task` is the row as it was claimed, which the block then changes."""

    task: T
    token: str
    """What the row's `lock` must still be, for anything of this run to be recorded."""
    expire_time: datetime
    """Until when this worker may believe that it holds the task; extensions move it."""
    attempt: int
    """Which attempt of the step this is, from 1."""
    fence: int
    """Which claim of the task this is; it only grows, so that a later holder is known by a higher number."""
    create_time: datetime
    """When the task was created: one that was deleted and created again since is another one."""
    unfinished: list[int]
    """Fences of earlier claims that never finished."""
    saves: int = 0
    """How many saves of this run were sent."""
    saving: threading.Lock = field(default_factory=threading.Lock)
    """Saves of several threads go one after the other: the last one is the last."""
    ended: bool = False
    """Whether the block has ended: from then on this lock writes nothing."""

    @classmethod
    def won(cls, task: T, token: str) -> Lock[T]:
        """Return the lock that a row shows, which was claimed with this token."""
        expire_time = task.lock_expire_time
        *earlier, fence = task.unfinished
        return cls(task, token, expire_time, task.attempt, fence, task.create_time, earlier)
