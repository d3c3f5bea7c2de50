"""Features that write in one transaction with a task's own change.

If the row's own write is refused, the run or command finds out why. If only a participant's write is refused, its rows
have changed, so it is built again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import CancellationReason, UpdateError

from pynamodb_tracker.dynamodb.connection import Item, Refused
from pynamodb_tracker.dynamodb.retries import TRIES, is_persisting, slept_before_retry
from pynamodb_tracker.dynamodb.transact_write import CONFLICT, REFUSED, Unapplied, transact_write
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.writes.conditions import Guard
from pynamodb_tracker.writes.transition import Transition

Action = Mapping[str, Any]
"""A write of a transaction in DynamoDB's form, such as {"Put": ...} or {"Update": ...}."""

Reason = Any
"""PynamoDB's CancellationReason, or None for an action that could have been applied."""
_MOST_ACTIONS = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""

_TRIES_THOUGH_BUSY = 5
"""How often a command starts over if its rows keep changing."""


class MadeDue(NamedTuple):
    """A new task, or one that waited for another, which may be due soon."""

    model: Any
    task_id: str
    status: int
    creation: str
    """Its creation token. Empty if it existed before the run."""
    due_time: datetime


class Participant:
    """A feature that changes a row's write, or adds its own. A `for_…` method returns None if it does not take part."""

    writes = True
    """Whether it may add writes."""
    is_needed = True
    """Whether its writes are sent even if others have to be left out."""

    @classmethod
    def for_creation(cls, row: TaskRow, item: Item) -> Participant | None:  # noqa: ARG003 - for overrides, as below
        """Take part in creating a task. Each try may change the row's stored `item`."""
        return None

    @classmethod
    def after_claim(cls, claim: Any) -> Transition | None:  # noqa: ARG003
        """Return a write that a claimed row needs before the block begins."""
        return None

    @classmethod
    def for_success(cls, run: Any, row: TaskRow) -> Participant | None:  # noqa: ARG003
        """Take part in recording a success. `row` is the claimed row, or a newer one."""
        return None

    @classmethod
    def for_ignoring(cls, row: TaskRow) -> Participant | None:  # noqa: ARG003
        """Take part in ignoring or cancelling a task."""
        return None

    @classmethod
    def after_last_failure(cls, row: TaskRow, now: datetime, claim: Any) -> Transition | None:  # noqa: ARG003
        """Return a transition that keeps a task going after its last attempt."""
        return None

    @classmethod
    def for_deletion(cls, row: TaskRow) -> Participant | None:  # noqa: ARG003
        """Take part in deleting a task."""
        return None

    def write_before_success(self, commit: Callable[[Sequence[Action]], None]) -> None:
        """Write before the success. `commit` applies actions while the lock is held."""

    def change(self, success: Transition) -> None:
        """Change the success before it is sent."""

    @classmethod
    def change_other_end(cls, run: Any, end: Transition) -> None:
        """Change a failure or release before it is sent."""

    @classmethod
    def giving_up_guards(cls, run: Any) -> Sequence[Guard]:  # noqa: ARG003
        """Return the conditions that the row must meet when a run gives up its task."""
        return ()

    def made_due(self) -> Iterable[MadeDue]:
        """Return the tasks that the last writes have made due."""
        return ()

    def actions(self) -> Sequence[Action]:
        """Build the writes from strongly consistent reads, each on a different row."""
        return ()

    def handle_refusal(self, reasons: Sequence[Reason]) -> None:
        """Handle one cancellation reason per action. Raise if a retry cannot help."""


class OptionalParticipant(Participant):
    """Writes to include in an end if possible."""

    problems: list[str]
    interrupt: BaseException | None
    """An interrupt to raise again after the end is recorded."""

    def note(self, problem: str) -> None:
        """Log a problem and keep it."""
        raise NotImplementedError


def send_with(
    table: TableConnection, own: Action, participants: Sequence[Participant], optional: OptionalParticipant | None
) -> bool:
    """Send the row's own write with its participants. Without any, send nothing and return False.

    Raises Refused if the own write was refused, or if a command's participants kept changing.
    """
    if optional is not None and optional.actions():
        unapplied = send_together(table, lambda: own, [*participants, optional])
        if unapplied is None:
            return True
        if (error := _why_not(unapplied, {REFUSED})) is not unapplied.error:
            raise error
        optional.note(f"the follow-up tasks were not created: {unapplied.error}")
    if not participants:
        return False
    unapplied = send_together(table, lambda: own, participants)
    if unapplied is not None:
        raise _why_not(unapplied, {REFUSED, CONFLICT})
    return True


