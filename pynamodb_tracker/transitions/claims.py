"""Claiming a task: one conditional UpdateItem. If it is refused, a GetItem finds out why."""

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Generic, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused
from pynamodb_tracker.dynamodb.error_codes import is_in_doubt, is_invalid
from pynamodb_tracker.dynamodb.retries import ending_by, persist
from pynamodb_tracker.exceptions import (
    TaskError,
    TaskFormatError,
    TaskNotReadyError,
    TaskNotStartableError,
    TrackerError,
)
from pynamodb_tracker.features.overflow import expire_again, remove_chunk_expiry
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model.failure import add_note
from pynamodb_tracker.model.failure_log import failures_in_row
from pynamodb_tracker.model.row import TaskRow, check_tracker_attributes, has_later_format, load, readable
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.transitions.commands import spend
from pynamodb_tracker.transitions.ending import fail, release
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes import refusals
from pynamodb_tracker.writes.creations import NewTask, build_pending_task, put
from pynamodb_tracker.writes.lock import Claim, Journal, new_token
from pynamodb_tracker.writes.participants import after_claim
from pynamodb_tracker.writes.transition import (
    StepStatements,
    Transition,
    get,
    is_parked,
    load_checked,
    raise_if_damaged,
)

T = TypeVar("T", bound=TaskRow)

_TRIES = 4
_GIVE_BACK_WITHIN = timedelta(seconds=5)
"""How long to try to release the task after a claim without a response."""


def claim(
    statements: StepStatements[T],
    task_id: str,
    *,
    lock_for: timedelta,
    detailed: bool = True,
    also_from: Collection[int] = (),
    payload: str | None = None,
    creates: bool = False,
    new: NewTask[T] | None = None,
    on_time: bool = False,
) -> Journal[T]:
    """Claim the task and return the run's journal, or raise the reason.

    The lock may have expired when the response arrives. `also_from` has codes of other states to start from, and
    `payload` is a fingerprint. If `detailed`, the row is read to explain a refusal. If the caller `creates` a missing
    task, a refusal has to show that it is missing. `new` is a task to create claimed, or to claim if it exists.
    """
    call = _Call(statements, task_id, lock_for, payload, new, creates=creates, on_time=on_time)
    try:
        claim = call.claim(detailed=detailed, also_from=also_from)
        try:
            check_tracker_attributes(claim.task)
        except TaskError as damaged:
            claim = Claim(statements, readable(claim.task), claim.token, claim.before)
            _note_takeover(claim)
            end = partial(release, begun=False)  # another program may be able to read a later format
            if not isinstance(damaged, TaskFormatError):
                end = partial(fail, error=damaged, delay=timedelta(0), final=False)
            persist(claim, partial(end, Journal(claim)))
            raise
        if (write := after_claim(claim)) is not None:
            claim = _send_first_write(claim, write)
        _note_takeover(claim)
        return Journal(claim)
    except BaseException as error:
        if call.may_hold(error):
            call.give_back(error)
        if call.kept:
            expire_again(statements.model, task_id)
        raise


