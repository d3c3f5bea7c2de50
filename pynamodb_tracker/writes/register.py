"""The register of features: which module of `features` takes part in the writes of a row with which attributes.

A feature takes part if the row has one of its attributes, even with a damaged value, or if the run has asked for it in
`Journal.additions`. Creation, claim, success, failure, ignoring and deletion all ask here, and name no feature.

Features are named by module and class, because they stand on this module. Claiming a row imports its features, so that
no import can fail after the work is done. Other runs do not import them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.failure import Failure
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.writes.conditions import Guard
from pynamodb_tracker.writes.lock import Claim, Journal
from pynamodb_tracker.writes.participants import Participant
from pynamodb_tracker.writes.transition import Transition

if TYPE_CHECKING:
    from pynamodb_tracker.model.repeat import Repeat

FEATURES = (
    (frozenset({"repeat", "queued"}), "repeats", "NextRound"),
    (frozenset({"postpone_count", "first_failure"}), "postponing", "Postponing"),
    (frozenset({"group"}), "groups.queue", "Groups"),
    (frozenset({"follow_ups"}), "children.follow_ups", "FollowUps"),
    (frozenset({"follow_ups"}), "children.child_list", "ChildList"),
    (frozenset({"waits", "follow_ups", "blockers", "awaited_signals", "wait_until"}), "waits", "Waits"),
    (frozenset({"parent"}), "children.joins", "Parent"),
    (frozenset({"checkpoints"}), "checkpoints", "Parts"),  # these two are last, because another round begins without
    (frozenset({"skipped_steps", "target"}), "branches", "Branch"),
)
"""The attributes, module and participant of each feature, in the order of their writes."""

_NAMES = frozenset[str]().union(*(names for names, _, _ in FEATURES))


def first_turn(repeat: Repeat, at: datetime) -> tuple[datetime, Item] | None:
    """Return when a new task with this rule is first due, and what its row stores for that. None if it never is."""
    of_new: tuple[datetime, Item] | None = _imported("repeats", "turn_of_new")(repeat, at)
    return of_new


def at_creation(row: TaskRow, item: Item) -> Sequence[Participant]:
    """Return the participants in creating a task. They may change the stored `item` of its row before it is sent."""
    if _NAMES.isdisjoint(item):
        return ()
    found = (feature.of_creation(row, item) for feature in _taken(item))
    return [each for each in found if each is not None]


def after_claim(claim: Claim[Any]) -> Transition | None:
    """Import the features of a claimed row. Return the write that one of them needs before the block begins."""
    stored = claim.task._row_state.stored
    if _NAMES.isdisjoint(stored):
        return None
    found = [feature.after_claim(claim) for feature in _taken(stored)]
    return next((each for each in found if each is not None), None)


def at_success(journal: Journal[Any], row: TaskRow) -> Sequence[Participant]:
    """Return the participants in recording a success; `row` is the claimed row, or a newer one.

    Raises ValueNotStorableError if the block has changed a feature's value to something that cannot be stored.
    """
    codes, asked = journal.claim.statements.codes, set(journal.additions)
    if codes.skips_branches:  # unless the run has chosen one
        asked.add("target")
    if not asked and _NAMES.isdisjoint(row._row_state.stored):
        return ()
    found = (feature.of_success(journal, row) for feature in _taken(row._row_state.stored, asked))
    return [each for each in found if each is not None]


def at_ignored(row: TaskRow) -> Sequence[Participant]:
    """Return the participants in ignoring a task."""
    found = (feature.of_ignored(row) for feature in _taken(row._row_state.stored))
    return [each for each in found if each is not None]


def at_deletion(row: TaskRow) -> Sequence[Participant]:
    """Return the participants in deleting a task."""
    found = (feature.of_deletion(row) for feature in _taken(row._row_state.stored))
    return [each for each in found if each is not None]


def of_failure(
    claim: Claim[Any], failure: Failure, give_up_after: timedelta | None, *, counted: bool
) -> tuple[dict[str, Any], bool, bool]:
    """Return the attributes to store for a failure, whether it uses up an attempt, and whether it is final."""
    of_failure: tuple[dict[str, Any], bool, bool]
    of_failure = _imported("postponing", "of_failure")(claim, failure, give_up_after, counted=counted)
    return of_failure


def change_other_end(journal: Journal[Any], end: Transition) -> None:
    """Let features change the failure or release before it is sent."""
    for feature in _taken(journal.additions):
        feature.change_other_end(journal, end)


def guards_of_giving_up(journal: Journal[Any]) -> Sequence[Guard]:
    """Return the conditions that the row must meet when a run gives up its task."""
    taken = _taken(journal.claim.task._row_state.stored)
    return [guard for feature in taken for guard in feature.guards_of_giving_up(journal)]


def check_decision(journal: Journal[Any], row: TaskRow) -> None:
    """Raise a TaskNotReadyError if the run has decided without a signal that its row has now."""
    _imported("waits", "Waits").of_success(journal, row)


def after_last_failure(row: TaskRow, now: datetime, claim: Claim[Any] | None = None) -> Transition | None:
    """Return the transition that keeps a task going after its last attempt, or None if the task becomes ignored.

    `claim` is the claim of the failed run.
    """
    found = (feature.after_last_failure(row, now, claim) for feature in _taken(row._row_state.stored))
    return next((each for each in found if each is not None), None)


def last_run(row: TaskRow, outcome: str, attempt: int, ended: datetime) -> dict[str, Any]:
    """Return the record of a round that ends without success, if the task repeats."""
    if "repeat" not in row._row_state.stored:
        return {}
    record: dict[str, Any] = _imported("repeats", "last_run")(row, outcome, attempt, ended)
    return record


def _taken(stored: Collection[str], asked: Collection[str] = ()) -> list[type[Participant]]:
    """Return the features of a row with these attributes, and those that were asked for."""
    return [
        _imported(module, participant)
        for names, module, participant in FEATURES
        if not (names.isdisjoint(stored) and names.isdisjoint(asked))
    ]


def _imported(module: str, name: str) -> Any:
    return getattr(import_module(f"pynamodb_tracker.features.{module}"), name)
