"""The lock of a run, a claim that holds its task; the journal of what the run has done so far; the tokens of claims.

Code that gets only the claim can extend it, and change nothing else of the run.
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
from pynamodb_tracker.transitions.participants import MadeDue, Participant
from pynamodb_tracker.transitions.statements import StepStatements
from pynamodb_tracker.transitions.transition import Transition

T = TypeVar("T", bound=TaskRow)

_UNKNOWN = datetime.fromtimestamp(0, UTC)
"""Stands for a creation time that cannot be read; the attempt fails then."""


_guard = threading.Lock()
_last = 0
_passed = count(1)


@in_forked_process
def _renew() -> None:
    """Give a forked process a lock of its own: a thread of its parent may have held this one when it forked."""
    global _guard  # noqa: PLW0603 - the order holds for the whole process
    _guard = threading.Lock()


def new_token(above: str | None = None) -> str:
    """Return a token later than every earlier one of this process for the same row, and than `above`, that row's own.

    16 hex digits of the real clock in nanoseconds, so that the tokens of a row sort by time, then 8 random ones. A
    stopped clock has no effect on them: two runs at the same stopped time have different tokens. A row whose token is
    ahead, because of a wrong clock or a damage, has no effect on the tokens of other rows.
    """
    global _last  # noqa: PLW0603 - the order holds for the whole process
    with _guard: _last = moment = max(time.time_ns(), _last + 1)  # fmt: skip  # noqa: E701 - as in SharedConnection
    floor = int(above[:16], 16) if above else 0
    if floor >= moment:
        moment = floor + next(_passed)
    return f"{moment:016x}{os.urandom(4).hex()}"


class SentSuccess:
    """A success as it was sent in a transaction."""

    __slots__ = ("changes", "transition")  # no dataclass: building one takes time at every cold start

    def __init__(self, changes: Changes, transition: Transition) -> None:
        self.changes = changes
        """What the block had changed by then; the transition has a pointer in place of data in overflow chunks."""
        self.transition = transition
        """What it does to the row."""


class PendingSuccess:
    """A success that a transaction records: of the block, by `ctx.transaction(succeed=True)`, or of the run itself.

    If the transaction of a block is not committed, the attempt fails.
    """

    __slots__ = ("error", "of_block", "recorded", "sent")

    def __init__(self, *, of_block: bool = True) -> None:
        self.of_block = of_block
        """Whether the block commits it; otherwise the run does, at its end."""
        self.recorded = False
        """Whether the success is on record."""
        self.sent: SentSuccess | None = None
        """The success that was sent and got no response: it may have been applied, or may still be."""
        self.error: BaseException | None = None
        """What kept the last transaction from being committed."""


class Claim(Generic[T]):
    """What a run has claimed; only its expiry moves. `task` is the row as claimed, which the block then changes."""

    # No dataclass: building one takes time at every cold start.

    def __init__(self, statements: StepStatements[T], task: T, token: str, before: Item | None = None) -> None:
        self.statements: Final = statements
        """The writes of the step that is run."""
        self.task: Final = task
        self.before: Final = before
        """The row as it was, in its stored form; None if the response to the claim was lost, or if it was created."""
        self.process: Final = os.getpid()
        """The process that claimed the task: a child that it forks does not hold it."""
        self.token: Final = token
        """The row's `lock` must still have this value for anything of this run to be recorded."""
        self.abandoned: Sequence[Failure] = ()
        """The attempts before this one that ended without a result, and that `errors` of the row does not have yet."""
        values = readable(task).attribute_values  # if one is missing that every row has, the attempt fails
        task._row_state.claimed = task._row_state.stored, {**values}
        self.expire_time: datetime = values["lock_expire_time"]
        """Until when this worker may assume that it holds the task; `extended` moves it."""
        self.attempt: Final[int] = values.get("attempt") or 1
        """Which attempt of the step this is, from 1."""
        *earlier, fence = values.get("unfinished") or [values.get("fence") or 0]
        self.fence: Final[int] = fence
        """Which claim of the task this is; it only grows, so a later holder has a higher number."""
        self.unfinished: Final[list[int]] = earlier
        """Fences of earlier claims that never finished."""
        self.create_time: Final[datetime] = values.get("create_time", _UNKNOWN)
        """When the task was created: a task that was deleted and created again is another one."""
        self.round: Final[str] = values.get("round") or values.get("creation") or ""
        """Which round of its life the task is in, while this run lasts: its success may begin the next one."""
        self.release_count: Final[int] = values.get("release_count") or 0
        """How often the task was released without counting the attempt."""
        self.is_out_of_time = False
        """Whether a request of the run was given up because of a deadline."""
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
        """Return whether a row that was read is held by this claim."""
        return row.lock == self.token and row.status == self.statements.codes.in_progress

    def extended(self, expire_time: datetime) -> None:
        """Move the expiry; never back: the block and its heartbeat may extend the lock at the same time."""
        with self._extending:
            self.expire_time = max(self.expire_time, expire_time)
            self.task.attribute_values["lock_expire_time"] = self.expire_time


