"""Which module in `features` handles which row attributes.

A feature takes part if the row has such an attribute, even a damaged one, or if the run has requested it in
`Journal.additions`. Claiming a row imports its features, so that no import can fail after the work is done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.writes.conditions import Guard
from pynamodb_tracker.writes.lock import Claim, Journal
from pynamodb_tracker.writes.participants import Participant
from pynamodb_tracker.writes.transition import Transition

if TYPE_CHECKING:
    from pynamodb_tracker.model.repeat import Repeat

FEATURES = (
    (frozenset({"repeat", "queued"}), "repeats", "NextRound"),
    (frozenset({"group"}), "groups.queue", "Groups"),
    (frozenset({"follow_ups"}), "children.follow_ups", "FollowUps"),
    (frozenset({"follow_ups"}), "children.child_list", "ChildList"),
    (frozenset({"waits", "follow_ups", "blockers", "awaited_signals", "wait_until"}), "waits", "Waits"),
    (frozenset({"parent"}), "children.joins", "ChildCount"),
    (frozenset({"checkpoints"}), "checkpoints", "Parts"),  # last, because another round begins without parts
)
"""Names of row attributes and of `Journal.additions`, and the participant they concern, in the order of writing."""

_NAMES = frozenset[str]().union(*(names for names, _, _ in FEATURES))


def first_turn(repeat: Repeat, at: datetime) -> tuple[datetime, Item] | None:
    """Return a repeating task's first due time and attributes, or None if it never occurs."""
    return cast("tuple[datetime, Item] | None", _import("repeats", "first_stored_turn")(repeat, at))


def creation_participants(row: TaskRow, item: Item) -> Sequence[Participant]:
    """Return the participants in creating a task."""
    return [] if _NAMES.isdisjoint(item) else _without_none(each.for_creation(row, item) for each in _features(item))


def after_claim(claim: Claim[Any]) -> Transition | None:
    """Import a claimed row's features, and return the write that one of them needs before the block."""
    stored = claim.task._row_state.stored
    if _NAMES.isdisjoint(stored):
        return None
    found = [feature.after_claim(claim) for feature in _features(stored)]
    return next((each for each in found if each is not None), None)


def success_participants(journal: Journal[Any], row: TaskRow) -> Sequence[Participant]:
    """Return the participants in recording a success. `row` is the claimed row, or a newer one."""
    asked, stored = journal.additions, row._row_state.stored
    if not asked and _NAMES.isdisjoint(stored):
        return []
    return _without_none(each.for_success(journal, row) for each in _features(stored, asked))


def ignoring_participants(row: TaskRow) -> Sequence[Participant]:
    """Return the participants in ignoring or cancelling a task."""
    return _without_none(each.for_ignoring(row) for each in _features(row._row_state.stored))


def deletion_participants(row: TaskRow) -> Sequence[Participant]:
    """Return the participants in deleting a task."""
    return _without_none(each.for_deletion(row) for each in _features(row._row_state.stored))


def change_other_end(journal: Journal[Any], end: Transition) -> None:
    """Let features change a failure or release before it is sent."""
    for feature in _features(journal.additions):
        feature.change_other_end(journal, end)


def giving_up_guards(journal: Journal[Any]) -> Sequence[Guard]:
    """Return the conditions that the row must meet when a run gives up its task."""
    features = _features(journal.claim.task._row_state.stored)
    return [guard for feature in features for guard in feature.giving_up_guards(journal)]


def check_decision(journal: Journal[Any], row: TaskRow) -> None:
    """Raise a TaskNotReadyError if the run has decided without a signal that has come since."""
    _import("waits", "Waits").for_success(journal, row)


def after_last_failure(row: TaskRow, now: datetime, claim: Claim[Any] | None = None) -> Transition | None:
    """Return the transition that keeps a task going after its last attempt, if there is one."""
    found = (feature.after_last_failure(row, now, claim) for feature in _features(row._row_state.stored))
    return next((each for each in found if each is not None), None)


def last_run(row: TaskRow, outcome: str, attempt: int, ended: datetime) -> dict[str, Any]:
    """Return a repeating task's record for a round without success."""
    if "repeat" not in row._row_state.stored:
        return {}
    return cast("dict[str, Any]", _import("repeats", "last_run")(row, outcome, attempt, ended))


def _without_none(found: Iterable[Participant | None]) -> list[Participant]:
    return [each for each in found if each is not None]


def _features(stored: Collection[str], asked: Collection[str] = ()) -> list[type[Participant]]:
    return [
        _import(module, participant)
        for names, module, participant in FEATURES
        if not (names.isdisjoint(stored) and names.isdisjoint(asked))
    ]


def _import(module: str, name: str) -> Any:
    return getattr(import_module(f"pynamodb_tracker.features.{module}"), name)
