"""Features that write in one transaction with a task's own change, and which module in `features` has them.

If the row's own write is refused, the run or command finds out why. If only a participant's write is refused, its rows
have changed, so it is built again.

A feature takes part if the row has one of its attributes, even a damaged one, or if the run has requested it in
`Journal.additions`. Claiming a row imports its features, so that no import can fail after the work is done.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import CancellationReason, UpdateError

from pynamodb_tracker.dynamodb.connection import Item, Refused
from pynamodb_tracker.dynamodb.retries import TRIES, is_persisting, slept_before_retry
from pynamodb_tracker.dynamodb.transact_write import CONFLICT, REFUSED, Unconfirmed, transact_write
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.writes.conditions import Guard
from pynamodb_tracker.writes.transition import Transition

if TYPE_CHECKING:
    from pynamodb_tracker.model.repeat import Repeat

Action = Mapping[str, Any]
"""A write of a transaction in DynamoDB's form, such as {"Put": ...} or {"Update": ...}."""

Reason = Any
"""PynamoDB's CancellationReason, or None for an action that could have been applied."""
_MOST_ACTIONS = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""

_TRIES_THOUGH_BUSY = 5
"""How often a command starts over if its rows keep changing."""


class NewlyDue(NamedTuple):
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
    def for_creation(cls, row: TaskRow, item: Item) -> Self | None:  # noqa: ARG003 - for overrides, as below
        """Take part in creating a task. Each try may change the row's stored `item`."""
        return None

    @classmethod
    def after_claim(cls, claim: Any) -> Transition | None:  # noqa: ARG003
        """Return a write that a claimed row needs before the block begins."""
        return None

    @classmethod
    def for_success(cls, run: Any, row: TaskRow) -> Self | None:  # noqa: ARG003
        """Take part in recording a success. `row` is the claimed row, or a newer one."""
        return None

    @classmethod
    def for_ignoring(cls, row: TaskRow) -> Self | None:  # noqa: ARG003
        """Take part in ignoring or cancelling a task."""
        return None

    @classmethod
    def after_last_failure(cls, row: TaskRow, now: datetime, claim: Any) -> Transition | None:  # noqa: ARG003
        """Return a transition that keeps a task going after its last attempt."""
        return None

    @classmethod
    def for_deletion(cls, row: TaskRow) -> Self | None:  # noqa: ARG003
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

    def made_due(self) -> Iterable[NewlyDue]:
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
        raise NotImplementedError


def send_with(
    table: TableConnection, own: Action, participants: Sequence[Participant], optional: OptionalParticipant | None
) -> bool:
    """Send the row's own write with its participants. Without any, send nothing and return False.

    Raises Refused if the own write was refused, or if a command's participants kept changing.
    """
    if optional is not None and optional.actions():
        unconfirmed = send_together(table, lambda: own, [*participants, optional])
        if unconfirmed is None:
            return True
        if (error := _why_not(unconfirmed, {REFUSED})) is not unconfirmed.error:
            raise error
        optional.note(f"the follow-up tasks were not created: {unconfirmed.error}")
    if not participants:
        return False
    unconfirmed = send_together(table, lambda: own, participants)
    if unconfirmed is not None:
        raise _why_not(unconfirmed, {REFUSED, CONFLICT})
    return True


def _why_not(unconfirmed: Unconfirmed, of_command: set[str]) -> Exception:
    """Return the error to raise. Outside `persist`, the codes `of_command` count as a refusal, too."""
    if unconfirmed.refused or (_codes(unconfirmed) & of_command and not is_persisting()):
        return Refused(repeated=unconfirmed.in_doubt)
    if not unconfirmed.is_temporary:
        return unconfirmed.error
    error = UpdateError(str(unconfirmed.error), unconfirmed.error.cause)
    error.__cause__ = unconfirmed.error
    return error


def is_busy(unconfirmed: Unconfirmed) -> bool:
    """Return whether the transaction failed because of concurrent writes."""
    return bool(_codes(unconfirmed) & {REFUSED, CONFLICT})


def _codes(unconfirmed: Unconfirmed) -> set[str]:
    return {reason.code for reason in unconfirmed.error.cancellation_reasons if reason is not None}


def send_together(
    table: TableConnection,
    own: Callable[[], Action],
    participants: Sequence[Participant],
    *,
    more: Sequence[Action] = (),
) -> Unconfirmed | None:
    """Send the row's own write with its participants and the user's writes, `more`. Return None once it is applied.

    Each try builds the participants first, because the own write may depend on them. Late copies are
    harmless, because their own writes are refused.
    """
    in_doubt, retries = False, 0
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
        unconfirmed = transact_write(table, actions, theirs=[*more, *optional])
        if unconfirmed is None:
            return None
        unconfirmed.in_doubt = in_doubt = in_doubt or unconfirmed.in_doubt
        if not _is_participant_refused(unconfirmed, built, first=1 + len(more)):
            return unconfirmed
        if (retries >= TRIES - 1 and not is_persisting()) or not slept_before_retry(retries):
            return unconfirmed
        retries += 1