class Journal(Generic[T]):
    """What a run has done so far, and what it has asked for to be written with its end."""

    # No dataclass, and defaults of the class: few runs need most of it.

    outcome: Literal["succeeded", "failed", "ignored", "released"] | None = None
    """The recorded end of the run; the row does not tell, because the task may be due again."""
    skipped_occurrence = False
    """Whether the task repeats, and its last attempt at this occurrence has failed: it waits for the next one."""
    postponed = False
    """Whether the run has failed, and its attempt does not count."""
    ended = False
    """Whether the block has ended, or its success is on record: this run writes nothing more."""
    ended_with: Sequence[Participant] = ()
    """What was written together with the end, once that is on record."""
    returned: Mapping[str, object] = MappingProxyType({})
    """What the function has returned, from that moment on; nothing in a block that the library does not call."""
    unstarted: Exception | None = None
    """Why an async function does not begin although its thread is in the block, or why its success would be wrong; the
    attempt is released then."""
    result: str | None = None
    """The result, as JSON, that is stored with the success."""
    expects_result = False
    """Whether the block has to store its result before it records its success in a transaction."""
    saves = 0
    """How many saves of this run were sent."""
    unsure: tuple[Changes, Changes] | None = None
    """The changes of a save without a response, and these as sent; it may have been applied, or may be later."""
    success: tuple[Changes, Changes] | None = None
    """The changes of the success, and these as they are sent; kept, so that a retry sends the same."""
    pending_success: PendingSuccess | None = None
    """Set if a transaction is to record the success."""
    failure: Failure | None = None
    """The failure that is recorded; kept, so that a retry sends the same."""
    is_in_doubt = False
    """Whether the end may be on record, because the response to a request that records it was lost."""
    interrupt: BaseException | None = None
    """An exception from elsewhere that was taken for a problem with a value; raised once the end is recorded."""
    lost: LockLostError | None = None
    """The proof, found in the row, that another claim or command has taken the task; it stays."""
    on_loss: Callable[[LockLostError], None] | None = None
    """What is called, once, when the row proves that the lock is lost."""

    def __init__(self, claim: Claim[T]) -> None:
        self.claim: Final = claim
        self.additions: Final[dict[str, Any]] = {}
        """What the block has asked for to be written with its success, by the names of `features`."""
        self.next_code: int = claim.statements.codes.succeeded
        """The state to which the success leads, another round aside: what the run has chosen, or the next step."""
        self.max_inline_data = claim.task._row_state.stored.get("data")
        """What the row has as `data`, as stored: the text, or the pointer to its overflow chunks."""
        self.writing: Final = threading.RLock()
        """Saves, transactions and the end of the block are sent one after the other, even from different threads."""
        self._losing: Final = threading.Lock()

    def made_due(self) -> Iterator[MadeDue]:
        """Yield the tasks that the end of the run has made due, or has given a due time: its own, and others."""
        if self.outcome == "succeeded":
            task = self.claim.task
            yield MadeDue(type(task), task.task_id, task.status, "", task.due_time)
        for participant in self.ended_with:
            yield from participant.made_due()

    def note_refusal(self, proof: LockLostError) -> None:
        """Remember that the lock is lost, if a refused write proves that: the row is gone, or has another token.

        A refusal after the block, or while a transaction records the success, proves nothing: the run itself has
        ended then.
        """
        found = proof.task
        pending = self.pending_success
        ending = self.ended or (pending is not None and pending.sent is not None)
        if not ending and self.lost is None and (found is None or found.lock != self.claim.token):
            self.record_loss(proof)

    def record_loss(self, proof: LockLostError) -> None:
        """Remember that the lock is lost."""
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
        """Let the task in memory be what its row is after a success that stores what the block had changed."""
        task = self.claim.task
        self.outcome = "succeeded"
        self.mark_saved(changes, transition.assigned)
        transition.apply_to(task)
        if transition.changes:
            mark_saved(task, transition.changes, transition.changes)
            read_again(task, transition.changes)


def _fresh(proof: LockLostError) -> LockLostError:
    """Return a copy to raise once more, without notes about the first one.

    It has no traceback, which would keep frames alive.
    """
    fresh = copy(proof)
    fresh.__notes__ = [address_of(type(fresh))]
    return fresh
