"""Transitions outside a run: reopen, ignore and release by command; and spend, if no attempt is left."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.model.failure import Failure, scrubbed
from pynamodb_tracker.model.failure_log import failures_in_row, fits_row, for_row, has_log
from pynamodb_tracker.model.overflow import version_outside_run
from pynamodb_tracker.model.row import (
    Membership,
    TaskRow,
    check_tracker_attributes,
    load,
    may_expire,
    membership_of,
)
from pynamodb_tracker.model.row_state import readable_value
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.transitions.company import send_with_company
from pynamodb_tracker.transitions.finishes import after_last_failure, company_of_end
from pynamodb_tracker.transitions.lock import new_token
from pynamodb_tracker.transitions.overflow_retention import expire, expire_again, keep
from pynamodb_tracker.transitions.overflow_writes import log_failures
from pynamodb_tracker.transitions.refusals import (
    check_format,
    check_life,
    held_by_another,
    is_abandoned,
    kept_changing,
    not_found,
    refusal,
)
from pynamodb_tracker.transitions.statements import StepStatements, get, raise_if_damaged
from pynamodb_tracker.transitions.transition import Stored, Transition

T = TypeVar("T", bound=TaskRow)

_TRIES = 4


def reopen(statements: StepStatements[T], task_id: str, by: str | None = None) -> T:
    """Make a failed or ignored task pending, with fresh attempts, and return it; a pending one is not changed.

    One that waits for others goes on waiting.
    """
    codes, operation, token, kept = statements.codes, f"reopen {statements.codes.step} of", new_token(), False
    found: T | None = None
    try:
        for _ in range(_TRIES):
            try:
                if found is not None and membership_of(found) is Membership.ENDED:
                    reopened = _enter_again(statements, found, token, by, kept=kept)
                else:
                    answer = _send_reopen(statements, task_id, token, by, kept=kept, found=found)
                    reopened = load(statements.model, answer["Attributes"])
            except Refused:
                row = _read(statements, task_id, operation)
            else:
                kept = False
                return reopened
            if row.status == codes.pending:
                return row
            if row.status not in (codes.failed, codes.ignored):
                raise refusal(statements, row, operation)
            token, found = new_token(above=row.lock), row
            if row.expire_time is not None:
                kept = True
                keep(statements.model, row, token, operation)
        raise kept_changing(statements, task_id, operation, _TRIES)
    finally:
        if kept:
            expire_again(statements.model, task_id)


def _send_reopen(
    statements: StepStatements[T], task_id: str, token: str, by: str | None, *, kept: bool, found: T | None
) -> dict[str, Any]:
    """Send a reopen; with `by`, it appends to `errors` who did it, if the row has room for that.

    A row that was `found` may say when it is due: a task that waits for others, or repeats.
    """
    now, following = clock.now(), Transition("", None)
    if found is not None and found.repeat is not None:
        following = _turn_of_reopen(statements, found, now)
    if following.due is None and found is not None:
        following.due = _parked_until(found)

    def reopen(entry: list[dict[str, Any]] | None) -> dict[str, Any]:
        transition = statements.reopen(token, found, following, kept=kept, entry=entry)
        return statements.send(statements.moved(transition, task_id, now), task_id)

    if by is not None:
        try:
            return reopen(for_row([Failure(statements.codes.step, 0, now, by, "reopened", "")], logged=False))
        except PynamoDBConnectionError as refused:
            if not is_invalid(refused):
                raise
    try:
        return reopen(None)
    except PynamoDBConnectionError as refused:
        raise_if_damaged(statements.model, task_id, refused)
        raise


def _enter_again(statements: StepStatements[T], row: T, token: str, by: str | None, *, kept: bool) -> T:
    """Let a task whose turn has passed enter its group at the end, and return it; with `by`, as `_send_reopen`."""
    from pynamodb_tracker.transitions.group_members import ReopenedMember  # noqa: PLC0415 - few are in a group
    from pynamodb_tracker.transitions.groups import Groups, enter  # noqa: PLC0415 - as above

    codes, now, entries = statements.codes, clock.now(), list[list[dict[str, Any]]]()
    if by is not None:
        entries.append(for_row([Failure(codes.step, 0, now, by, "reopened", "")], logged=False))

    def own(number: int, *, has_turn: bool) -> dict[str, Any]:
        entering = statements.enter_again(token, row, kept=kept, entry=entries[0] if entries else None)
        entering.due = _parked_until(row) if has_turn else clock.NEVER
        entering.add(group_number=number)
        if not has_turn:
            entering.add(starts=now, waits=(readable_value(row, "waits") or 0) + 1)
        return statements.as_action(statements.moved(entering, row.task_id, now), row.task_id)

    groups, member = Groups(), ReopenedMember(row, codes.pending, now, own)
    groups.of(type(row), row.group).entrants.append(member)
    unapplied = enter(statements.table, member.action, groups)
    if unapplied and entries and is_invalid(unapplied.error):
        entries.clear()  # the row has no room for who did it
        unapplied = enter(statements.table, member.action, groups)
    if unapplied is None:
        return _read(statements, row.task_id, f"reopen {codes.step} of")
    raise Refused(repeated=unapplied.unheard) if unapplied.refused else unapplied.error


def _parked_until(row: TaskRow) -> datetime | None:
    """Return when a task is due that waits for others, if none of them ends; None if it waits for none."""
    wait_until: datetime | None = row.wait_until
    return None if readable_value(row, "waits") is None else wait_until or clock.NEVER


def _turn_of_reopen(statements: StepStatements[T], row: T, now: datetime) -> Transition:
    """Return for which turn a task that repeats is pending: the next one, unless it goes on with the present one."""
    from pynamodb_tracker.transitions.repeats import begun_again, turn_when_reopened  # noqa: PLC0415 - few tasks repeat

    is_first = statements.codes.pending == row.tracker.steps[0].pending
    if is_first and row.status == statements.codes.ignored and (turn := turn_when_reopened(row, now)):
        return begun_again(row, turn)
    return Transition("", statements.codes.pending)


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
    """Ignore a runnable or abandoned task, with the reason in `errors`, and return it; an ignored one is not changed.

    With `even_running`, also one that a worker holds: nothing more of its run is recorded. In a group, that needs
    `even_in_group`, too, because the next task gets the turn while the block may still run. If the caller has `found`
    its row, that is read again only if it has changed.
    """
    codes, operation = statements.codes, f"ignore {statements.codes.step} of"
    meant: T | None = None
    for _ in range(_TRIES):
        row, now = _read(statements, task_id, operation, found), clock.now()
        check_life(row, meant, operation)
        found, meant = None, row
        if row.status == codes.ignored:
            return row
        if row.status in (codes.pending, codes.failed) or is_abandoned(row, codes, now):
            transition = statements.ignore(row)
        elif row.status == codes.in_progress and even_running and (even_in_group or row.group is None):
            transition = statements.cancel(row)
        else:
            raise refusal(statements, row, operation, _if_held(row))
        entry = _entry("ignored", row, codes.step, now, reason=reason, by=by)
        if ignored := _move(statements, transition, row, entry):
            return ignored
    raise kept_changing(statements, task_id, operation, _TRIES)


def _if_held(row: TaskRow) -> str:
    """Return how a task is ignored although a worker holds it."""
    if row.group is None:
        return "; ignore takes even_running=True to cancel its run"
    return (
        f"; if it were ignored, the next task of group {row.group!r} would start while its block may still run; ignore "
        "takes even_running=True and even_in_group=True to cancel its run all the same"
    )


def revoke(
    statements: StepStatements[T], task_id: str, reason: str, worker: str | None = None, by: str | None = None
) -> T:
    """Release a task whose worker is known to be dead, with the reason in `errors`, and return it.

    A task that no worker holds at this step, pending or failed, is not changed. Only the claim that was read is
    released: a late copy of the request does not release the next worker's.
    """
    codes, operation = statements.codes, f"release {statements.codes.step} of"
    row, now = _read(statements, task_id, operation), clock.now()
    if row.status in (codes.pending, codes.failed):
        return row
    if row.status != codes.in_progress:
        raise refusal(statements, row, operation)
    if worker is not None and row.worker != worker:
        raise held_by_another(statements, row, operation, worker)
    entry = _entry("released", row, codes.step, now, reason=reason, by=by)
    if released := _move(statements, statements.revoke(row), row, entry, keeps_last_error=True):
        return released
    found = get(statements.model, task_id)
    if found is None:
        raise not_found(statements, task_id, operation)
    check_life(found, row, operation)
    if found.status in (codes.pending, codes.failed) or _has(found, entry):  # a repeated request met its own success
        return found
    if found.status == codes.in_progress:
        raise held_by_another(statements, found, operation, f"the claim of {row.worker} that was to be released")
    raise refusal(statements, found, operation)


def _read(statements: StepStatements[T], task_id: str, operation: str, found: T | None = None) -> T:
    """Read a task that a command is about, unless it was `found`; raise if there is none, or its format is unknown."""
    row = get(statements.model, task_id) if found is None else check_tracker_attributes(found)
    if row is None:
        raise not_found(statements, task_id, operation)
    check_format(row, operation)
    return row


def _has(row: TaskRow, entry: Failure) -> bool:
    """Return whether the errors of the row have this entry of a command."""
    return any((each.time, each.type) == (entry.time, entry.type) for each in failures_in_row(row))


def spend(statements: StepStatements[T], row: T, now: datetime) -> T | None:
    """Ignore a task that has no attempt left, and return it; None if it has changed since it was read.

    One that repeats goes on with its next occurrence.
    """
    codes, following = statements.codes, after_last_failure(row, now)
    abandoned = row.status == codes.in_progress
    died = ", the last one by a worker that died or lost its lock" if abandoned else ""
    reason = f"{row.attempt} of {statements.max_attempts} attempts are used{died}"
    if following is not None:
        skip = statements.skip(row, following, abandoned=abandoned)
        return _move(statements, skip, row, _entry("skipped", row, codes.step, now, reason=reason))
    spend = statements.spend(row, abandoned=abandoned)
    return _move(statements, spend, row, _entry("ignored", row, codes.step, now, reason=reason))


def _entry(kind: str, row: T, step: str, now: datetime, *, reason: str, by: str | None = None) -> Failure:
    """Return what `errors` keeps of a command: no failure, but what was done to the task, who did it, and why."""
    return Failure(step, row.attempt, now, by or this_worker(), kind, scrubbed(reason, row.redact))


def _move(
    statements: StepStatements[T], transition: Transition, row: T, entry: Failure, *, keeps_last_error: bool = False
) -> T | None:
    """Move a task to another state and append the entry to its errors; return it, or None if it has changed."""
    now, token = entry.time, new_token(above=row.lock)
    failures, had_log = [*failures_in_row(row), entry], has_log(row)
    logged = had_log or not fits_row(failures)
    is_ignored = transition.code == statements.codes.ignored
    transition.expires = may_expire(row)
    last_error = {} if keeps_last_error else {"last_error": entry.one_line}
    statements.by_command(transition, row, now, token, errors=Stored(for_row(failures, logged=logged)), **last_error)
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


def _ignored_together(
    statements: StepStatements[T], transition: Transition, row: T, failures: list[Failure], *, alone: bool = False
) -> T | None:
    """Ignore a task together with what it takes with it then; None if that is nothing, or cannot be written.

    If it is to be ignored `alone`, it creates nothing.
    """
    when_ignored, company = None if alone else statements.when_ignored, company_of_end(row)
    if when_ignored is None and not company:
        return None
    ignored = load(statements.model, transition.stored_after(row._row_state.stored))
    ignored.attribute_values["errors"] = failures
    own = statements.as_action(transition, row.task_id)
    optional = when_ignored(ignored) if when_ignored else None
    is_applied = send_with_company(statements.table, own, company, optional)
    if is_applied and optional is not None and optional.interrupt is not None:
        raise optional.interrupt
    return ignored if is_applied else None
