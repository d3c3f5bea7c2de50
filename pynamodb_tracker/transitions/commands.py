"""The commands ignore, unlock and delete, and the base for all commands."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from pynamodb.constants import ALL_NEW, NUMBER, STRING
from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused, send
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.exceptions import TaskLockedError
from pynamodb_tracker.features.overflow import clear_orphans, expire, log_failures
from pynamodb_tracker.model.failure import Failure, redact_text
from pynamodb_tracker.model.failure_log import failures_in_row, for_row, has_log
from pynamodb_tracker.model.overflow import version_outside_run
from pynamodb_tracker.model.row import Membership, TaskRow, check_tracker_attributes, load, may_expire, membership_of
from pynamodb_tracker.model.status import CANCELLED, END, Status, end_of
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes import refusals
from pynamodb_tracker.writes.conditions import PreparedWrite
from pynamodb_tracker.writes.lock import new_token
from pynamodb_tracker.writes.participants import (
    Action,
    Participant,
    after_last_failure,
    deletion_participants,
    ignoring_participants,
    last_run,
    send_with,
)
from pynamodb_tracker.writes.transition import (
    ZERO,
    Same,
    StepStatements,
    Stored,
    Transition,
    get,
    is_urgent,
    times_seen,
)

T = TypeVar("T", bound=TaskRow)

_TRIES = 4
_SEEN = {"status": NUMBER, "fence": NUMBER, "attempt": NUMBER, "creation": STRING, "lock": STRING}
"""Attributes that show whether a row has changed."""


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

    `even_running` also ignores a task that a worker holds. In a group, that needs `even_in_group` as well, because the
    next task starts while the block may still run.
    """
    codes, operation = statements.codes, f"ignore {statements.codes.step} of"
    meant: T | None = None
    for _ in range(_TRIES):
        row, now = read_task(statements, task_id, operation, found), clock.now()
        refusals.check_life(row, meant, operation)
        found, meant = None, row
        if row.status == codes.ignored:
            return row
        if row.status in (codes.pending, codes.failed) or refusals.is_abandoned(row, codes, now):
            transition = build_ignore(statements, row)
        elif row.status == codes.in_progress and even_running and (even_in_group or row.group is None):
            transition = build_write_on_held(statements, "ignore running", codes.ignored, row)
        else:
            raise refusals.refusal(statements, row, operation, _advice_if_held(row))
        entry = build_entry("ignored", row, codes.step, now, reason=reason, by=by)
        if ignored := Command(statements, transition, row, entry).send():
            return ignored
    raise refusals.kept_changing_error(statements.model, task_id, operation, _TRIES)


def _advice_if_held(row: TaskRow) -> str:
    if row.group is None:
        return ". To ignore it now and cancel its run, pass even_running=True"
    return (
        f". If it were ignored now, the next task of group {row.group!r} would start while its block may still run. To "
        "do that anyway, pass even_running=True and even_in_group=True"
    )


def build_ignore(statements: StepStatements[T], row: T) -> Transition:
    """Ignore a task, which stops waiting for its turn in a group."""
    membership = membership_of(row)
    ignore = Transition("ignore", statements.codes.ignored, when.as_read(), when.free(statements.codes))
    ignore.add(when.later_token(), when.membership_seen(membership), seen=when.seen_values(row))
    if membership is Membership.QUEUE:
        ignore.add(turn_due_time=None, blockers=None)
    elif membership is Membership.QUEUE_AND_OTHERS:
        ignore.add(turn_due_time=None, blockers=row.blockers - 1)
    return ignore


def build_write_on_held(statements: StepStatements[T], name: str, code: int, row: T) -> Transition:
    """Take a task away from the claim that was read. The attempt counts."""
    write = Transition(name, code, when.held_as_seen(statements.codes))
    write.seen = {"seen_lock": row.lock}
    return write


