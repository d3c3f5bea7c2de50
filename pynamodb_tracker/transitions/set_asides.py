"""Transitions outside a run: reopen, ignore and release by command; and spend, if no attempt is left."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from pynamodb.constants import LIST, MAP, NUMBER, STRING
from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused, shares_requests
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
from pynamodb_tracker.transitions.conditions import seen_values
from pynamodb_tracker.transitions.ending import Ending
from pynamodb_tracker.transitions.finishes import company_of_end, ending_after_last_failure
from pynamodb_tracker.transitions.lock import new_token
from pynamodb_tracker.transitions.overflow_retention import expire, expire_again, keep
from pynamodb_tracker.transitions.overflow_writes import log_failures
from pynamodb_tracker.transitions.prepared import PreparedWrite
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
    codes, now = statements.codes, clock.now()
    parked = None if found is None else _parked_until(found)
    ending = None if found is None or found.repeat is None else _ending_of_reopen(statements, found, now)
    due = parked if ending is None or ending.due is None else ending.due
    values = {"token": token, **statements.moved(codes.pending, task_id, now, due)}
    variant: dict[str, Any] = {"kept": kept, "parked": parked is not None, "ending": ending}
    if found is not None:
        values |= {**seen_values(found), "seen_asked": str(found.asked), **(ending.values if ending else {})}
        variant |= {"is_read": True, "has_asked": found.asked is not None, "membership": membership_of(found)}
    if by is not None:
        entry = for_row([Failure(codes.step, 0, now, by, "reopened", "")], logged=False)
        try:
            # What has failed or was ignored has errors, unless it was created so: that takes the second try.
            has_errors = found is None and shares_requests()
            write = statements.reopen(recorded=True, has_errors=has_errors, **variant)
            return statements.send(write, task_id, entry=entry, entry_map=entry[0][MAP], **values)
        except PynamoDBConnectionError as refused:
            if not is_invalid(refused):
                raise
    try:
        return statements.send(statements.reopen(recorded=False, **variant), task_id, **values)
    except PynamoDBConnectionError as refused:
        raise_if_damaged(statements.model, task_id, refused)
        raise


def _enter_again(statements: StepStatements[T], row: T, token: str, by: str | None, *, kept: bool) -> T:
    """Let a task whose turn has passed enter its group at the end, and return it; with `by`, as `_send_reopen`."""
    from pynamodb_tracker.transitions.group_members import ReopenedMember  # noqa: PLC0415 - few are in a group
    from pynamodb_tracker.transitions.groups import Groups, enter  # noqa: PLC0415 - as above

    codes, now, entry = statements.codes, clock.now(), None
    if by is not None:
        entry = for_row([Failure(codes.step, 0, now, by, "reopened", "")], logged=False)
    moved = statements.moved(codes.pending, row.task_id, now, _parked_until(row))
    values = {"token": token, "entry": entry, **moved, **seen_values(row)}
    recorded = [by is not None]

    def own(number: int, *, has_turn: bool) -> dict[str, Any]:
        waits = readable_value(row, "waits")
        write = statements.enter_again(kept=kept, recorded=recorded[0], has_turn=has_turn, waits=waits is not None)
        entering = {"number": str(number), "starts": clock.stamp(now), "waits": str((waits or 0) + 1)}
        if not has_turn:
            entering["due"] = clock.stamp(clock.NEVER)
        return statements.as_action(write, row.task_id, **{**values, **entering})

    groups, member = Groups(), ReopenedMember(row, codes.pending, now, own)
    groups.of(type(row), row.group).entrants.append(member)
    unapplied = enter(statements.table, member.action, groups)
    if unapplied and recorded[0] and is_invalid(unapplied.error):
        recorded[0] = False  # the row has no room for who did it
        unapplied = enter(statements.table, member.action, groups)
    if unapplied is None:
        return _read(statements, row.task_id, f"reopen {codes.step} of")
    raise Refused(repeated=unapplied.unheard) if unapplied.refused else unapplied.error


def _parked_until(row: TaskRow) -> datetime | None:
    """Return when a task is due that waits for others, if none of them ends; None if it waits for none."""
    wait_until: datetime | None = row.wait_until
    return None if readable_value(row, "waits") is None else wait_until or clock.NEVER


def _ending_of_reopen(statements: StepStatements[T], row: T, now: datetime) -> Ending:
    """Return for which turn a task that repeats is pending: the next one, unless it goes on with the present one."""
    from pynamodb_tracker.transitions.repeats import ending_at, turn_when_reopened  # noqa: PLC0415 - few tasks repeat

    is_first = statements.codes.pending == row.tracker.steps[0].pending
    if is_first and row.status == statements.codes.ignored and (turn := turn_when_reopened(row, now)):
        return ending_at(row, turn)
    return Ending(statements.codes.pending)


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
            write = statements.ignore(expires=may_expire(row), membership=membership_of(row))
        elif row.status == codes.in_progress and even_running and (even_in_group or row.group is None):
            write = statements.cancel(expires=may_expire(row))
        else:
            raise refusal(statements, row, operation, _if_held(row))
        entry = _entry("ignored", row, codes.step, now, reason=reason, by=by)
        if ignored := _move(statements, write, row, codes.ignored, entry):
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
    if released := _move(statements, statements.revoke, row, codes.pending, entry):
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
    codes, ending = statements.codes, ending_after_last_failure(row, now)
    abandoned = row.status == codes.in_progress
    died = ", the last one by a worker that died or lost its lock" if abandoned else ""
    reason = f"{row.attempt} of {statements.max_attempts} attempts are used{died}"
    if ending is not None:
        skip = statements.skip(ending, abandoned=abandoned, has_asked=row.asked is not None)
        entry = _entry("skipped", row, codes.step, now, reason=reason)
        return _move(statements, skip, row, ending.code, entry, ending=ending)
    write = statements.spend_abandoned if abandoned else statements.spend
    return _move(
        statements,
        write(expires=may_expire(row)),
        row,
        codes.ignored,
        _entry("ignored", row, codes.step, now, reason=reason),
    )


def _entry(kind: str, row: T, step: str, now: datetime, *, reason: str, by: str | None = None) -> Failure:
    """Return what `errors` keeps of a command: no failure, but what was done to the task, who did it, and why."""
    return Failure(step, row.attempt, now, by or this_worker(), kind, scrubbed(reason, row.redact))


def _move(
    statements: StepStatements[T],
    write: PreparedWrite,
    row: T,
    code: int,
    entry: Failure,
    *,
    ending: Ending | None = None,
) -> T | None:
    """Move a task to that state and append the entry to its errors; return it, or None if it has changed."""
    now, token = entry.time, new_token(above=row.lock)
    failures, had_log = [*failures_in_row(row), entry], has_log(row)
    logged = had_log or not fits_row(failures)
    values = {
        "token": token,
        "seen_lock": row.lock,
        **seen_values(row),
        "now_plus_margin": clock.stamp(now + row.tracker.margin),
        "now_minus_margin": clock.stamp(now - row.tracker.margin),
        "errors": for_row(failures, logged=logged),
        "last_error": entry.one_line,
        **statements.moved(code, row.task_id, now, None if ending is None else ending.due),
        **({"seen_asked": str(row.asked), **ending.values} if ending else {}),
    }
    try:
        is_ignored = code == statements.codes.ignored
        moved = None
        try:
            if is_ignored:
                moved = _ignored_together(statements, write, row, values, failures)
            moved = moved or load(statements.model, statements.send(write, row.task_id, **values)["Attributes"])
        except (PynamoDBConnectionError, TransactWriteError) as refused:
            if not is_invalid(refused):
                raise
            logged = False  # the row has no room for the reason
            values |= {"errors": [], "last_error": entry.type}
            if is_ignored:
                moved = _ignored_together(statements, write, row, values, [], alone=True)
            moved = moved or load(statements.model, statements.send(write, row.task_id, **values)["Attributes"])
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
    statements: StepStatements[T],
    write: PreparedWrite,
    row: T,
    values: Mapping[str, Any],
    failures: list[Failure],
    *,
    alone: bool = False,
) -> T | None:
    """Ignore a task together with what it takes with it then; None if that is nothing, or cannot be written.

    If it is to be ignored `alone`, it creates nothing.
    """
    when_ignored, company = None if alone else statements.when_ignored, company_of_end(row)
    if when_ignored is None and not company:
        return None
    stored = {
        "status": {NUMBER: str(statements.codes.ignored)},
        "status_key": {STRING: values["status_key"]},
        "due_time": {STRING: values["due"]},
        "update_time": {STRING: values["now"]},
        "lock": {STRING: values["token"]},
        "errors": {LIST: values["errors"]},
        "last_error": {STRING: values["last_error"]},
    }
    if "expiry" in values and may_expire(row):
        stored["expire_time"] = {NUMBER: values["expiry"]}
    before = dict(row._row_state.stored)
    if before.pop("starts", None):
        others = int(before.pop("waits")[NUMBER]) - 1
        stored |= {"waits": {NUMBER: str(others)}} if others else {}
    ignored = load(statements.model, {**before, **stored})
    ignored.attribute_values["errors"] = failures
    own = statements.as_action(write, row.task_id, **values)
    optional = when_ignored(ignored) if when_ignored else None
    is_applied = send_with_company(statements.table, own, company, optional)
    if is_applied and optional is not None and optional.interrupt is not None:
        raise optional.interrupt
    return ignored if is_applied else None
