"""Postponing without using up an attempt, and giving up by age."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.model.failure import Failure
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.writes.lock import Claim, Journal
from pynamodb_tracker.writes.participants import Participant
from pynamodb_tracker.writes.transition import Transition

_MOST = 1000
"""How often a task is postponed without using up an attempt."""


class Postponing(Participant):
    """Removes the attributes of earlier failures with a success."""

    writes = False

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> Postponing:  # noqa: ARG003 - as the others
        """Take part if the task was postponed."""
        return cls()

    def change(self, success: Transition) -> None:
        """Remove the attributes."""
        success.add(postpone_count=None, first_failure=None)


def judge_failure(
    claim: Claim[Any], failure: Failure, give_up_after: timedelta | None, *, counted: bool
) -> tuple[dict[str, Any], bool, bool]:
    """Return the attributes to store, whether the failure counts, and whether the first one was too long ago."""
    values: dict[str, Any] = {}
    if give_up_after is not None:
        step_and_round = claim.statements.codes.pending, claim.round
        first = first_failure(claim.task.first_failure, *step_and_round)
        if first is None:
            values["first_failure"] = first_failure_text(failure.time, *step_and_round)
        elif failure.time - first > give_up_after:
            return {}, True, True
    postponed = claim.task.postpone_count or 0
    counted = counted or postponed >= _MOST
    if not counted:
        values["postpone_count"] = postponed + 1
    return values, counted, False


def first_failure_text(time: datetime, number: int, of_round: str) -> str:
    """Return a first failure in stored form."""
    return f"{clock.stamp(time)} {number} {of_round}"


def first_failure(stored: str | None, number: int, of_round: str) -> datetime | None:
    """Return when a task first failed at this step in this round, or None if unknown."""
    time, _, of = (stored or "").partition(" ")
    return clock.read(time) if of == f"{number} {of_round}" else None