class _Call(Generic[T]):
    def __init__(
        self,
        statements: StepStatements[T],
        task_id: str,
        lock_for: timedelta,
        payload: str | None,
        new: NewTask[T] | None,
        *,
        creates: bool,
        on_time: bool,
    ) -> None:
        self.statements, self.task_id, self.lock_for, self.payload = statements, task_id, lock_for, payload
        self.new, self.creates, self.on_time = new, creates, on_time
        self.operation = f"start {statements.codes.step} of"
        self.tokens = [new_token() if new is None else new.row.lock]
        self.parked = False
        """Whether the row still waits for something."""
        self.in_doubt = False
        """Whether any claim so far may have locked the task."""
        self.kept = False
        """Whether the time to live of a finished task's chunks was removed."""

    def claim(self, *, detailed: bool, also_from: Collection[int]) -> Claim[T]:
        """Send claims until one is applied, or raise the reason why it is refused."""
        statements, new, code = self.statements, self.new, None
        for _ in range(_TRIES):
            try:
                claim = self._send(new or code, shows_row=self.creates or not detailed)
            except Refused as refused:
                if not (detailed or refused.repeated or also_from or self._is_worth_reading(refused.item)):
                    why = f"cannot {self.operation} {statements.model.__name__} {self.task_id!r}: refused"
                    hint = "Start it with detailed_error=True to see why"
                    raise TaskNotStartableError(f"{why}. {hint}", task_id=self.task_id) from None
                item = refused.item
            except PynamoDBConnectionError as error:
                raise_if_damaged(statements.model, self.task_id, error)
                raise
            else:
                self.in_doubt = True
                return claim
            self.in_doubt = True
            row = self._find_row(item, is_shown=self.creates and new is None)
            if refusals.is_held_by(row, statements.codes, self.tokens):  # a repeated request met its own success
                return Claim(statements, row, row.lock)
            self.in_doubt = False
            refusals.check_format(row, self.operation)
            if mismatch := refusals.payload_mismatch(statements, row, self.payload, self.operation):
                raise mismatch
            self.tokens.append(new_token(above=row.lock))
            new, code = None, self._code_to_claim_from(row, also_from)
            self.parked = is_parked(row)
            if row.status in also_from and row.expire_time is not None:
                self.kept = True
                remove_chunk_expiry(statements.model, row, self.tokens[-1], self.operation)
        raise refusals.kept_changing_error(statements.model, self.task_id, self.operation, _TRIES)

    def _send(self, claimed: NewTask[T] | int | None, *, shows_row: bool) -> Claim[T]:
        """Put a new task, or claim an existing one from a code or from the step's own states."""
        if isinstance(claimed, NewTask):
            put(claimed, until=claimed.row.lock_expire_time)
            return Claim(self.statements, claimed.row, claimed.row.lock)
        now, token, statements = clock.now(), self.tokens[-1], self.statements
        options = {"on_time": self.on_time, "parked": self.parked}
        claim = statements.claim(
            token, this_worker(), now, self.lock_for, code=claimed, payload=self.payload, **options
        )
        response = statements.send(claim, self.task_id, until=now + self.lock_for, shows_row=shows_row)
        before: Item = response["Attributes"]
        return Claim(statements, load(statements.model, claim.stored_after(before)), token, before)

    def _find_row(self, item: Item | None, *, is_shown: bool) -> T:
        """Return the row that refused a claim, unless the refusal shows that there is none."""
        model = self.statements.model
        if item is not None:
            return load_checked(model, item)
        row = None if is_shown else get(model, self.task_id)
        if row is None:
            # A late claim could take the task that the caller would create.
            if self.creates and self.new is None and len(self.tokens) > 1:
                raise refusals.kept_changing_error(model, self.task_id, self.operation, len(self.tokens) - 1)
            raise refusals.not_found_error(self.statements.model, self.task_id, self.operation)
        return row

    def _is_worth_reading(self, item: Item | None) -> bool:
        """Return whether a copy of this claim, or a slow clock, may have caused a refusal."""
        if item is None:
            return False
        statements, row = self.statements, load_checked(self.statements.model, item)
        can_start = refusals.is_startable(row, statements.codes, clock.now(), on_time=self.on_time)
        is_behind = row.attempt < statements.max_attempts and can_start and (row.lock or "") > self.tokens[-1]
        return refusals.is_held_by(row, statements.codes, self.tokens) or is_behind

    def _code_to_claim_from(self, row: T, also_from: Collection[int]) -> int | None:
        """Return the code to claim from after a refusal, or None for the step's own. Raise if there is none."""
        statements, operation, now = self.statements, self.operation, clock.now()
        if refusals.is_startable(row, statements.codes, now, on_time=self.on_time):
            if row.attempt >= statements.max_attempts and (spent := spend(statements, row, now)):
                error = refusals.refusal(statements, spent, operation)
                error.skipped_occurrence = spent.status != statements.codes.ignored
                raise error
            return None  # the token was lower than the row's, or the row has changed since
        if row.status in also_from:
            if row.cancelled is not None and row.status not in statements.codes.own:
                raise refusals.cancelled_error(row, operation)
            if row.group is not None and row.tracker.ends_at(row.status):
                why = f"it is in group {row.group!r}, and its turn has passed"
                advice = "Reopen lets an ignored task enter at the end"
                raise refusals.build_error(row, TaskNotReadyError, operation, f"{why}. {advice}")
            if refusals.is_due(row, now, on_time=self.on_time):
                return row.status
            raise refusals.not_due_error(row, operation)
        raise refusals.refusal(statements, row, operation)

    def may_hold(self, error: BaseException) -> bool:
        """Return whether this error may leave the task locked without a worker."""
        if isinstance(error, TransactWriteError):  # an earlier try of it may have got no response
            return not is_invalid(error)
        if isinstance(error, PynamoDBConnectionError):
            return self.in_doubt or is_in_doubt(error)
        # Any other exception has interrupted a claim.
        return not isinstance(error, PynamoDBException | TrackerError)

    def give_back(self, error: BaseException) -> None:
        """Release a task that a claim without a response may have locked, and note the outcome on the error."""
        now = clock.now()
        doubt = f"it may still be locked by this call until {now + self.lock_for}. After that, start takes it over"
        try:
            outcome = self._undo(until=now + _GIVE_BACK_WITHIN)
        except (PynamoDBException, TrackerError) as failed:
            self._note(error, f"could not be released ({failed}): {doubt}", is_locked=True)
        except BaseException as interrupt:
            self._note(
                interrupt, f"could not be released because of {type(interrupt).__name__}: {doubt}", is_locked=True
            )
            raise
        else:
            self._note(error, outcome or f"could not be released: {doubt}", is_locked=outcome is None)

    def _note(self, error: BaseException, outcome: str, *, is_locked: bool) -> None:
        """Note the outcome on the error, and log it if the task may stay locked."""
        task, codes = f"{self.statements.model.__name__} {self.task_id!r}", self.statements.codes
        add_note(error, f"pynamodb_tracker: {task} {outcome}")
        if is_locked:
            log.error("%s %s", task, outcome, extra=log_fields(codes.use_case_id, codes.step, self.task_id))

    def _undo(self, *, until: datetime) -> str | None:
        """Release the task if a claim locked it, and block late copies. Return None if that is uncertain.

        A later token blocks late claims, and a row blocks late creations.
        """
        outcome, statements, tokens = "was not locked by this call", self.statements, self.tokens
        for _ in range(_TRIES):
            row = get(statements.model, self.task_id, until=until)
            if row is None:
                if self.new is None:
                    return outcome
                with suppress(Refused):
                    put(build_pending_task(statements, self.new, new_token(above=max(tokens))), until=until)
                    return "was created by this call, pending"
                continue
            if refusals.is_held_by(row, statements.codes, tokens):
                claim = Claim(statements, row, row.lock)
                _note_takeover(claim)
                with ending_by(until):
                    persist(claim, partial(release, Journal(claim), begun=False))
                outcome = "was locked by this call, and was released"
            if has_later_format(row) or (row.lock or "") >= max(tokens):
                return outcome
            if not refusals.is_free(row):
                return None  # its holder's token cannot be raised
            try:
                statements.send(build_shut_out(row, new_token(above=max(tokens))), self.task_id, until=until)
            except Refused:
                continue
            return outcome
        return None