def _why_not(unapplied: Unapplied, of_command: set[str]) -> Exception:
    """Return the error to raise. Outside `persist`, the codes `of_command` count as a refusal, too."""
    if unapplied.refused or (_codes(unapplied) & of_command and not is_persisting()):
        return Refused(repeated=unapplied.unheard)
    if not unapplied.is_temporary:
        return unapplied.error
    error = UpdateError(str(unapplied.error), unapplied.error.cause)
    error.__cause__ = unapplied.error
    return error


def is_busy(unapplied: Unapplied) -> bool:
    """Return whether the transaction failed because of concurrent writes."""
    return bool(_codes(unapplied) & {REFUSED, CONFLICT})


def _codes(unapplied: Unapplied) -> set[str]:
    return {reason.code for reason in unapplied.error.cancellation_reasons if reason is not None}


def send_together(
    table: TableConnection,
    own: Callable[[], Action],
    participants: Sequence[Participant],
    *,
    more: Sequence[Action] = (),
) -> Unapplied | None:
    """Send the row's own write with its participants and the user's writes, `more`. Return None once it is applied.

    Each try builds the participants first, because the own write may depend on them. Late copies are
    harmless, because their own writes are refused.
    """
    unheard, retries = False, 0
    while True:
        built = [(participant, participant.actions()) for participant in participants]
        if 1 + len(more) + sum(len(actions) for _, actions in built) > _MOST_ACTIONS:
            built = [(participant, actions if participant.is_needed else ()) for participant, actions in built]
        if len(built) > 1 and retries < TRIES and _has_clash(built):
            retries += 1
            continue
        actions = [own(), *more, *(action for _, actions in built for action in actions)]
        if len(actions) > _MOST_ACTIONS:
            raise ValueError(
                f"this transaction has {len(actions)} actions, more than the {_MOST_ACTIONS} allowed: 1 for the task, "
                f"{len(more)} of yours, and {len(actions) - 1 - len(more)} for related tasks. Commit your writes "
                "earlier in a separate ctx.transaction(), or create fewer tasks"
            )
        if more:
            _check_rows(more, actions[1 + len(more) :])
        optional = [action for each, written in built if isinstance(each, OptionalParticipant) for action in written]
        unapplied = transact_write(table, actions, theirs=[*more, *optional])
        if unapplied is None:
            return None
        unapplied.unheard = unheard = unheard or unapplied.unheard
        if not _is_participant_refused(unapplied, built, first=1 + len(more)):
            return unapplied
        if (retries >= TRIES - 1 and not is_persisting()) or not slept_before_retry(retries):
            return unapplied
        retries += 1


def send_though_busy(
    table: TableConnection,
    own: Callable[[], Action],
    participants: Sequence[Participant],
    *,
    more: Sequence[Action] = (),
) -> Unapplied | None:
    """Send a command, and start over if its rows keep changing."""
    for _ in range(_TRIES_THOUGH_BUSY - 1):
        unapplied = send_together(table, own, participants, more=more)
        if unapplied is None or unapplied.refused or not is_busy(unapplied):
            return unapplied
    return send_together(table, own, participants, more=more)


def _has_clash(built: Sequence[tuple[Participant, Sequence[Action]]]) -> bool:
    """Return whether a participant puts a row that another updates, and tell the first that the row exists."""
    updated = {_row(action) for _, actions in built for action in actions if "Update" in action}
    is_there = False
    for participant, actions in built:
        met = [CancellationReason(REFUSED) if "Put" in each and _row(each) in updated else None for each in actions]
        if any(met):
            participant.handle_refusal(met)
            is_there = True
    return is_there


def _check_rows(more: Sequence[Action], others: Sequence[Action]) -> None:
    written = {_row(action) for action in others}
    for action in more:
        table, task_id, use_case = row = _row(action)
        if row in written:
            raise ValueError(
                f"this transaction and the tracker both write {use_case} {task_id!r} of {table}, and DynamoDB allows "
                "one action per row. Write it earlier in a separate ctx.transaction()"
            )


def _row(action: Action) -> tuple[str, str | None, str | None]:
    ((_, request),) = action.items()
    key = request.get("Key") or request["Item"]
    return request["TableName"], key.get("task_id", {}).get("S"), key.get("use_case_id", {}).get("S")


def _is_participant_refused(
    unapplied: Unapplied, built: Sequence[tuple[Participant, Sequence[Action]]], first: int
) -> bool:
    """Tell each participant why its writes were refused. Return whether only participants were refused."""
    reasons = unapplied.error.cancellation_reasons
    if any(reason is not None and reason.code == REFUSED for reason in reasons[:first]):
        return False
    is_refused, at = False, first
    for participant, actions in built:
        own = reasons[at : at + len(actions)]
        at += len(actions)
        if any(reason is not None and reason.code == REFUSED for reason in own):
            participant.handle_refusal(own)
            is_refused = True
    return is_refused
