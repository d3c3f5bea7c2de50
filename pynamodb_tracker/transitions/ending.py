"""Ending a run: how an end is built and sent, whether it was applied, and the ends without success."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from pynamodb.constants import LIST, STRING
from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused
from pynamodb_tracker.dynamodb.error_codes import is_in_doubt, is_invalid
from pynamodb_tracker.dynamodb.retries import slept_before_retry
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.features.overflow import expire, log_failures
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.model.changes import as_stored
from pynamodb_tracker.model.failure import Failure, add_note, first_failure, first_failure_text, type_of
from pynamodb_tracker.model.failure_log import failures_in_row, for_row, without_repeated
from pynamodb_tracker.model.overflow import version_of
from pynamodb_tracker.model.recent_ends import fit_ends
from pynamodb_tracker.model.row import TaskRow, may_expire
from pynamodb_tracker.writes.lock import Claim, Journal
from pynamodb_tracker.writes.participants import (
    OptionalParticipant,
    Participant,
    after_last_failure,
    change_other_end,
    check_signals,
    giving_up_guards,
    ignoring_participants,
    last_run,
    send_with,
)
from pynamodb_tracker.writes.refusals import lock_lost_error
from pynamodb_tracker.writes.transition import Stored, Transition, get, is_urgent

T = TypeVar("T", bound=TaskRow)

_KEPT_FENCES = 8
"""How many unfinished claims a row remembers. An older one counts as lost."""
_DECIDE_WITHIN = timedelta(seconds=5)
"""How long to try to read the row after the lock has expired."""

_AT_ONCE = 3
"""How often a success is sent again without a pause."""
_LAST_SAVE = 999_999
"""The failure log's save number, later than all saves of the run."""
_MOST_POSTPONED = 1000
"""How often a task is postponed without using up an attempt, until it succeeds, is reopened or starts over."""
_MOST_RELEASES = 20
"""How often a task is released without using up an attempt."""


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
        journal.end_in_doubt = journal.end_in_doubt or refused.repeated
        found = get(statements.model, task_id, until=claim.expire_time)
        journal.end_in_doubt = False
        if not has_landed(claim, found):
            is_lost = found is None or not claim.holds(found)
            raise (lock_lost_error(claim, "finish", found) if is_lost else RowChanged(cast("T", found))) from None
    except (PynamoDBConnectionError, TransactWriteError) as error:
        journal.end_in_doubt = journal.end_in_doubt or is_in_doubt(error)
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


def row_for_retry(claim: Claim[T], row: T, retries: int) -> T | None:
    """Return the row that the next success is built from: the one that was found, or after a few tries the present one.

    Return None if this claim no longer holds the present one.
    """
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


def fail(
    journal: Journal[T],
    *,
    error: BaseException,
    delay: timedelta,
    final: bool,
    counted: bool = True,
    give_up_after: timedelta | None = None,
) -> None:
    """Record a failure. After the `delay`, there is another attempt, unless the failure is `final`.

    Only a `counted` failure uses up an attempt. If `give_up_after` has passed since the first failure, this one is
    final. Raises TaskNotReadyError if the block gives up, but a signal has come during the run.
    """
    claim = journal.claim
    task, statements = claim.task, claim.statements
    failure = journal.failure or _failure_of(journal, error)
    values: dict[str, Any] = {}
    guards = giving_up_guards(journal) if final else ()
    counted = counted or final
    if not final and (give_up_after is not None or not counted):
        values, counted, final = _judge(claim, failure, give_up_after, counted=counted)
    final = final or (counted and claim.attempt >= statements.max_attempts)
    # This failure is already among them if an interrupt followed the finish.
    earlier = [each for each in failures_in_row(task) if each is not failure]
    if not counted:
        earlier, journal.failure = without_repeated(earlier, failure)
        failure = journal.failure
    failures = [*earlier, failure]
    entries, logged = for_row(task, [*claim.abandoned, failure], replaces_last=failure.count > 1)
    failed = _build_failure(claim, failure, delay, final=final, counted=counted)
    failed.add(**({} if final else values))
    participants: Sequence[Participant] = ()
    optional = None
    if failed.code == statements.codes.ignored:
        participants = ignoring_participants(task)
        optional = _follow_ups_when_ignored(claim, failure, failures)
    failed.add(*guards, **_error_values(task, entries, failure.one_line))
    change_other_end(journal, failed)
    try:
        if not _send_failure(journal, failed, failure, participants, optional):
            failures, logged = [], False
    except RowChanged as changed:
        check_signals(journal, changed.row)
        raise lock_lost_error(claim, "finish", changed.row) from None  # only a damaged row is refused here
    for problem in optional.problems if optional else ():
        add_note(error, f"pynamodb_tracker: {problem}")
    failed.apply_to(task)
    task.attribute_values["errors"] = failures
    journal.outcome = "ignored" if failed.code == statements.codes.ignored else "failed"
    journal.postponed = not counted
    journal.skipped_occurrence = final and journal.outcome == "failed"
    if logged:
        log_failures(statements, task, claim.token, version_of(claim.create_time, claim.fence, _LAST_SAVE))
    if final and statements.has_expiry:
        expire(statements, task)
    if optional is not None and optional.interrupt is not None:
        raise optional.interrupt