def unlock(
    statements: StepStatements[T],
    task_id: str,
    reason: str,
    *,
    lock: str | None = None,
    worker: str | None = None,
    by: str | None = None,
) -> T:
    """Unlock a dead worker's task, and return it. A pending or failed task does not change.

    Raises TaskLockedError unless that claim or worker holds the task. If neither is given, its lock must have expired.
    """
    codes, operation = statements.codes, f"unlock {statements.codes.step} of"
    row, now = read_task(statements, task_id, operation), clock.now()
    if row.status in (codes.pending, codes.failed):
        return row
    if row.status != codes.in_progress:
        raise refusals.refusal(statements, row, operation)
    if worker is not None and row.worker != worker:
        raise refusals.other_holder_error(row, operation, worker)
    if lock is not None and row.lock != lock:
        raise refusals.other_holder_error(row, operation, f"the claim with fencing token {lock}")
    if worker is lock is None and not refusals.is_abandoned(row, codes, now):
        named = f"pass fencing_token={row.lock!r} or worker={row.worker!r}"
        why = f"its lock is valid until {row.lock_expire_time}. If {row.worker} is dead, {named}"
        raise refusals.build_error(row, TaskLockedError, operation, why)
    entry = build_entry("unlocked", row, codes.step, now, reason=reason, by=by)
    transition = build_write_on_held(statements, "unlock", codes.pending, row)
    if unlocked := Command(statements, transition, row, entry).send():
        return unlocked
    found = refusals.check_found(statements.model, get(statements.model, task_id), task_id, operation)
    refusals.check_life(found, row, operation)
    # The entry shows that a repeated request met its own success.
    if found.status in (codes.pending, codes.failed) or has_entry(found, entry):
        return found
    if found.status == codes.in_progress:
        raise refusals.other_holder_error(found, operation, f"the claim of {row.worker} that was to be unlocked")
    raise refusals.refusal(statements, found, operation)


def read_task(statements: StepStatements[T], task_id: str, operation: str, found: T | None = None) -> T:
    """Read a command's task unless it was `found`. Raise if it does not exist or its format is unknown."""
    row = get(statements.model, task_id) if found is None else check_tracker_attributes(found)
    return refusals.check_found(statements.model, row, task_id, operation)


def has_entry(row: TaskRow, entry: Failure) -> bool:
    """Return whether the row's `errors` show that a command was applied."""
    sent = (entry.time, entry.type, entry.step, entry.worker)
    return any((each.time, each.type, each.step, each.worker) == sent for each in failures_in_row(row))


def spend(statements: StepStatements[T], row: T, now: datetime) -> T | None:
    """Ignore a task without attempts left, or start its next round. Return it, or None if it has changed."""
    codes, following = statements.codes, after_last_failure(row, now)
    abandoned = row.status == codes.in_progress
    without_result = refusals.abandoned_attempts(row, codes, now) if abandoned else ()
    died = ", the last one by a worker that died or lost its lock" if abandoned else ""
    reason = f"{row.attempt} of {statements.max_attempts} attempts are used{died}"
    if following is None:
        kind, transition = "ignored", build_spend(statements, row, abandoned=abandoned)
    else:
        kind, transition = "skipped", build_skip(row, following, abandoned=abandoned)
    entry = build_entry(kind, row, codes.step, now, reason=reason)
    return Command(statements, transition, row, entry, after=without_result).send()


def build_spend(statements: StepStatements[T], row: T, *, abandoned: bool) -> Transition:
    spend = Transition("spend abandoned" if abandoned else "spend", statements.codes.ignored, when.as_read())
    spend.add(*([when.lock_expired()] if abandoned else []), seen=when.seen_values(row))
    return spend


def build_skip(row: TaskRow, following: Transition, *, abandoned: bool) -> Transition:
    """Start the next round after the last attempt."""
    skip = Transition("skip", following.code, when.as_read(), due=following.due)
    skip.add(when.seen("request_count", is_there=row.request_count is not None))
    skip.add(*([when.lock_expired()] if abandoned else []))
    skip.seen, skip.changes = {**when.seen_values(row), "seen_request_count": str(row.request_count)}, following.changes
    skip.add(attempt=ZERO, release_count=None, **{**following.values, "round": Same("lock")})
    return skip


