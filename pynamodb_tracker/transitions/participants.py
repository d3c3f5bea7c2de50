"""The participants of an end: further writes that are applied together with the write of the row, or not at all.

The row's own write comes first. If it is refused, nothing else matters: the run or the command finds out why. If only
a participant's is refused, what that was built from has changed, and it is built again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import CancellationReason, UpdateError

from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.retries import TRIES, is_persisting, slept_before_retry
from pynamodb_tracker.dynamodb.transact_write import CONFLICT, REFUSED, Unapplied, transact_write
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.conditions import Guard
from pynamodb_tracker.transitions.transition import Transition

Action = Mapping[str, Any]
"""One of the writes of a transaction, as DynamoDB takes it: {"Put": ...}, {"Update": ...} and so on."""

Reason = Any
"""Why DynamoDB did not apply an action: PynamoDB's CancellationReason, or None for one that it would have applied."""

_MOST_ACTIONS = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""


class MadeDue(NamedTuple):
    """A task that an end has made due, or has given a due time."""

    model: Any
    """Its use case, as this program declares it."""
    task_id: str
    status: int
    """The code of its state."""
    creation: str
    """The token of its creation; empty if it existed before the run."""
    due_time: datetime


class Participant:
    """Takes part in the end of a task, for an attribute of its row, or because the run has asked for it.

    It changes the write of the row, or adds writes of its own, or both. The constructors return None if it takes no
    part in that kind of end.
    """

    writes = True
    """Whether it may add writes of its own."""
    is_needed = True
    """Whether its writes have to be made with the end; those of others are left out if a transaction has no room."""

    @classmethod
    def of_success(cls, run: Any, row: TaskRow) -> Participant | None:  # noqa: ARG003 - for those that override it
        """Return what takes part in the success of a run; `row` is as the run has claimed it, or has found it since."""
        return None

    @classmethod
    def of_ignored(cls, row: TaskRow) -> Participant | None:  # noqa: ARG003 - as above
        """Return what takes part when a task is ignored."""
        return None

    @classmethod
    def after_last_failure(cls, row: TaskRow, now: datetime, claim: Any) -> Transition | None:  # noqa: ARG003 - as above
        """Return what leads a task on although no attempt is left; `claim` is that of a run that has failed."""
        return None

    @classmethod
    def of_deletion(cls, row: TaskRow) -> Participant | None:  # noqa: ARG003 - as above
        """Return what takes part when a task is deleted."""
        return None

    def prepare(self, commit: Callable[[Sequence[Action]], None]) -> None:  # noqa: ARG002 - as above
        """Write what comes before the success of a run; `commit` applies it while the lock is held."""
        return

    def change(self, success: Transition) -> None:  # noqa: ARG002 - as above
        """Change what the success requires of the row, and what the row has after it."""
        return

    @classmethod
    def change_other_end(cls, run: Any, end: Transition) -> None:  # noqa: ARG003 - as above
        """Change the failure or the release of a run that has asked for it."""
        return

    @classmethod
    def guards_of_giving_up(cls, run: Any) -> Sequence[Guard]:  # noqa: ARG003 - as above
        """Return what the row still has to be like if the block of a run gives the task up."""
        return ()

    def made_due(self) -> Iterable[MadeDue]:
        """Return the tasks that its last writes have made due."""
        return ()

    def actions(self) -> Sequence[Action]:
        """Return the writes, each on a row of its own, built from rows that are read now, strongly consistent."""
        return ()

    def refused(self, reasons: Sequence[Reason]) -> None:  # noqa: ARG002 - as above
        """Take note of the reasons, one for each action of the last build; raise if another try makes no sense."""
        return


class OptionalParticipant(Participant):
    """Writes that an end takes with it if they can be made; what keeps them from being made does not keep the end."""

    problems: list[str]
    """What kept them from being made."""
    interrupt: BaseException | None
    """An exception from elsewhere that was raised while they were built; raised once the end is recorded."""

    def note(self, problem: str) -> None:
        """Log a problem, and keep it."""
        raise NotImplementedError


