"""A run's claim on its task, its journal, and the tokens of claims."""

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
from pynamodb_tracker.model.changes import Changes, Outgoing, mark_saved, read_again
from pynamodb_tracker.model.failure import Failure
from pynamodb_tracker.model.row import TaskRow, readable
from pynamodb_tracker.writes.participants import NewlyDue, Participant
from pynamodb_tracker.writes.transition import StepStatements, Transition

T = TypeVar("T", bound=TaskRow)

_UNKNOWN = datetime.fromtimestamp(0, UTC)
"""Stands for an unreadable creation time."""

_RELEASES_OF_LAST_ATTEMPT = 10
"""After this many releases, a last attempt need not run alone."""

_guard = threading.Lock()
_last = 0
_passed = count(1)


@in_forked_process
def _renew() -> None:
    """Give a forked process a new lock, because another thread may hold this one."""
    global _guard  # noqa: PLW0603 - the order holds for the whole process
    _guard = threading.Lock()


def new_token(above: str | None = None) -> str:
    """Return a token that is later than all earlier ones of this process for the row, and than `above`, the row's own.

    It has the real clock's nanoseconds in 16 hex digits, then 8 random ones.
    """
    global _last  # noqa: PLW0603 - the order holds for the whole process
    with _guard: _last = moment = max(time.time_ns(), _last + 1)  # fmt: skip  # noqa: E701 - as in SharedConnection
    floor = int(above[:16], 16) if above else 0
    if floor >= moment:
        moment = floor + next(_passed)
    return f"{moment:016x}{os.urandom(4).hex()}"


class PendingSuccess:
    """A success that a transaction records: the block's, `ctx.transaction(succeed=True)`, or the run's own."""

    def __init__(self, *, of_block: bool = True) -> None:
        self.of_block = of_block
        """Whether the block has to commit it, or else fail."""
        self.recorded = False
        self.changes: Changes = {}
        """The changes that are saved with the success."""
        self.sent: Transition | None = None
        """A success that was sent, as long as it is unknown whether it was applied."""
        self.error: BaseException | None = None
        """The last transaction's error."""