def build_entry(kind: str, row: T, step: str, now: datetime, *, reason: str, by: str | None = None) -> Failure:
    return Failure(step, row.attempt, now, by or this_worker(), kind, redact_text(reason, row.redact))


class Command(Generic[T]):
    """A command: a transition with an entry in `errors`."""

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
        self.statements, self.transition, self.row, self.entry = statements, transition, row, entry
        self._token = new_token(above=row.lock)
        self._had_log = has_log(row)
        self.failures = [*failures_in_row(row), *after, entry]
        # Short entries are worth no request.
        entries, self._is_logged = for_row(row, [*after, entry], may_log=not after or self._had_log)
        transition.expires = may_expire(row) if expires is None else expires
        transition.is_urgent = is_urgent(row)
        last_error = {}
        if entry.type != "unlocked":
            transition.add(**last_run(row, entry.type, entry.attempt, entry.time))
            last_error = {"last_error": entry.one_line}
        complete_command(statements, transition, entry.time, self._token, errors=Stored(entries), **last_error)

    def send(self) -> T | None:
        """Send the command. Return the task after it, or None if it has changed."""
        try:
            try:
                return self.finish(self._send())
            except (PynamoDBConnectionError, TransactWriteError) as refused:
                if not is_invalid(refused):
                    raise
                self.failures, self._is_logged = [], False
                self.transition.drop_entries(self.entry.type)
                return self.finish(self._send())
        except Refused:
            return None

    def action(self) -> Action:
        return self.statements.as_action(self.transition, self.row.task_id)

    def load_after(self) -> T:
        """Return the task after the write, derived from the row that was read."""
        self.statements.complete(self.transition, self.row.task_id)  # with its times, also before it is sent
        after = load(self.statements.model, self.transition.stored_after(self.row._row_state.stored))
        after.attribute_values["errors"] = self.failures
        return after

    def finish(self, moved: T) -> T:
        """Return the task after its write, and update its off-row items."""
        statements = self.statements
        if self._is_logged:
            moved.attribute_values["errors"] = self.failures
            moved._row_state.failures_whole = not self._had_log
            version = version_outside_run(self.row.create_time, self.row.fence, self._token)
            log_failures(statements, moved, self._token, version)
        if statements.has_expiry:
            expire(statements, moved)
        return moved

    def _send(self) -> T:
        is_ignored = self.transition.code == self.statements.codes.ignored
        # A row that is too full for the reason does not get follow-ups.
        when_ignored = self.statements.when_ignored if is_ignored and self.failures else None
        participants: Sequence[Participant] = ()
        if self.row.tracker.ends_at(self.transition.code or 0):
            participants = ignoring_participants(self.row)
        if participants or when_ignored:
            after = self.load_after()
            optional = when_ignored(after) if when_ignored else None
            if send_with(self.statements.table, self.action(), participants, optional):
                if optional is not None and optional.interrupt is not None:
                    raise optional.interrupt
                return after
        return load(self.statements.model, self.statements.send(self.transition, self.row.task_id)["Attributes"])


def complete_command(
    statements: StepStatements[T], transition: Transition, now: datetime, token: str, **entries: Any
) -> Transition:
    """Add entries, and a later token that blocks late copies of refused claims and reopens."""
    transition.add(when.known_format(), seen=times_seen(now, statements.model.tracker.margin))
    transition.time, transition.returns = now, ALL_NEW
    transition.values = {**entries, "lock": token, **transition.values}
    return transition