def send_with(
    table: TableConnection,
    own: Action,
    participants: Sequence[Participant],
    optional: OptionalParticipant | None,
) -> bool:
    """Send the row's own write with its participants, and with one that it can do without.

    Returns False if it has to be sent alone. Raises Refused if the own write was refused, or if the participants of a
    command kept changing; otherwise PynamoDB's error.
    """
    if optional is not None and optional.actions():
        unapplied = send_together(table, lambda: own, [*participants, optional])
        if unapplied is None:
            return True
        if (error := _why_not(unapplied, {REFUSED})) is not unapplied.error:
            raise error
        optional.note(f"the tasks to be created with it are not: {unapplied.error}")
    if not participants:
        return False
    unapplied = send_together(table, lambda: own, participants)
    if unapplied is not None:
        raise _why_not(unapplied, {REFUSED, CONFLICT})
    return True


def _why_not(unapplied: Unapplied, of_command: set[str]) -> Exception:
    """Return what to raise; reasons `of_command` say to a command that the row has changed, as kept changing does."""
    if unapplied.refused or (_codes(unapplied) & of_command and not is_persisting()):
        return Refused(repeated=unapplied.unheard)
    if not unapplied.is_temporary:
        return unapplied.error
    error = UpdateError(str(unapplied.error), unapplied.error.cause)
    error.__cause__ = unapplied.error
    return error


def is_busy(unapplied: Unapplied) -> bool:
    """Return whether others wrote the same rows at the same time."""
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
    """Send the row's own write with `more` writes of the user's and its participants; return None once it is applied.

    The own write is built after its participants, each time, because it may depend on what that does.
    Otherwise the own write was refused, or one of `more`, or there was no response. An earlier build that arrives late
    does no harm: whichever is applied first, the own write of the other one is refused.
    """
    unheard, retries = False, 0
    while True:
        built = [(participant, participant.actions()) for participant in participants]
        if 1 + len(more) + sum(len(actions) for _, actions in built) > _MOST_ACTIONS:
            built = [(participant, actions if participant.is_needed else ()) for participant, actions in built]
        if len(built) > 1 and retries < TRIES and _meet(built):
            retries += 1
            continue
        actions = [own(), *more, *(action for _, actions in built for action in actions)]
        if len(actions) > _MOST_ACTIONS:
            raise ValueError(
                f"this transaction has {len(actions)} actions, and takes {_MOST_ACTIONS}: 1 on the task itself, "
                f"{len(more)} of yours, and {len(actions) - 1 - len(more)} for tasks that are created or counted with "
                "it; commit writes of your own before, in ctx.transaction(), or create fewer tasks"
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


def _meet(built: Sequence[tuple[Participant, Sequence[Action]]]) -> bool:
    """Tell a participant that what it puts is there, if another one is about to update it; return whether that is so.

    DynamoDB allows one action per row.
    """
    updated = {_row(action) for _, actions in built for action in actions if "Update" in action}
    is_there = False
    for participant, actions in built:
        met = [CancellationReason(REFUSED) if "Put" in each and _row(each) in updated else None for each in actions]
        if any(met):
            participant.refused(met)
            is_there = True
    return is_there


def _check_rows(more: Sequence[Action], others: Sequence[Action]) -> None:
    """Raise a ValueError if one of the user's writes is on a row that a participant writes."""
    written = {_row(action) for action in others}
    for action in more:
        table, task_id, use_case = row = _row(action)
        if row in written:
            raise ValueError(
                f"this transaction writes {use_case} {task_id!r} of {table}, and so does the tracker, which creates it "
                "or counts this task for it; DynamoDB allows one action per row: write it before, in a "
                "ctx.transaction() of its own"
            )


def _row(action: Action) -> tuple[str, str | None, str | None]:
    """Return the table and the key of what a write is on, if it is a task."""
    ((_, request),) = action.items()
    key = request.get("Key") or request["Item"]
    return request["TableName"], key.get("task_id", {}).get("S"), key.get("use_case_id", {}).get("S")


def _is_participant_refused(
    unapplied: Unapplied, built: Sequence[tuple[Participant, Sequence[Action]]], first: int
) -> bool:
    """Tell each participant why its writes were refused; return whether only these kept it from being applied."""
    reasons = unapplied.error.cancellation_reasons
    if any(reason is not None and reason.code == REFUSED for reason in reasons[:first]):
        return False
    is_refused, at = False, first
    for participant, actions in built:
        own = reasons[at : at + len(actions)]
        at += len(actions)
        if any(reason is not None and reason.code == REFUSED for reason in own):
            participant.refused(own)
            is_refused = True
    return is_refused