def send_though_busy(
    table: TableConnection,
    own: Callable[[], Action],
    participants: Sequence[Participant],
    *,
    more: Sequence[Action] = (),
) -> Unconfirmed | None:
    """Send a command, and start over if its rows keep changing."""
    for _ in range(_TRIES_THOUGH_BUSY - 1):
        unconfirmed = send_together(table, own, participants, more=more)
        if unconfirmed is None or unconfirmed.refused or not is_busy(unconfirmed):
            return unconfirmed
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
    unconfirmed: Unconfirmed, built: Sequence[tuple[Participant, Sequence[Action]]], first: int
) -> bool:
    """Tell each participant why its writes were refused. Return whether only participants were refused."""
    reasons = unconfirmed.error.cancellation_reasons
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


FEATURES = (
    (frozenset({"repeat", "queued"}), "repeats", "NextRound"),
    (frozenset({"group"}), "groups.queue", "Groups"),
    (frozenset({"follow_ups"}), "children.follow_ups", "FollowUps"),
    (frozenset({"follow_ups"}), "children.joins", "ChildList"),
    (frozenset({"waits", "follow_ups", "blockers", "awaited_signals", "wait_until", "signals"}), "signals", "Waits"),
    (frozenset({"parent"}), "children.joins", "ChildCount"),
    (frozenset({"checkpoints"}), "checkpoints", "Parts"),  # last, because another round begins without parts
)
"""Names of row attributes and of `Journal.additions`, and the participant they concern, in the order of writing."""

_NAMES = frozenset[str]().union(*(names for names, _, _ in FEATURES))


def first_turn(repeat: "Repeat", at: datetime) -> tuple[datetime, Item] | None:
    """Return a repeating task's first due time and attributes, or None if it never occurs."""
    return cast("tuple[datetime, Item] | None", _import("repeats", "first_stored_turn")(repeat, at))


def creation_participants(row: TaskRow, item: Item) -> Sequence[Participant]:
    return [found for each in _features(item) if (found := each.for_creation(row, item)) is not None]


def after_claim(claim: Any) -> Transition | None:
    """Import a claimed row's features, and return the write that one of them needs before the block."""
    write = None
    for feature in _features(claim.task._row_state.stored):
        write = feature.after_claim(claim) or write
    return write


def success_participants(journal: Any, row: TaskRow) -> Sequence[Participant]:
    """Return the participants in recording a success. `row` is the claimed row, or a newer one."""
    features = _features(row._row_state.stored, journal.additions)
    return [found for each in features if (found := each.for_success(journal, row)) is not None]


def ignoring_participants(row: TaskRow) -> Sequence[Participant]:
    features = _features(row._row_state.stored)
    return [found for each in features if (found := each.for_ignoring(row)) is not None]


def deletion_participants(row: TaskRow) -> Sequence[Participant]:
    features = _features(row._row_state.stored)
    return [found for each in features if (found := each.for_deletion(row)) is not None]


def change_other_end(journal: Any, end: Transition) -> None:
    """Let features change a failure or release before it is sent."""
    for feature in _features(journal.additions):
        feature.change_other_end(journal, end)


def giving_up_guards(journal: Any) -> Sequence[Guard]:
    """Return the conditions that the row must meet when a run gives up its task."""
    features = _features(journal.claim.task._row_state.stored)
    return [guard for feature in features for guard in feature.giving_up_guards(journal)]


def check_signals(journal: Any, row: TaskRow) -> None:
    """Raise a TaskNotReadyError if the run has decided without a signal that has come since."""
    _import("signals", "Waits").for_success(journal, row)


def after_last_failure(row: TaskRow, now: datetime, claim: Any = None) -> Transition | None:
    """Return the transition that keeps a task going after its last attempt, if there is one."""
    found = (feature.after_last_failure(row, now, claim) for feature in _features(row._row_state.stored))
    return next((each for each in found if each is not None), None)


def last_run(row: TaskRow, outcome: str, attempt: int, ended: datetime) -> dict[str, Any]:
    """Return a repeating task's record for a round without success."""
    if "repeat" not in row._row_state.stored:
        return {}
    return cast("dict[str, Any]", _import("repeats", "last_run")(row, outcome, attempt, ended))


def _features(stored: Collection[str], asked: Collection[str] = ()) -> list[type[Participant]]:
    if not asked and _NAMES.isdisjoint(stored):
        return []  # most tasks have none
    return [
        _import(module, participant)
        for names, module, participant in FEATURES
        if not (names.isdisjoint(stored) and names.isdisjoint(asked))
    ]


def _import(module: str, name: str) -> Any:
    return getattr(import_module(f"pynamodb_tracker.features.{module}"), name)
