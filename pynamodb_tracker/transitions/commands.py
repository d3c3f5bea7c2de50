"""The commands ignore and unlock, the end of a task that has no attempt left, and what all commands share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.features.overflow import expire, log_failures
from pynamodb_tracker.model.failure import Failure, redact_text
from pynamodb_tracker.model.failure_log import failures_in_row, for_row, has_log
from pynamodb_tracker.model.overflow import version_outside_run
from pynamodb_tracker.model.row import TaskRow, check_tracker_attributes, load, may_expire
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes import register
from pynamodb_tracker.writes.conditions import seen_values
from pynamodb_tracker.writes.lock import new_token
from pynamodb_tracker.writes.participants import Action, Participant, send_with
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
        if ignored := _ignore(statements, row, reason, by, operation, even_running=how):
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
) -> T | None:
    """Ignore a task at this step, and return it, or None if it has changed."""
    codes, now = statements.codes, clock.now()
    if row.status in (codes.pending, codes.failed) or is_abandoned(row, codes, now):
        transition = statements.ignore(row)
    elif row.status == codes.in_progress and even_running:
        transition = statements.ignore_running(row)
    else:
        raise refusal(statements, row, operation, _if_held(row))
    entry = entry_of("ignored", row, codes.step, now, reason=reason, by=by)
    return Command(statements, transition, row, entry).send()


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
    entry = entry_of("unlocked", row, codes.step, now, reason=reason, by=by)
    if unlocked := Command(statements, statements.unlock(row), row, entry).send():
        return unlocked
    found = get(statements.model, task_id)
    if found is None:
        raise not_found(statements, task_id, operation)
    check_life(found, row, operation)
    if found.status in (codes.pending, codes.failed) or has_entry(
        found, entry
    ):  # a repeated request met its own success
        return found
    if found.status == codes.in_progress:
        raise held_by_another(found, operation, f"the claim of {row.worker} that was to be unlocked")
    raise refusal(statements, found, operation)


def read(statements: StepStatements[T], task_id: str, operation: str, found: T | None = None) -> T:
    """Read a command's task, unless it was `found`. Raise if it does not exist, or its format is unknown."""
    row = get(statements.model, task_id) if found is None else check_tracker_attributes(found)
    return checked(statements, row, task_id, operation)


def checked(statements: StepStatements[T], row: T | None, task_id: str, operation: str) -> T:
    """Return a row that was read. Raise if there is none, or its format is unknown."""
    if row is None:
        raise not_found(statements, task_id, operation)
    check_format(row, operation)
    return row


def has_entry(row: TaskRow, entry: Failure) -> bool:
    """Return whether a command whose response was lost has been applied: the row has its entry of `errors`."""
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
    entry = entry_of(kind, row, codes.step, now, reason=reason)
    return Command(statements, transition, row, entry, after=without_result).send()


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


def entry_of(kind: str, row: T, step: str, now: datetime, *, reason: str, by: str | None = None) -> Failure:
    """Return the entry of `errors` for a command: not a failure, but who did what to the task, and why."""
    return Failure(step, row.attempt, now, by or this_worker(), kind, redact_text(reason, row.redact))


class Command(Generic[T]):
    """The write of a command: a transition of a row that was read, with an entry of `errors`."""

    def __init__(
        self,
        statements: StepStatements[T],
        transition: Transition,
        row: T,
        entry: Failure,
        *,
        after: Sequence[Failure] = (),
        expires: bool | None = None,
    ) -> None:
        """By default, whether the task `expires` depends on its row."""
        self.statements, self.transition, self.row = statements, transition, row
        self.entry = entry
        """Who did what, and why. It comes after the failures in `after`."""
        self._token = new_token(above=row.lock)
        self._had_log = has_log(row)
        self.failures = [*failures_in_row(row), *after, entry]
        # Short entries are worth no request.
        entries, self._is_logged = for_row(row, [*after, entry], may_log=not after or self._had_log)
        transition.expires = may_expire(row) if expires is None else expires
        transition.is_urgent = is_urgent(row)
        last_error = {}
        if entry.type != "unlocked":
            transition.add(**register.last_run(row, entry.type, entry.attempt, entry.time))
            last_error = {"last_error": entry.one_line}
        by_command(statements, transition, entry.time, self._token, errors=Stored(entries), **last_error)

    def send(self) -> T | None:
        """Move the task to another state, and return it, or None if it has changed."""
        try:
            try:
                return self.applied(self._sent())
            except (PynamoDBConnectionError, TransactWriteError) as refused:
                if not is_invalid(refused):
                    raise
                self.leave_entries_out()
                return self.applied(self._sent())
        except Refused:
            return None

    def leave_entries_out(self) -> None:
        """Leave the errors out, because the row has no room for them."""
        self.failures, self._is_logged = [], False
        self.transition.add(errors=Stored([]))
        if "last_error" in self.transition.values:
            self.transition.add(last_error=self.entry.type)
        self.transition.values.pop("last_run", None)

    def action(self) -> Action:
        """Return the write as an action of a transaction."""
        return self.statements.as_action(self.transition, self.row.task_id)

    def loaded_after(self) -> T:
        """Return the task as it is after the write, according to the row that was read."""
        self.statements.complete(self.transition, self.row.task_id)  # with its times, also before it is sent
        after = load(self.statements.model, self.transition.stored_after(self.row._row_state.stored))
        after.attribute_values["errors"] = self.failures
        return after

    def participants(self) -> Sequence[Participant]:
        """Return the participants in ending the task, if the write does that."""
        return register.at_ignored(self.row) if self.row.tracker.ends_at(self.transition.code or 0) else ()

    def applied(self, moved: T) -> T:
        """Return the task after its write. Log its failures, and let what lies beside its row expire."""
        statements = self.statements
        if self._is_logged:
            moved.attribute_values["errors"] = self.failures
            moved._row_state.failures_whole = not self._had_log
            version = version_outside_run(self.row.create_time, self.row.fence, self._token)
            log_failures(statements, moved, self._token, version)
        if statements.has_expiry:
            expire(statements, moved)
        return moved

    def _sent(self) -> T:
        """Send the write, if it ends the task together with its participants, and return the task after it."""
        is_ignored = self.transition.code == self.statements.codes.ignored
        # A task whose row has no room for the reason creates no follow-ups.
        when_ignored = self.statements.when_ignored if is_ignored and self.failures else None
        participants = self.participants()
        if participants or when_ignored:
            after = self.loaded_after()
            optional = when_ignored(after) if when_ignored else None
            if send_with(self.statements.table, self.action(), participants, optional):
                if optional is not None and optional.interrupt is not None:
                    raise optional.interrupt
                return after
        return load(self.statements.model, self.statements.send(self.transition, self.row.task_id)["Attributes"])


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