def _note_takeover(claim: Claim[T]) -> None:
    """Log earlier attempts without a result, and add them to the run's errors."""
    if not claim.took_over:
        return
    task, codes = claim.task, claim.statements.codes
    died = task if claim.before is None else readable(load(claim.statements.model, claim.before))
    claim.abandoned = refusals.abandoned_attempts(died, codes, clock.now())
    if claim.before is None:  # the row before the claim was lost with the response
        claim.abandoned = claim.abandoned[:-1]
    elif died.status != codes.in_progress:  # a command has unlocked it and left its own entry
        claim.abandoned = ()
    task.attribute_values["errors"] = [*failures_in_row(task), *claim.abandoned]
    for each in claim.abandoned:
        by = f" by {each.worker}" if each.worker else ""
        log.warning("%s: attempt %d%s %s", claim, each.attempt, by, each.message, extra=claim.log_fields)


def _send_first_write(claim: Claim[T], write: Transition) -> Claim[T]:
    """Send a feature's write before the block, and return the claim after it."""
    try:
        claim.statements.send(write, claim.task.task_id, until=claim.expire_time)
    except Refused:  # another worker, or a command, has taken it since
        operation, row = f"start {claim.step} of", get(claim.statements.model, claim.task.task_id)
        if row is None:
            raise refusals.not_found_error(claim.statements.model, claim.task.task_id, operation) from None
        raise refusals.refusal(claim.statements, row, operation) from None
    row = load(claim.statements.model, write.stored_after(claim.task._row_state.stored))
    return Claim(claim.statements, row, claim.token, claim.before)


def build_shut_out(row: TaskRow, token: str) -> Transition:
    """Block late claims by raising an idle task's token."""
    shut_out = Transition("shut out", None, when.state_seen(), when.seen("lock", is_there=row.lock is not None))
    shut_out.add(seen={**when.seen_values(row), "seen_lock": row.lock}, lock=token)
    return shut_out
