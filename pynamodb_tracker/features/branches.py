"""The steps that a run skips: those that it passes over with `ctx.go_to`, and branch steps that nobody has chosen."""

from __future__ import annotations

from typing import Any

from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.writes.lock import Journal
from pynamodb_tracker.writes.participants import Participant
from pynamodb_tracker.writes.transition import Transition


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
