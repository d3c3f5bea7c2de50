"""Successes that skip steps, or that end a cancelled task."""

from __future__ import annotations

from typing import Any

from pynamodb_tracker.model.row import TaskRow, may_expire
from pynamodb_tracker.status import CANCELLED, end_of
from pynamodb_tracker.writes.lock import Journal
from pynamodb_tracker.writes.participants import Participant
from pynamodb_tracker.writes.transition import Transition


class CancelledEnd(Participant):
    """Ends a cancelled task as cancelled after its last branch step."""

    writes = False

    def __init__(self, row: TaskRow) -> None:
        self._row = row

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> CancelledEnd | None:
        """Replace the end by success, before other features look at it."""
        if end_of(run.next_code) is None:
            return None
        run.next_code = CANCELLED
        return cls(row)

    def change(self, success: Transition) -> None:
        """Keep repeating tasks and children, as ignored ones are kept."""
        success.expires = may_expire(self._row)


class SkippedSteps(Participant):
    """Stores the steps that a round has skipped, and branch steps that it has not chosen."""

    writes = False

    def __init__(self, journal: Journal[Any], row: TaskRow) -> None:
        self._journal = journal
        self._row = row

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> SkippedSteps:
        """Take part if the task has skipped steps."""
        return cls(run, row)

    def change(self, success: Transition) -> None:
        """Update the skipped steps, unless another round begins. A step that runs again is not skipped."""
        if "round" in success.values:
            return
        codes, before = self._journal.claim.statements.codes, self._row.skipped_steps or []
        between = range(codes.done_from, self._journal.next_code)
        numbers = [number for number in before if number < codes.pending]
        numbers += [each.pending for each in self._row.tracker.steps if each.pending in between]
        if numbers != before:
            success.add(skipped_steps=numbers or None)
