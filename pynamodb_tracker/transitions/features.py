"""The rare features of a task, by the attribute of the row that each one adds; in the order of their writes.

A feature takes part in an end if the row that was claimed or found has its attribute, with any value: a damaged one has
to be noticed. Or the run has asked for it, in `Journal.additions`. Features are imported as soon as a claimed row has
the attribute of one, so that nothing has to be imported after the work is done. A run of a task without any knows none.
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
    """Return what takes part in the success of a run; `row` is as it was claimed, or as it was found since.

    Raises ValueNotStorableError if the block has changed what a feature stores to something that cannot be stored.
    """
    codes, asked = journal.claim.statements.codes, set(journal.additions)
    if codes.done_from < codes.succeeded:  # it passes over branch steps, unless it has chosen one
        asked.add("target")
    if not asked and NAMES.isdisjoint(row._row_state.stored):
        return ()
    found = (feature.of_success(journal, row) for feature in _taken(row, asked))
    return [each for each in found if each is not None]


def at_ignored(row: TaskRow) -> Sequence[Participant]:
    """Return what takes part when a task is ignored."""
    found = (feature.of_ignored(row) for feature in _taken(row))
    return [each for each in found if each is not None]


def at_deletion(row: TaskRow) -> Sequence[Participant]:
    """Return what takes part when a task is deleted."""
    found = (feature.of_deletion(row) for feature in _taken(row))
    return [each for each in found if each is not None]


def of_failure(
    claim: Claim[Any], failure: Failure, give_up_after: timedelta | None, *, counted: bool
) -> tuple[dict[str, Any], bool, bool]:
    """Return what a failure that does not count, or is limited by age, stores, whether it counts, and is the last."""
    postponing: type[Postponing] = _feature("Postponing")
    return postponing.of_failure(claim, failure, give_up_after, counted=counted)


def change_other_end(journal: Journal[Any], end: Transition) -> None:
    """Let what the run has asked for change an end other than success."""
    for names, feature in _FEATURES:
        if not names.isdisjoint(journal.additions):
            _feature(feature).change_other_end(journal, end)


def guards_of_giving_up(journal: Journal[Any]) -> Sequence[Guard]:
    """Return what the row still has to be like if the block gives the task up."""
    row = journal.claim.task
    taken = () if NAMES.isdisjoint(row._row_state.stored) else _taken(row)
    return [guard for feature in taken for guard in feature.guards_of_giving_up(journal)]


def check_decision(journal: Journal[Any], row: TaskRow) -> None:
    """Raise a TaskNotReadyError if the run has decided without what its row has now."""
    _feature("Awaits").of_success(journal, row)


def after_last_failure(row: TaskRow, now: datetime, claim: Claim[Any] | None = None) -> Transition | None:
    """Return what leads a task on although no attempt is left; None if it is to be ignored.

    `claim` is that of the run that has failed.
    """
    found = (feature.after_last_failure(row, now, claim) for feature in _taken(row))
    return next((each for each in found if each is not None), None)


def last_run(row: TaskRow, outcome: str, attempt: int, ended: datetime) -> dict[str, Any]:
    """Return what the write that ends a round without success keeps of it, if the task repeats."""
    if "repeat" not in row._row_state.stored:
        return {}
    kept: dict[str, Any] = _feature("last_run")(row, outcome, attempt, ended)
    return kept


def _taken(row: TaskRow, additions: Collection[str] = ()) -> list[type[Participant]]:
    stored = row._row_state.stored
    taken = [feature for names, feature in _FEATURES if not (names.isdisjoint(stored) and names.isdisjoint(additions))]
    return [_feature(feature) for feature in taken]


def _feature(name: str) -> Any:
    from pynamodb_tracker.transitions import all_features  # noqa: PLC0415 - few tasks have any

    return getattr(all_features, name)
