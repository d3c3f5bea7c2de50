"""The commands ignore, cancel and unlock, and the end of a task that has no attempt left."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.exceptions import TaskAlreadySucceededError, TaskNotStartableError
from pynamodb_tracker.features.overflow import expire, log_failures
from pynamodb_tracker.model.failure import Failure, scrubbed
from pynamodb_tracker.model.failure_log import failures_in_row, for_row, has_log
from pynamodb_tracker.model.overflow import version_outside_run
from pynamodb_tracker.model.row import TaskRow, check_tracker_attributes, load, may_expire
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.status import END
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes import register
from pynamodb_tracker.writes.conditions import seen_values
from pynamodb_tracker.writes.lock import new_token
from pynamodb_tracker.writes.participants import send_with
from pynamodb_tracker.writes.refusals import (
    abandoned_attempts,
    check_format,
    check_life,
    held_by_another,
    is_abandoned,
    kept_changing,
    lock_is_valid,
    not_found,
    refusal,
)
from pynamodb_tracker.writes.statements import StepStatements, get, is_urgent, times_seen
from pynamodb_tracker.writes.transition import ZERO, Same, Stored, Transition

T = TypeVar("T", bound=TaskRow)

_TRIES = 4


def ignore(
    statements: StepStatements[T],
    task_id: str,
    reason: str,
    by: str | None = None,
    *,
    even_running: bool = False,
    even_in_group: bool = False,
    found: T | None = None,
) -> T:
    """Ignore a runnable or abandoned task and return it. A task that is already ignored does not change.

    Args:
        statements: Those of the step.
        task_id: The task.
        reason: Stored in `errors`.
        by: Who ignores it.
        even_running: Also ignore a task that a worker holds. Nothing more of its run is recorded.
        even_in_group: Needed in addition for a running task of a group: the next task gets the turn while the block may
            still run.
        found: The row, if the caller has read it. It is read again only if it has changed.
    """
    operation = f"ignore {statements.codes.step} of"
    meant: T | None = None
    for _ in range(_TRIES):
        row = read(statements, task_id, operation, found)
        check_life(row, meant, operation)
        found, meant = None, row
        if row.status == statements.codes.ignored:
            return row
        how = even_running and (even_in_group or row.group is None)
        _, ignored = _ignore(statements, row, reason, by, operation, even_running=how, if_held=_if_held(row))
        if ignored:
            return ignored
    raise kept_changing(statements, task_id, operation, _TRIES)


def _if_held(row: TaskRow) -> str:
    if row.group is None:
        return "; ignore takes even_running=True to cancel its run"
    return (
        f"; if it were ignored, the next task of group {row.group!r} would start while its block may still run; ignore "
        "takes even_running=True and even_in_group=True to cancel its run all the same"
    )


def _ignore(
    statements: StepStatements[T],
    row: T,
    reason: str,
    by: str | None,
    operation: str,
    *,
    even_running: bool,
    if_held: str,
    is_cancel: bool = False,
) -> tuple[Failure, T | None]:
    """Ignore a task at this step. Return the entry of `errors`, and the task, or None if it has changed.

    After a cancel, no start takes the task, even if `also_from` lists its state.
    """
    codes, now = statements.codes, clock.now()
    if row.status in (codes.pending, codes.failed) or is_abandoned(row, codes, now):
        transition = statements.ignore(row)
    elif row.status == codes.in_progress and even_running:
        transition = statements.cancel(row)
    else:
        raise refusal(statements, row, operation, if_held)
    if is_cancel:
        transition.add(cancel_time=now)
    entry = _entry("ignored", row, codes.step, now, reason=reason, by=by)
    return entry, _move(statements, transition, row, entry)


def cancel(
    steps: Sequence[StepStatements[T]],
    task_id: str,
    reason: str,
    by: str | None,
    *,
    even_in_group: bool,
    parent: str | None = None,
) -> tuple[T, bool, bool] | None:
    """Ignore a task at its present step. Return it, whether this call did that, and whether a worker held it.

    If the task moves to another step in the meantime, it is ignored there. Raises TaskAlreadySucceededError if it has
    ended. With a `parent`, the stored reference to a task, only a child of that task is ignored. Returns None if that
    child no longer exists.
    """
    sent: Failure | None = None
    meant, was_running, tries = None, False, 2 * len(steps) + 4
    for _ in range(tries):
        found = get(steps[0].model, task_id)
        if parent is not None and (found is None or found.parent != parent):
            return None
        row = _checked(steps[0], found, task_id, "cancel")
        check_life(row, meant, "cancel")
        meant = row
        if sent is not None and _has(row, sent):  # a repeated request met its own success
            return row, True, was_running
        here = next((each for each in steps if row.status in each.codes.own), None)
        if here is None:
            kind, why = TaskNotStartableError, "no step has that"
            if row.status == END:
                kind, why = TaskAlreadySucceededError, "it has ended"
            what = f"cannot cancel {type(row).__name__} {task_id!r}: it is {row.tracker.name_of(row.status)}, and {why}"
            raise kind(what, task_id=task_id, task=row)
        if row.status == here.codes.ignored:
            if marked := _mark_cancelled(here, row):
                return marked, False, False
            continue
        was_running = row.status == here.codes.in_progress and not is_abandoned(row, here.codes, clock.now())
        may, advice = even_in_group or row.group is None, "; cancel takes even_in_group=True to do so all the same"
        if_held = f"; the next task of group {row.group!r} would start while its block may still run{advice}"
        sent, ignored = _ignore(here, row, reason, by, "cancel", even_running=may, if_held=if_held, is_cancel=True)
        if ignored:
            return ignored, True, was_running
    raise kept_changing(steps[0], task_id, "cancel", tries)


def _mark_cancelled(statements: StepStatements[T], row: T) -> T | None:
    """Note that an ignored task was cancelled, and return it, or None if it has changed."""
    if row.cancel_time is not None:
        return row
    mark = mark_cancelled(row, clock.now(), new_token(above=row.lock))
    try:
        return load(statements.model, statements.send(mark, row.task_id)["Attributes"])
    except Refused:
        return None


def mark_cancelled(row: TaskRow, now: datetime, token: str) -> Transition:
    """Note that an ignored task was cancelled. Its errors and times stay."""
    mark = Transition("mark cancelled", None, when.as_read())
    mark.add(when.lock_seen(is_there=row.lock is not None), when.known_format())
    mark.add(seen={**seen_values(row), "seen_lock": row.lock}, cancel_time=now, lock=token)
    mark.returns_row = True
    return mark


def unlock(
    statements: StepStatements[T],
    task_id: str,
    reason: str,
    *,
    fencing_token: str | None = None,
    worker: str | None = None,
    by: str | None = None,
) -> T:
    """Unlock a task whose worker is known to be dead, with the reason in `errors`, and return it.

    A task that is pending or failed at this step does not change. Only the claim that was read is released: a late copy
    of the request does not release the next worker's claim.

    Raises TaskLockedError unless the task is held by that claim, or that worker. Without both, its lock must have
    expired.
    """
    codes, operation = statements.codes, f"unlock {statements.codes.step} of"
    row, now = read(statements, task_id, operation), clock.now()
    if row.status in (codes.pending, codes.failed):
        return row
    if row.status != codes.in_progress:
        raise refusal(statements, row, operation)
    if worker is not None and row.worker != worker:
        raise held_by_another(row, operation, worker)
    if fencing_token is not None and row.lock != fencing_token:
        raise held_by_another(row, operation, f"the claim with fencing token {fencing_token}")
    if worker is fencing_token is None and not is_abandoned(row, codes, now):
        raise lock_is_valid(row, operation)
    entry = _entry("unlocked", row, codes.step, now, reason=reason, by=by)
    if unlocked := _move(statements, statements.unlock(row), row, entry, keeps_last_error=True):
        return unlocked
    found = get(statements.model, task_id)
    if found is None:
        raise not_found(statements, task_id, operation)
    check_life(found, row, operation)
    if found.status in (codes.pending, codes.failed) or _has(found, entry):  # a repeated request met its own success
        return found
    if found.status == codes.in_progress:
        raise held_by_another(found, operation, f"the claim of {row.worker} that was to be unlocked")
    raise refusal(statements, found, operation)


def read(statements: StepStatements[T], task_id: str, operation: str, found: T | None = None) -> T:
    """Read a command's task, unless it was `found`. Raise if it does not exist, or its format is unknown."""
    row = get(statements.model, task_id) if found is None else check_tracker_attributes(found)
    return _checked(statements, row, task_id, operation)


