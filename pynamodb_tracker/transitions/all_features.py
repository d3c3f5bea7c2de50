"""The rare features, which `features` imports together once it needs one. The two smallest are in this module."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pynamodb_tracker.model.failure import Failure
from pynamodb_tracker.model.round_records import first_failure, first_failure_text
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.follow_ups import ChildList, FollowUps
from pynamodb_tracker.transitions.groups import Groups
from pynamodb_tracker.transitions.joins import Parent
from pynamodb_tracker.transitions.lock import Claim, Journal
from pynamodb_tracker.transitions.participants import Participant
from pynamodb_tracker.transitions.parts import Parts
from pynamodb_tracker.transitions.repeats import NextRound
from pynamodb_tracker.transitions.signals import Awaits
from pynamodb_tracker.transitions.transition import Transition

_MOST = 1000
"""How often a task is postponed without using up an attempt, until it succeeds, is reopened or starts over."""

_GONE: dict[str, Any] = {"postpone_count": None, "first_failure": None}


class Postponing(Participant):
    """Postpones a task without using up an attempt, and gives it up by age. A success removes these attributes."""

    writes = False

    @classmethod
    def of_success(cls, run: Journal[Any], row: TaskRow) -> Postponing:  # noqa: ARG003 - as the others
        """Take part in each success of a task that was postponed."""
        return cls()

    def change(self, success: Transition) -> None:
        """Remove the attributes."""
        success.add(**_GONE)

    @staticmethod
    def of_failure(
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


class Branch(Participant):
    """Stores the steps that the success of a run skips, in addition to those that the round has skipped so far.

    A plain end skips the branch steps after its step: nobody has chosen them.
    """

    writes = False

    def __init__(self, journal: Journal[Any], row: TaskRow) -> None:
        self._journal = journal
        self._row = row

    @classmethod
    def of_success(cls, run: Journal[Any], row: TaskRow) -> Branch:
        """Take part in each success of a task that has skipped steps. A step that runs again is not skipped."""
        return cls(run, row)

    def change(self, success: Transition) -> None:
        """Store the numbers of the steps, if they change. Another round begins without any."""
        if "round" in success.values:
            return
        codes, before = self._journal.claim.statements.codes, self._row.skipped_steps or []
        between = range(codes.done_from, self._journal.next_code)
        numbers = [number for number in before if number < codes.pending]
        numbers += [each.pending for each in self._row.tracker.steps if each.pending in between]
        if numbers != before:
            success.add(skipped_steps=numbers or None)


FEATURES: dict[str, Any] = {
    each.__name__: each for each in (Awaits, Branch, ChildList, FollowUps, Groups, NextRound, Parent, Parts, Postponing)
}
