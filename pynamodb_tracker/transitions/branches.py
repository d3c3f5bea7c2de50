"""A branch: a run chooses to which step its success leads, and the row has the numbers of those that it passes over."""

from __future__ import annotations

from typing import Any

from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.lock import Journal
from pynamodb_tracker.transitions.participants import Participant
from pynamodb_tracker.transitions.transition import Transition


class Branch(Participant):
    """Stores which steps the success of a run passes over, with those that earlier runs of the round have.

    A plain end passes over the branch steps that come after its step: nobody has chosen them.
    """

    writes = False

    def __init__(self, journal: Journal[Any], row: TaskRow) -> None:
        self._journal = journal
        self._row = row

    @classmethod
    def of_success(cls, run: Journal[Any], row: TaskRow) -> Branch:
        """Take part in every success of a task that has chosen a step: one that is run again is not passed over."""
        return cls(run, row)

    def change(self, success: Transition) -> None:
        """Store the numbers of the steps, if they change; another round begins without any."""
        if "round" in success.values:
            return
        codes, before = self._journal.claim.statements.codes, self._row.skipped_steps or []
        between = range(codes.done_from, self._journal.next_code)
        numbers = [number for number in before if number < codes.pending]
        numbers += [each.pending for each in self._row.tracker.steps if each.pending in between]
        if numbers != before:
            success.add(skipped_steps=numbers or None)