def _checked(statements: StepStatements[T], row: T | None, task_id: str, operation: str) -> T:
    if row is None:
        raise not_found(statements, task_id, operation)
    check_format(row, operation)
    return row


def _has(row: TaskRow, entry: Failure) -> bool:
    sent = (entry.time, entry.type, entry.step, entry.worker)
    return any((each.time, each.type, each.step, each.worker) == sent for each in failures_in_row(row))


def spend(statements: StepStatements[T], row: T, now: datetime) -> T | None:
    """Ignore a task that has no attempt left, and return it, or None if it has changed.

    A task that repeats continues with its next occurrence.
    """
    codes, following = statements.codes, register.after_last_failure(row, now)
    abandoned = row.status == codes.in_progress
    without_result = abandoned_attempts(row, codes, now) if abandoned else ()
    died = ", the last one by a worker that died or lost its lock" if abandoned else ""
    reason = f"{row.attempt} of {statements.max_attempts} attempts are used{died}"
    if following is None:
        kind, transition = "ignored", ignore_spent(statements, row, abandoned=abandoned)
    else:
        kind, transition = "skipped", skip(row, following, abandoned=abandoned)
    entry = _entry(kind, row, codes.step, now, reason=reason)
    return _move(statements, transition, row, entry, after=without_result)