class Claim(Generic[T]):
    """A claimed task. Only its expiry changes, and the block changes `task`, the claimed row."""

    def __init__(self, statements: StepStatements[T], task: T, token: str, before: Item | None = None) -> None:
        self.statements: Final = statements
        self.task: Final = task
        self.before: Final = before
        """The stored row before the claim. None if unknown, or if the claim created the task."""
        self.process: Final = os.getpid()
        self.token: Final = token
        self.abandoned: Sequence[Failure] = ()
        """Earlier attempts without a result, to be added to `errors`."""
        values = readable(task).attribute_values  # if a required one is missing, the attempt fails
        task._row_state.claimed = task._row_state.stored, {**values}
        self.start_time: Final[datetime | None] = values.get("update_time")
        """When the task was claimed, or None if unreadable."""
        self.expire_time: datetime = values["lock_expire_time"]
        self.attempt: Final[int] = values.get("attempt") or 1
        *earlier, fence = values.get("unfinished") or [values.get("fence") or 0]
        self.fence: Final[int] = fence
        self.unfinished: Final[list[int]] = earlier
        """Fences of earlier claims that never finished."""
        self.create_time: Final[datetime] = values.get("create_time", _UNKNOWN)
        self.round: Final[str] = values.get("round") or values.get("creation") or ""
        """The task's round during this run. The success may begin the next one."""
        self.release_count: Final[int] = values.get("release_count") or 0
        """How often the task was released without using up an attempt."""
        self.is_out_of_time = False
        """Whether a deadline ended a request's retries."""
        self._extending: Final = threading.Lock()

    @property
    def step(self) -> str:
        return self.statements.codes.step

    @property
    def took_over(self) -> bool:
        """Whether the previous run did not end, because its worker died or lost the lock."""
        return self.attempt > 1 and self.fence - 1 in self.unfinished

    @property
    def is_last_chance(self) -> bool:
        """Whether this is the last attempt, and the previous one ended without a result."""
        after = self.fence - 1 - self.release_count
        died = self.release_count < _RELEASES_OF_LAST_ATTEMPT and any(fence >= after for fence in self.unfinished)
        return self.attempt == self.statements.max_attempts > 1 and died

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked inside the block."""
        return self.process != os.getpid()

    def describe_foreign(self) -> str:
        """Say why this forked process writes nothing."""
        return f"process {self.process} claimed {self}, and this is process {os.getpid()}, forked inside its block"

    @property
    def log_fields(self) -> dict[str, object]:
        return log_fields(self.task.use_case_id, self.step, self.task.task_id, self.attempt, self.fence)

    def __str__(self) -> str:
        return f"{self.step} of {type(self.task).__name__} {self.task.task_id!r} (attempt {self.attempt})"

    def holds(self, row: TaskRow) -> bool:
        return row.lock == self.token and row.status == self.statements.codes.in_progress

    def note_extension(self, expire_time: datetime) -> None:
        with self._extending:  # the block and its heartbeat may extend the lock at the same time
            self.expire_time = max(self.expire_time, expire_time)
            self.task.attribute_values["lock_expire_time"] = self.expire_time


class Journal(Generic[T]):
    """A run's history so far, and the writes that it wants to send together with its end."""

    # Class defaults, because few runs need most of them.

    outcome: Literal["succeeded", "failed", "ignored", "released"] | None = None
    """The recorded end."""
    skipped_occurrence = False
    """Whether the last attempt at an occurrence failed."""
    postponed = False
    """Whether the failure used up no attempt."""
    ended = False
    """Whether the block has ended, so that only the end may still be written."""
    ended_with: Sequence[Participant] = ()
    returned: Mapping[str, object] = MappingProxyType({})
    """The function's return values, if the library calls it."""
    unstarted: Exception | None = None
    """Why the attempt has to be released."""
    result: str | None = None
    expects_result = False
    """Whether the block must store its result before its success."""
    obeys_control = False
    """Whether the success leads to required steps of other programs."""
    saves = 0
    save_in_doubt: Outgoing | None = None
    """A save without a response."""
    success: Outgoing | None = None
    """The success's changes, kept for a retry."""
    pending_success: PendingSuccess | None = None
    failure: Failure | None = None
    """The failure, kept for a retry."""
    end_in_doubt = False
    """Whether the end may be recorded, because a response was lost."""
    interrupt: BaseException | None = None
    """An exception that looked like a problem with a value. It is raised after the end is recorded."""
    lost: LockLostError | None = None
    """The row's proof that another claim or command has taken the task."""
    on_loss: Callable[[LockLostError], None] | None = None
    """Called once, when the row proves that the lock is lost."""

    def __init__(self, claim: Claim[T]) -> None:
        self.claim: Final = claim
        self.additions: Final[dict[str, Any]] = {}
        """The block's requests for its success, by feature name."""
        self.next_code: int = claim.statements.codes.succeeded
        """The state after the success."""
        self.stored_data = claim.task._row_state.stored.get("data")
        """The stored `data`: the text, or a pointer to its overflow chunks."""
        self.writing: Final = threading.RLock()
        """Serializes saves, transactions and the end, because several threads may send them."""
        self._losing: Final = threading.Lock()

    def has_pending_success(self) -> bool:
        """Whether the block records its success in a transaction."""
        return self.pending_success is not None and self.pending_success.of_block

    def made_due(self) -> Iterator[NewlyDue]:
        """Yield the tasks that the run's end made due, including its own."""
        if self.outcome == "succeeded":
            task = self.claim.task
            yield NewlyDue(type(task), task.task_id, task.status, "", task.due_time)
        for participant in self.ended_with:
            yield from participant.made_due()

    def note_refusal(self, proof: LockLostError) -> None:
        """Record that the lock is lost if a refused write proves it."""
        # After the block, or while a transaction records the success, it may only mean that the run has ended.
        found, pending = proof.task, self.pending_success
        ending = self.ended or (pending is not None and pending.sent is not None)
        if not ending and self.lost is None and (found is None or found.lock != self.claim.token):
            self.record_loss(proof)

    def record_loss(self, proof: LockLostError) -> None:
        """Record that the lock is lost, and call `on_loss` once."""
        with self._losing:  # the block and its heartbeat may find out at the same time
            is_new, self.lost = self.lost is None, _copy_proof(proof)
        if is_new and self.on_loss is not None:
            self.on_loss(self.lost)

    def check(self) -> None:
        """Raise LockLostError if the lock is known to be lost."""
        if self.lost is not None:
            raise _copy_proof(self.lost)

    def mark_saved(self, changes: Changes, sent: Changes) -> None:
        self.save_in_doubt = None
        if changes:
            mark_saved(self.claim.task, changes, sent)
            if "data" in changes:
                self.stored_data = sent["data"][1]

    def note_success(self, changes: Changes, transition: Transition) -> None:
        """Update the task in memory after the success."""
        task = self.claim.task
        self.outcome = "succeeded"
        self.mark_saved(changes, transition.assigned)
        transition.apply_to(task)
        if transition.changes:
            mark_saved(task, transition.changes, transition.changes)
            read_again(task, transition.changes)


def _copy_proof(proof: LockLostError) -> LockLostError:
    """Return a copy without notes and traceback, which would keep frames alive."""
    fresh = copy(proof)
    fresh.__notes__ = [address_of(type(fresh))]
    return fresh
