"""The claim by which a run holds its task, the journal of what the run has done so far, and the tokens of claims.

Code that gets only the claim can extend it, but change nothing else of the run.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from itertools import count
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, TypeVar

from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.dynamodb.forking import in_forked_process
from pynamodb_tracker.exceptions import LockLostError, address_of
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.model.changes import Changes, mark_saved, read_again
from pynamodb_tracker.model.failure import Failure
from pynamodb_tracker.model.overflow import free_slot
from pynamodb_tracker.model.row import TaskRow, readable
from pynamodb_tracker.writes.participants import MadeDue, Participant
from pynamodb_tracker.writes.statements import StepStatements
from pynamodb_tracker.writes.transition import Transition

T = TypeVar("T", bound=TaskRow)

_UNKNOWN = datetime.fromtimestamp(0, UTC)
"""Stands for a creation time that cannot be read; the attempt fails then."""


_MOST_RELEASES = 10
"""After so many releases, a last attempt need not run alone: then releases soon count as attempts."""

_guard = threading.Lock()
_last = 0
_passed = count(1)


@in_forked_process
def _renew() -> None:
    """Give a forked process its own lock: a thread of its parent may have held this one when it forked."""
    global _guard  # noqa: PLW0603 - the order holds for the whole process
    _guard = threading.Lock()


def new_token(above: str | None = None) -> str:
    """Return a token later than `above`, the row's own, and than all earlier tokens of this process for the row.

    It has 16 hex digits of the real clock in nanoseconds, so that the tokens of a row sort by time, then 8 random ones.
    A stopped clock does not stop the tokens. A row with a token from the future, because of a wrong clock or damage,
    does not affect the tokens of other rows.
    """
    global _last  # noqa: PLW0603 - the order holds for the whole process
    with _guard: _last = moment = max(time.time_ns(), _last + 1)  # fmt: skip  # noqa: E701 - as in SharedConnection
    floor = int(above[:16], 16) if above else 0
    if floor >= moment:
        moment = floor + next(_passed)
    return f"{moment:016x}{os.urandom(4).hex()}"


class PendingSuccess:
    """A success that a transaction records, either the block's, `ctx.transaction(succeed=True)`, or the run's own.

    If the block does not commit its transaction, the attempt fails.
    """

    __slots__ = ("error", "of_block", "recorded", "sent")

    def __init__(self, *, of_block: bool = True) -> None:
        self.of_block = of_block
        """Whether the block commits it; otherwise the run does, at its end."""
        self.recorded = False
        self.sent: tuple[Changes, Transition] | None = None
        """The block's changes and the success that was sent without a response. It may be applied by now, or later."""
        self.error: BaseException | None = None
        """Why the last transaction was not committed."""


