"""Building and sending a run's end, and finding out whether it was applied."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar, cast

from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.error_codes import is_unheard
from pynamodb_tracker.dynamodb.retries import slept_before_retry
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.model.failure_log import for_row
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.writes.lock import Claim, Journal
from pynamodb_tracker.writes.participants import OptionalParticipant, Participant, send_with
from pynamodb_tracker.writes.refusals import lock_lost_error
from pynamodb_tracker.writes.statements import get, is_urgent
from pynamodb_tracker.writes.transition import Stored, Transition

T = TypeVar("T", bound=TaskRow)

_KEPT_FENCES = 8
"""How many unfinished claims a row remembers. An older one counts as lost."""
_DECIDE_WITHIN = timedelta(seconds=5)
"""How long to try to read the row after the lock has expired."""

_AT_ONCE = 3
"""How often a success is sent again without a pause."""


class RowChanged(Exception):  # noqa: N818 - not an error: the end is sent in another form
    """The row has changed, but the lock is held, so the end has to be built again."""

    def __init__(self, row: TaskRow) -> None:
        super().__init__(row)
        self.row = row


def build_end(
    claim: Claim[T], name: str, code: int, now: datetime, *, attempt: int, due: datetime | None = None
) -> Transition:
    """Build the write that ends a run. `attempt` is the number of attempts used up."""
    end = Transition(name, code, *claim.statements.held_by_run, due=due)
    end.time, end.seen, end.is_urgent = now, {"lock": claim.token}, is_urgent(claim.task)
    end.values = {"attempt": attempt, "unfinished": claim.unfinished[-_KEPT_FENCES:]}
    if claim.abandoned:
        end.values["errors"] = Stored(for_row(claim.task, claim.abandoned, may_log=False)[0])
    return end


def send_until_landed(
    journal: Journal[T],
    end: Transition,
    participants: Sequence[Participant] = (),
    optional: OptionalParticipant | None = None,
) -> None:
    """Send an end, even with an expired lock. If it is refused, find out whether an earlier try was applied.

    Raises LockLostError only if the row proves it, and RowChanged if a success has to be built again.
    """
    claim = journal.claim
    statements, task_id = claim.statements, claim.task.task_id
    try:
        if participants or optional is not None:
            own = statements.as_action(end, task_id)
            if send_with(statements.table, own, participants, optional):
                journal.ended_with = participants
                return
        statements.send(end, task_id, until=claim.expire_time)
    except Refused as refused:
        journal.is_in_doubt = journal.is_in_doubt or refused.repeated
        found = get(statements.model, task_id, until=claim.expire_time)
        journal.is_in_doubt = False
        if not has_landed(claim, found):
            is_lost = found is None or not claim.holds(found)
            raise (lock_lost_error(claim, "finish", found) if is_lost else RowChanged(cast("T", found))) from None
    except (PynamoDBConnectionError, TransactWriteError) as error:
        journal.is_in_doubt = journal.is_in_doubt or is_unheard(error)
        raise


def has_landed(claim: Claim[T], row: T | None) -> bool:
    """Return whether the row shows that the end of this run was applied.

    Token and status cannot show it, because another worker may already hold the next step, or this one again.
    """
    if row is None or row.create_time != claim.create_time:
        return False
    fences = row.unfinished or []
    forgotten = len(fences) >= _KEPT_FENCES and claim.fence < min(fences)
    return claim.fence not in fences and not forgotten


def read_row(claim: Claim[T]) -> T | None:
    """Read the row, with retries for a while after the lock has expired."""
    until: datetime = max(claim.expire_time, clock.now() + _DECIDE_WITHIN)
    return get(claim.statements.model, claim.task.task_id, until=until)


def wait_before_retry(claim: Claim[T], row: T, retries: int) -> T | None:
    """Return the row to build a success from, or None if the task was taken. After a few tries, pause and read it."""
    if retries < _AT_ONCE:
        return row
    if not slept_before_retry(retries - _AT_ONCE, claim.expire_time):
        raise LockLostError(
            f"cannot finish {claim.step} of {claim.task.task_id!r}: its row changed {retries + 1} times while its "
            f"success was being recorded, and its lock expires at {claim.expire_time}. Nothing was recorded, so it "
            "runs again",
            task_id=claim.task.task_id,
        )
    found = read_row(claim)
    return found if found is not None and claim.holds(found) else None
