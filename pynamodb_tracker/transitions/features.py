"""Optional task features, found by the row attribute that marks each of them. They write in this order.

A feature takes part in an end if the claimed row has its attribute, even with a damaged value, or if the run has asked
for it in `Journal.additions`. Claiming such a row imports the features, so that no import can fail after the work is
done. Other runs do not import them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pynamodb_tracker.model.failure import Failure
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.conditions import Guard
from pynamodb_tracker.transitions.lock import Claim, Journal
from pynamodb_tracker.transitions.participants import Participant
from pynamodb_tracker.transitions.transition import Transition

if TYPE_CHECKING:
    from pynamodb_tracker.transitions.all_features import Postponing


_FEATURES = (
    (frozenset({"repeat", "queued"}), "NextRound"),
    (frozenset({"postpone_count", "first_failure"}), "Postponing"),
    (frozenset({"group"}), "Groups"),
    (frozenset({"follow_ups"}), "FollowUps"),
    (frozenset({"follow_ups"}), "ChildList"),
    (frozenset({"awaited_signals"}), "Awaits"),
    (frozenset({"parent"}), "Parent"),
    (frozenset({"checkpoints"}), "Parts"),  # these two are last, because another round begins without them
    (frozenset({"skipped_steps", "target"}), "Branch"),
)
NAMES = frozenset[str]().union(*(names for names, _ in _FEATURES))
"""The attributes of the row by which features take part."""


def load(row: TaskRow) -> None:
    """Import the features of a row, which has one of `NAMES`."""
    _taken(row)


def at_success(journal: Journal[Any], row: TaskRow) -> Sequence[Participant]:
    """Return the participants in recording a success; `row` is the claimed row, or a newer one.

    Raises ValueNotStorableError if the block has changed a feature's value to something that cannot be stored.
    """
    codes, asked = journal.claim.statements.codes, set(journal.additions)
    if codes.done_from < codes.succeeded:  # it passes over branch steps, unless it has chosen one
        asked.add("target")
    if not asked and NAMES.isdisjoint(row._row_state.stored):
        return ()
    found = (feature.of_success(journal, row) for feature in _taken(row, asked))
    return [each for each in found if each is not None]


def at_ignored(row: TaskRow) -> Sequence[Participant]:
    """Return the participants in ignoring a task."""
    found = (feature.of_ignored(row) for feature in _taken(row))
    return [each for each in found if each is not None]


def at_deletion(row: TaskRow) -> Sequence[Participant]:
    """Return the participants in deleting a task."""
    found = (feature.of_deletion(row) for feature in _taken(row))
    return [each for each in found if each is not None]


def of_failure(
    claim: Claim[Any], failure: Failure, give_up_after: timedelta | None, *, counted: bool
) -> tuple[dict[str, Any], bool, bool]:
    """Return the attributes to store for a failure, whether it uses up an attempt, and whether it is final."""
    postponing: type[Postponing] = _feature("Postponing")
    return postponing.of_failure(claim, failure, give_up_after, counted=counted)


def change_other_end(journal: Journal[Any], end: Transition) -> None:
    """Let features change the failure or release before it is sent."""
    for names, feature in _FEATURES:
        if not names.isdisjoint(journal.additions):
            _feature(feature).change_other_end(journal, end)


def guards_of_giving_up(journal: Journal[Any]) -> Sequence[Guard]:
    """Return the conditions that the row must meet when a run gives up its task."""
    row = journal.claim.task
    taken = () if NAMES.isdisjoint(row._row_state.stored) else _taken(row)
    return [guard for feature in taken for guard in feature.guards_of_giving_up(journal)]


def check_decision(journal: Journal[Any], row: TaskRow) -> None:
    """Raise a TaskNotReadyError if the run has decided without a signal that its row has now."""
    _feature("Awaits").of_success(journal, row)


def after_last_failure(row: TaskRow, now: datetime, claim: Claim[Any] | None = None) -> Transition | None:
    """Return the transition that keeps a task going after its last attempt, or None if the task becomes ignored.

    `claim` is the claim of the failed run.
    """
    found = (feature.after_last_failure(row, now, claim) for feature in _taken(row))
    return next((each for each in found if each is not None), None)


def last_run(row: TaskRow, outcome: str, attempt: int, ended: datetime) -> dict[str, Any]:
    """Return the record of a round that ends without success, if the task repeats."""
    if "repeat" not in row._row_state.stored:
        return {}
    from pynamodb_tracker.transitions.repeats import last_run  # noqa: PLC0415 - few tasks repeat

    return last_run(row, outcome, attempt, ended)


def _taken(row: TaskRow, additions: Collection[str] = ()) -> list[type[Participant]]:
    stored = row._row_state.stored
    taken = [feature for names, feature in _FEATURES if not (names.isdisjoint(stored) and names.isdisjoint(additions))]
    return [_feature(feature) for feature in taken]


def _feature(name: str) -> Any:
    from pynamodb_tracker.transitions.all_features import FEATURES  # noqa: PLC0415 - few tasks have any

    return FEATURES[name]