class Claim(Generic[T]):
    """A claimed task. Only the expiry changes. `task` is the claimed row, which the block then changes."""

    # No dataclass: building one takes time at every cold start.

    def __init__(self, statements: StepStatements[T], task: T, token: str, before: Item | None = None) -> None:
        self.statements: Final = statements
        self.task: Final = task
        self.before: Final = before
        """The stored row before the claim. None if the response was lost, or if the claim created the task."""
        self.process: Final = os.getpid()
        """The process that claimed the task. Its forked children do not hold the task."""
        self.token: Final = token
        """The row's `lock`. If the row has another token, nothing of this run is recorded."""
        self.abandoned: Sequence[Failure] = ()
        """Earlier attempts that ended without a result, and are not in the row's `errors` yet."""
        values = readable(task).attribute_values  # if one is missing that every row has, the attempt fails
        task._row_state.claimed = task._row_state.stored, {**values}
        self.start_time: Final[datetime | None] = values.get("update_time")
        """When the task was claimed. None if that cannot be read."""
        self.expire_time: datetime = values["lock_expire_time"]
        self.attempt: Final[int] = values.get("attempt") or 1
        *earlier, fence = values.get("unfinished") or [values.get("fence") or 0]
        self.fence: Final[int] = fence
        """The number of this claim of the task. A later holder has a higher number."""
        self.unfinished: Final[list[int]] = earlier
        """Fences of earlier claims that never finished."""
        self.create_time: Final[datetime] = values.get("create_time", _UNKNOWN)
        """When the task was created. A task that was deleted and created again is another one."""
        self.round: Final[str] = values.get("round") or values.get("creation") or ""
        """The round that the task is in during this run. The success may begin the next round."""
        self.release_count: Final[int] = values.get("release_count") or 0
        """How often the task was released without using up an attempt."""
        self.is_out_of_time = False
        """Whether a deadline has ended the tries of a request."""
        self._extending: Final = threading.Lock()

    @property
    def step(self) -> str:
        """The name of the step."""
        return self.statements.codes.step

    @property
    def took_over(self) -> bool:
        """Whether the run before this one did not end: its worker died, or lost the lock."""
        return self.attempt > 1 and self.fence - 1 in self.unfinished

    @property
    def is_last_chance(self) -> bool:
        """Whether this is the last attempt, and the one before it ended without a result.

        Claims that were released in between do not count. After many of them, it does not matter any more.
        """
        after = self.fence - 1 - self.release_count
        died = self.release_count < _MOST_RELEASES and any(fence >= after for fence in self.unfinished)
        return self.attempt == self.statements.max_attempts > 1 and died

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked from the one that claimed the task, inside its block."""
        return self.process != os.getpid()

    def describe_foreign(self) -> str:
        """Return why a forked process writes nothing."""
        return f"process {self.process} claimed {self}, and this is process {os.getpid()}, forked inside its block"

    @property
    def log_fields(self) -> dict[str, object]:
        """The extra fields of log records about this run."""
        return log_fields(self.task.use_case_id, self.step, self.task.task_id, self.attempt, self.fence)

    def __str__(self) -> str:
        return f"{self.step} of {type(self.task).__name__} {self.task.task_id!r} (attempt {self.attempt})"

    def holds(self, row: TaskRow) -> bool:
        """Return whether this claim holds the row."""
        return row.lock == self.token and row.status == self.statements.codes.in_progress

    def extended(self, expire_time: datetime) -> None:
        """Move the expiry, but never back: the block and its heartbeat may extend the lock at the same time."""
        with self._extending:
            self.expire_time = max(self.expire_time, expire_time)
            self.task.attribute_values["lock_expire_time"] = self.expire_time


class Journal(Generic[T]):
    """What a run has done so far, and its requests for writes together with its end."""

    # No dataclass, and defaults of the class: few runs need most of it.

    outcome: Literal["succeeded", "failed", "ignored", "released"] | None = None
    """The recorded end of the run. The row does not tell, because the task may be due again."""
    skipped_occurrence = False
    """Whether the last attempt at an occurrence has failed, and the task waits for the next occurrence."""
    postponed = False
    """Whether the run has failed without using up an attempt."""
    ended = False
    """Whether the block has ended, or its success is recorded. The run then writes nothing more."""
    ended_with: Sequence[Participant] = ()
    """The participants in the recorded end."""
    returned: Mapping[str, object] = MappingProxyType({})
    """The values that the function has returned. Empty for a block that the library does not call."""
    unstarted: Exception | None = None
    """Why the attempt is released: an async function cannot begin, or the success would be wrong."""
    result: str | None = None
    """The result, as JSON, that is stored with the success."""
    expects_result = False
    """Whether the block has to store its result before it records its success in a transaction."""
    obeys_control = False
    """Whether the success leads to required steps that this program does not declare."""
    saves = 0
    """How many saves of this run were sent."""
    unsure: tuple[Changes, Changes] | None = None
    """The changes of a save without a response, and their sent form. The save may have been applied, or still be."""
    success: tuple[Changes, Changes] | None = None
    """The changes of the success, and their sent form. A retry sends the same."""
    pending_success: PendingSuccess | None = None
    """Set if a transaction records the success."""
    failure: Failure | None = None
    """The recorded failure. A retry sends the same."""
    is_in_doubt = False
    """Whether the end may be recorded, because a response was lost."""
    interrupt: BaseException | None = None
    """An exception from elsewhere that looked like a problem with a value. It is raised after the end is recorded."""
    lost: LockLostError | None = None
    """The proof, found in the row, that another claim or command has taken the task."""
    on_loss: Callable[[LockLostError], None] | None = None
    """Called once, when the row proves that the lock is lost."""

    def __init__(self, claim: Claim[T]) -> None:
        self.claim: Final = claim
        self.additions: Final[dict[str, Any]] = {}
        """The block's requests for its success, by the names of `features`."""
        self.next_code: int = claim.statements.codes.succeeded
        """The state after the success, if no other round begins: the step that the run has chosen, or the next one."""
        self.max_inline_data = claim.task._row_state.stored.get("data")
        """The stored `data`: the text, or the pointer to its overflow chunks."""
        self.writing: Final = threading.RLock()
        """Serializes saves, transactions and the end of the block, which different threads may send."""
        self._losing: Final = threading.Lock()

    def has_pending_success(self) -> bool:
        """Whether the block records its success in a transaction."""
        return self.pending_success is not None and self.pending_success.of_block

    def made_due(self) -> Iterator[MadeDue]:
        """Yield the tasks, including the run's own, that got a due time by the end of the run."""
        if self.outcome == "succeeded":
            task = self.claim.task
            yield MadeDue(type(task), task.task_id, task.status, "", task.due_time)
        for participant in self.ended_with:
            yield from participant.made_due()

    def note_refusal(self, proof: LockLostError) -> None:
        """Remember that the lock is lost, if a refused write proves it: the row is gone, or has another token.

        A refusal after the block, or while a transaction records the success, proves nothing: the run may have ended.
        """
        found, pending = proof.task, self.pending_success
        ending = self.ended or (pending is not None and pending.sent is not None)
        if not ending and self.lost is None and (found is None or found.lock != self.claim.token):
            self.record_loss(proof)

    def record_loss(self, proof: LockLostError) -> None:
        """Remember that the lock is lost, and call `on_loss` the first time."""
        with self._losing:  # the block and its heartbeat may find out at the same time
            is_new, self.lost = self.lost is None, _fresh(proof)
        if is_new and self.on_loss is not None:
            self.on_loss(self.lost)

    def check(self) -> None:
        """Raise LockLostError, with the message and the row of the proof, if the lock is known to be lost."""
        if self.lost is not None:
            raise _fresh(self.lost)

    @property
    def free_slot(self) -> str:
        """The slot for the next version of the data."""
        return free_slot(self.max_inline_data)

    def mark_saved(self, changes: Changes, sent: Changes) -> None:
        """Remember that these changes are stored."""
        self.unsure = None
        if changes:
            mark_saved(self.claim.task, changes, sent)
            if "data" in changes:
                self.max_inline_data = sent["data"][1]

    def note_success(self, changes: Changes, transition: Transition) -> None:
        """Update the task in memory to its row after the success, which stores the block's changes."""
        task = self.claim.task
        self.outcome = "succeeded"
        self.mark_saved(changes, transition.assigned)
        transition.apply_to(task)
        if transition.changes:
            mark_saved(task, transition.changes, transition.changes)
            read_again(task, transition.changes)


def _fresh(proof: LockLostError) -> LockLostError:
    """Return a copy without notes, and without a traceback, which would keep frames alive."""
    fresh = copy(proof)
    fresh.__notes__ = [address_of(type(fresh))]
    return fresh