def _error_values(task: TaskRow, entries: list[dict[str, Any]], last_error: str) -> dict[str, Any]:
    """Return the attributes that record failures, with as many recent ends as fit."""
    ends, own = task.attribute_values.get("recent_ends"), {"errors": Stored(entries), "last_error": last_error}
    if not isinstance(ends, list):
        return own
    stored: Item = {"errors": {LIST: entries}, "last_error": {STRING: last_error}}
    return {**own, "recent_ends": fit_ends(ends, {**task._row_state.stored, **stored})}


def _send_failure(
    journal: Journal[T],
    failed: Transition,
    failure: Failure,
    participants: Sequence[Participant],
    optional: OptionalParticipant | None,
) -> bool:
    """Send a failure. Return False if only the status did fit into the row."""
    try:
        send_until_landed(journal, failed, participants, optional)
    except (PynamoDBConnectionError, TransactWriteError) as refused:
        if not is_invalid(refused):
            raise
        failed.drop_entries(failure.type)
        send_until_landed(journal, failed, participants)
        return False
    return True


def _judge(
    claim: Claim[T], failure: Failure, give_up_after: timedelta | None, *, counted: bool
) -> tuple[dict[str, Any], bool, bool]:
    """Return the attributes to store, whether the failure uses up an attempt, and whether it comes too late."""
    values: dict[str, Any] = {}
    if give_up_after is not None:
        step_and_round = claim.statements.codes.pending, claim.round
        first = first_failure(claim.task.first_failure, *step_and_round)
        if first is None:
            values["first_failure"] = first_failure_text(failure.time, *step_and_round)
        elif failure.time - first > give_up_after:
            return {}, True, True
    postponed = claim.task.postpone_count or 0
    counted = counted or postponed >= _MOST_POSTPONED
    if not counted:
        values["postpone_count"] = postponed + 1
    return values, counted, False


def _build_failure(claim: Claim[T], failure: Failure, delay: timedelta, *, final: bool, counted: bool) -> Transition:
    """Return the transition to another attempt, to the next occurrence, or to the end."""
    codes, now, attempt = claim.statements.codes, failure.time, claim.attempt if counted else claim.attempt - 1
    if not final:
        return build_end(claim, "fail", codes.failed, now, attempt=attempt, due=_add_delay(now, delay))
    failed = build_end(claim, "give up", codes.ignored, now, attempt=attempt)
    failed.expires = may_expire(claim.task)
    if following := after_last_failure(claim.task, now, claim):
        failed.add(attempt=0, release_count=None)
        failed.follow(following)
    failed.add(**last_run(claim.task, "failed", claim.attempt, now))
    return failed


def _follow_ups_when_ignored(claim: Claim[T], failure: Failure, failures: list[Failure]) -> OptionalParticipant | None:
    statements, now = claim.statements, failure.time
    if statements.when_ignored is None:
        return None
    ignored = as_stored(claim.task)
    ignored.attribute_values.update(
        status=statements.codes.ignored, due_time=now, update_time=now, errors=failures, last_error=failure.one_line
    )
    follow_ups: OptionalParticipant = statements.when_ignored(ignored)
    return follow_ups


def _failure_of(journal: Journal[T], error: BaseException) -> Failure:
    """Return the record of the user's exception, only its type if reading its texts is interrupted."""
    claim = journal.claim
    message = "<reading its message was interrupted>"
    failure = Failure(claim.step, claim.attempt, clock.now(), str(claim.task.worker), type_of(error), message)
    journal.failure = failure
    journal.failure = failure.with_texts_of(error, claim.task.redact)
    return journal.failure


def release(journal: Journal[T], *, begun: bool = True) -> None:
    """Release the task: it is pending and due at once, and the attempt does not count.

    After many releases of blocks that had `begun`, attempts count, because the task itself may kill its workers.
    """
    claim = journal.claim
    codes, attempt, releases = claim.statements.codes, claim.attempt - 1, claim.release_count + begun
    if releases > _MOST_RELEASES:
        attempt = claim.attempt
        told = "%s was released after %d earlier releases, so this attempt counts"
        log.warning(told, claim, claim.release_count, extra=claim.log_fields)
    release = build_end(claim, "release", codes.pending, clock.now(), attempt=attempt)
    release.add(release_count=releases or None)
    change_other_end(journal, release)
    send_until_landed(journal, release)
    release.apply_to(claim.task)
    journal.outcome = "released"


def _add_delay(now: datetime, delay: timedelta) -> datetime:
    try:
        return min(now + delay, clock.LATEST)
    except OverflowError:
        return clock.LATEST