def delete(model: type[T], task_id: str, *, repeated: bool = False) -> bool:
    """Delete a task that no worker holds, and return whether it repeats. If `repeated`, it may be deleted already."""
    meant: T | None = None
    for _ in range(_TRIES):
        row, now = get(model, task_id), clock.now()
        if row is not None and not repeated:
            refusals.check_life(row, meant, "delete")
        if row is None or (meant is not None and not refusals.is_same_life(row, meant)):
            clear_orphans(model, task_id)
            if repeated:
                return False  # an earlier copy of the request has deleted the row
            raise refusals.not_found_error(model, task_id, "delete")
        refusals.check_format(row, "delete")
        meant = row
        held = _is_held(row)
        if held and row.lock_expire_time >= now - model.tracker.margin:
            why = f"it is {row.tracker.name_of(row.status)}, {refusals.describe_holder(row)}"
            raise refusals.build_error(row, TaskLockedError, "delete", why)
        try:
            _delete(model, row, now, held=held)
        except Refused as refused:
            repeated = refused.repeated
        else:
            clear_orphans(model, task_id)
            return "repeat" in row._row_state.stored
    raise TaskLockedError(
        f"cannot delete {model.__name__} {task_id!r}: it changed {_TRIES} times during the call. Try again",
        task_id=task_id,
    )


def _is_held(row: TaskRow) -> bool:
    """Return whether a worker may hold the task. At an undeclared step, only the fence can tell."""
    status = row.tracker.status_of(row.status)
    if status is None and not end_of(row.status):
        return row.fence in (row.unfinished or ())
    return status is Status.IN_PROGRESS


class SeenDeletes(Generic[T]):
    """Deletes tasks that a consistent scan has just read."""

    def __init__(self, model: type[T]) -> None:
        self._model = model
        self._writes: dict[bool, PreparedWrite] = {}
        """By whether the row has a lock."""
        own = (each for codes in model.tracker.steps for each in codes.own.items())
        at_rest = (code for code, status in own if status is not Status.IN_PROGRESS)
        self._at_rest = {str(code) for code in (END, CANCELLED, *at_rest)}
        """Codes of declared steps in which no worker holds a task."""

    def delete(self, task_id: str, seen: Item | None) -> None:
        """Delete a task as `delete` does. `seen` is its row as the scan returned it."""
        repeated = False
        try:
            if seen is not None and self._delete(task_id, seen):
                return
        except Refused as refused:
            repeated = refused.repeated
        delete(self._model, task_id, repeated=repeated)

    def _delete(self, task_id: str, seen: Item) -> bool:
        """Delete a row without related rows. Return False if it has to be read first."""
        tracker, has_lock = self._model.tracker, "lock" in seen
        values = {f"seen_{name}": seen.get(name, {}).get(kind) for name, kind in _SEEN.items()}
        is_whole = all(value is not None for name, value in values.items() if has_lock or name != "seen_lock")
        at_rest = values["seen_status"] in self._at_rest
        if not (is_whole and at_rest) or not seen.keys().isdisjoint({"group", "parent"}):
            return False
        if has_lock not in self._writes:
            # With the lock that was seen, overflow chunks have not changed: claims and commands write both.
            self._writes[has_lock] = build_delete(self._model, when.seen("lock", is_there=has_lock))
        send(tracker.connection(), "DeleteItem", self._writes[has_lock].request(tracker.key(task_id), values))
        return True


def build_delete(model: type[TaskRow], *guards: when.Guard, membership: Membership = Membership.NONE) -> PreparedWrite:
    """Delete exactly the row that was read, not a task that was created since."""
    as_read = when.as_read(), when.membership_seen(membership), when.known_format()
    return PreparedWrite(model.tracker.connection(), condition=when.all_of([*as_read, *guards]))


def _delete(model: type[T], row: T, now: datetime, *, held: bool) -> None:
    values = {
        **when.seen_values(row),
        "now_minus_margin": clock.stamp(now - model.tracker.margin),
        "seen_parent": row.parent,
    }
    guards = [when.lock_expired()] if held else []
    if row.parent:
        guards.append(when.seen("parent"))
    table, write = model.tracker.connection(), build_delete(model, *guards, membership=membership_of(row))
    own = write.as_action("Delete", model.tracker.key(row.task_id), values)
    if not send_with(table, own, deletion_participants(row), None):
        send(table, "DeleteItem", own["Delete"])