def ignore_spent(statements: StepStatements[T], row: T, *, abandoned: bool) -> Transition:
    """Ignore a runnable or abandoned task that has no attempt left. Its fence stays in `unfinished`."""
    spend = Transition("spend abandoned" if abandoned else "spend", statements.codes.ignored, when.as_read())
    spend.add(*([when.lock_expired()] if abandoned else []), seen=seen_values(row))
    return spend


def skip(row: TaskRow, following: Transition, *, abandoned: bool) -> Transition:
    """Let a task without an attempt left begin its next round, `following`. Its fence stays in `unfinished`.

    The turn depends on the task's rule, which a merge may change.
    """
    skip = Transition("skip", following.code, when.as_read(), due=following.due)
    skip.add(
        when.requests_as_seen(is_there=row.request_count is not None), *([when.lock_expired()] if abandoned else [])
    )
    skip.seen, skip.changes = {**seen_values(row), "seen_asked": str(row.request_count)}, following.changes
    skip.add(attempt=ZERO, release_count=None, **{**following.values, "round": Same("lock")})
    return skip


def _entry(kind: str, row: T, step: str, now: datetime, *, reason: str, by: str | None = None) -> Failure:
    """Return the entry of `errors` for a command: not a failure, but who did what to the task, and why."""
    return Failure(step, row.attempt, now, by or this_worker(), kind, scrubbed(reason, row.redact))


def _move(
    statements: StepStatements[T],
    transition: Transition,
    row: T,
    entry: Failure,
    *,
    after: Sequence[Failure] = (),
    keeps_last_error: bool = False,
) -> T | None:
    """Move a task to another state, and append `after` and the entry to its errors.

    Return the task, or None if it has changed.
    """
    now, token = entry.time, new_token(above=row.lock)
    failures, had_log = [*failures_in_row(row), *after, entry], has_log(row)
    entries, logged = for_row(row, [*after, entry], may_log=not after or had_log)  # short entries are worth no request
    is_ignored = transition.code == statements.codes.ignored
    transition.expires, transition.is_urgent = may_expire(row), is_urgent(row)
    last_error = {} if keeps_last_error else {"last_error": entry.one_line}
    if entry.type != "unlocked":
        transition.add(**register.last_run(row, entry.type, entry.attempt, now))
    by_command(statements, transition, now, token, errors=Stored(entries), **last_error)
    try:
        moved = None
        try:
            if is_ignored:
                moved = _ignored_together(statements, transition, row, failures)
            moved = moved or load(statements.model, statements.send(transition, row.task_id)["Attributes"])
        except (PynamoDBConnectionError, TransactWriteError) as refused:
            if not is_invalid(refused):
                raise
            logged = False  # the row has no room for the reason
            transition.values |= {"errors": Stored([]), **dict.fromkeys(last_error, entry.type)}
            transition.values.pop("last_run", None)
            if is_ignored:
                moved = _ignored_together(statements, transition, row, [], alone=True)
            moved = moved or load(statements.model, statements.send(transition, row.task_id)["Attributes"])
    except Refused:
        return None
    if logged:
        moved.attribute_values["errors"] = failures
        moved._row_state.failures_whole = not had_log
        log_failures(statements, moved, token, version_outside_run(row.create_time, row.fence, token))
    if statements.has_expiry:
        expire(statements, moved)
    return moved


def by_command(
    statements: StepStatements[T], transition: Transition, now: datetime, token: str, **entries: Any
) -> Transition:
    """Complete a command's transition with its `errors` and `last_error`, and a later token.

    Without that token, the late copy of a refused reopen could undo the command.
    """
    transition.add(when.known_format(), seen=times_seen(now, statements.model.tracker.margin))
    transition.time, transition.returns_row = now, True
    transition.values = {**entries, "lock": token, **transition.values}
    return transition


def _ignored_together(
    statements: StepStatements[T], transition: Transition, row: T, failures: list[Failure], *, alone: bool = False
) -> T | None:
    """Ignore a task together with its participants. Return None if there are none, or they cannot be written.

    A task that is ignored `alone` creates no follow-ups.
    """
    when_ignored, participants = None if alone else statements.when_ignored, register.at_ignored(row)
    if when_ignored is None and not participants:
        return None
    own = statements.as_action(transition, row.task_id)
    ignored = load(statements.model, transition.stored_after(row._row_state.stored))
    ignored.attribute_values["errors"] = failures
    optional = when_ignored(ignored) if when_ignored else None
    is_applied = send_with(statements.table, own, participants, optional)
    if is_applied and optional is not None and optional.interrupt is not None:
        raise optional.interrupt
    return ignored if is_applied else None
