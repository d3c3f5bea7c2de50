"""Ending a run without success: a failure, or a release."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pynamodb.constants import LIST, STRING
from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.features.overflow import expire, log_failures
from pynamodb_tracker.model.changes import as_stored
from pynamodb_tracker.model.failure import Failure, add_note, type_of
from pynamodb_tracker.model.failure_log import failures_in_row, for_row, without_repeated
from pynamodb_tracker.model.overflow import version_of
from pynamodb_tracker.model.recent_ends import fit_ends
from pynamodb_tracker.model.row import TaskRow, may_expire
from pynamodb_tracker.transitions.ending import RowChanged, build_end, send_until_landed
from pynamodb_tracker.writes import register
from pynamodb_tracker.writes.lock import Claim, Journal
from pynamodb_tracker.writes.participants import OptionalParticipant, Participant
from pynamodb_tracker.writes.refusals import lost
from pynamodb_tracker.writes.transition import Stored, Transition

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")

_LAST_SAVE = 999_999
"""The number in the version of a run's failure log, later than all saves of the run."""
_MOST_RELEASES = 20
"""How often a task is released without using up an attempt, until it succeeds or is reopened."""


def fail(
    journal: Journal[T],
    *,
    error: BaseException,
    delay: timedelta,
    final: bool,
    counted: bool = True,
    give_up_after: timedelta | None = None,
) -> None:
    """Record the failure.

    Args:
        journal: The run that has failed.
        error: The exception.
        delay: The time until the next attempt.
        final: Whether there is no next attempt.
        counted: Whether the failure uses up an attempt.
        give_up_after: A failure that comes later than this after the first one is final.

    Raises:
        TaskNotReadyError: The block gives up, but a signal has come during the run. The attempt is to be released.
    """
    claim = journal.claim
    task, statements = claim.task, claim.statements
    failure = journal.failure or _failure_of(journal, error)
    values: dict[str, Any] = {}
    guards = register.guards_of_giving_up(journal) if final else ()
    counted = counted or final
    if not final and (give_up_after is not None or not counted):
        values, counted, final = register.of_failure(claim, failure, give_up_after, counted=counted)
    final = final or (counted and claim.attempt >= statements.max_attempts)
    earlier, failure = _earlier_failures(journal, failure, counted=counted)
    failures, last_error = [*earlier, failure], failure.one_line
    entries, logged = for_row(task, [*claim.abandoned, failure], replaces_last=failure.count > 1)
    failed = _after_failure(claim, failure, delay, final=final, counted=counted)
    failed.add(**({} if final else values))
    participants: Sequence[Participant] = ()
    optional = None
    if failed.code == statements.codes.ignored:
        participants = register.at_ignored(task)
        optional = _created_when_ignored(claim, failure, failures)
    failed.add(*guards, **_with_errors(task, entries, last_error))
    if journal.additions:
        register.change_other_end(journal, failed)
    try:
        if not _send_failure(journal, failed, failure, participants, optional):
            failures, logged = [], False
    except RowChanged as changed:
        register.check_decision(journal, changed.row)
        raise lost(claim, "finish", changed.row) from None  # it is damaged
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


def _with_errors(task: TaskRow, entries: list[dict[str, Any]], last_error: str) -> dict[str, Any]:
    """Return the attributes that record failures. The last ends stay as far as the row has room for them."""
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
    """Send a failure. Return False if the row has no room for it, so that only the status is recorded."""
    try:
        send_until_landed(journal, failed, participants, optional)
    except (PynamoDBConnectionError, TransactWriteError) as refused:
        if not is_invalid(refused):
            raise
        failed.add(errors=Stored([]), last_error=failure.type)
        failed.values.pop("last_run", None)
        send_until_landed(journal, failed, participants)
        return False
    return True


def _earlier_failures(journal: Journal[T], failure: Failure, *, counted: bool) -> tuple[list[Failure], Failure]:
    """Return the earlier failures, and this one, with a count if it replaces a postponement like it."""
    # It is among the known ones if an interrupt followed the finish.
    earlier = [each for each in failures_in_row(journal.claim.task) if each is not failure]
    if not counted:
        earlier, failure = without_repeated(earlier, failure)
        journal.failure = failure
    return earlier, failure


def _after_failure(claim: Claim[T], failure: Failure, delay: timedelta, *, final: bool, counted: bool) -> Transition:
    """Return the transition after a failure: to another attempt, to the next occurrence, or to the end."""
    codes, now, attempt = claim.statements.codes, failure.time, claim.attempt if counted else claim.attempt - 1
    if not final:
        return build_end(claim, "fail", codes.failed, now, attempt=attempt, due=_later(now, delay))
    failed = build_end(claim, "give up", codes.ignored, now, attempt=attempt)
    failed.expires = may_expire(claim.task)
    if following := register.after_last_failure(claim.task, now, claim):
        failed.add(attempt=0, release_count=None)
        failed.follow(following)
    failed.add(**register.last_run(claim.task, "failed", claim.attempt, now))
    return failed


def _created_when_ignored(claim: Claim[T], failure: Failure, failures: list[Failure]) -> OptionalParticipant | None:
    """Return the follow-ups that the step declares for an ignored task."""
    statements, now = claim.statements, failure.time
    if statements.when_ignored is None:
        return None
    ignored = as_stored(claim.task)
    ignored.attribute_values.update(
        status=statements.codes.ignored, due_time=now, update_time=now, errors=failures, last_error=failure.one_line
    )
    return statements.when_ignored(ignored)


def _failure_of(journal: Journal[T], error: BaseException) -> Failure:
    """Return the record of the user's exception, with only its type if reading its texts was interrupted."""
    claim = journal.claim
    message = "<reading its message was interrupted>"
    failure = Failure(claim.step, claim.attempt, clock.now(), str(claim.task.worker), type_of(error), message)
    journal.failure = failure
    journal.failure = failure.with_texts_of(error, claim.task.redact)
    return journal.failure


def release(journal: Journal[T], *, begun: bool = True) -> None:
    """Release the task: it is pending at this step and due at once, and the attempt does not count.

    After many releases, attempts count, because the task itself may end its worker each time. Releases before the block
    has `begun` are not among them.
    """
    claim = journal.claim
    codes, attempt, releases = claim.statements.codes, claim.attempt - 1, claim.release_count + begun
    if releases > _MOST_RELEASES:
        attempt = claim.attempt
        log.warning(
            "%s was released, and counts: %d earlier releases did not", claim, _MOST_RELEASES, extra=claim.log_fields
        )
    release = build_end(claim, "release", codes.pending, clock.now(), attempt=attempt)
    release.add(release_count=releases or None)
    register.change_other_end(journal, release)
    send_until_landed(journal, release)
    release.apply_to(claim.task)
    journal.outcome = "released"


def _later(now: datetime, delay: timedelta) -> datetime:
    try:
        return min(now + delay, clock.LATEST)
    except OverflowError:
        return clock.LATEST
