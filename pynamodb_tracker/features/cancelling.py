"""Cancelling a task: its write, and the success of a branch step that leads a cancelled task to its end."""

from __future__ import annotations

from typing import Any, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.model.cancelled import CancelRecord
from pynamodb_tracker.model.row import Membership, TaskRow, may_expire, membership_of
from pynamodb_tracker.status import CANCELLED, Codes, end_of
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import seen_values
from pynamodb_tracker.writes.lock import Journal
from pynamodb_tracker.writes.participants import Participant
from pynamodb_tracker.writes.refusals import is_abandoned
from pynamodb_tracker.writes.statements import is_urgent
from pynamodb_tracker.writes.transition import ZERO, Transition

T = TypeVar("T", bound=TaskRow)


class CancelledEnd(Participant):
    """Takes part in the successes of a cancelled task at a branch step: the last one ends it as cancelled."""

    writes = False

    def __init__(self, row: TaskRow) -> None:
        self._row = row

    @classmethod
    def of_success(cls, run: Journal[Any], row: TaskRow) -> CancelledEnd | None:
        """Replace the end by success. Other features then see where the run leads."""
        if end_of(run.next_code) is None:
            return None
        run.next_code = CANCELLED
        return cls(row)

    def change(self, success: Transition) -> None:
        """Keep a task that repeats, and a child, for as long as an ignored one."""
        success.expires = may_expire(self._row)


def cancel(row: TaskRow, codes: Codes, to: Codes | None, record: CancelRecord) -> Transition:
    """End a task, or move it to a branch step that leads to this end. The row no longer waits for anything.

    Only a success adds to the list of its children, and that also changes what must be as read. A task that is moved
    keeps its turn in its group, or its place. The fence of a running task stays in `unfinished`.

    Args:
        row: The task as it was read.
        codes: Those of its step.
        to: Those of the branch step.
        record: Who cancels it, when and why.
    """
    held = row.status == codes.in_progress and not is_abandoned(row, codes, record.time)
    code, membership = CANCELLED if to is None else to.pending, membership_of(row)
    cancel = Transition("cancel running" if held else "cancel", code)
    if held:
        cancel.add(when.held_as_seen(codes), seen={"seen_lock": row.lock})
    else:
        cancel.add(when.as_read(), when.later_token(), when.membership_seen(membership), seen=seen_values(row))
        if row.status == codes.in_progress:
            cancel.add(when.lock_expired())
        if to is not None and row.tracker.lane_codes:
            cancel.add(when.urgent_seen(is_there=is_urgent(row)))
    until = codes.pending if to is None else min(codes.pending, to.pending)
    skipped = [number for number in row.skipped_steps or () if number < until]
    skipped += [each.pending for each in row.tracker.steps if codes.pending <= each.pending < code]
    cancel.add(
        cancelled=record,
        skipped_steps=skipped or None,
        blockers=None,
        awaited_signals=None,
        wait_until=None,
    )
    if to is None:
        cancel.add(turn_due_time=None)
    else:
        cancel.add(attempt=ZERO, release_count=None, postpone_count=None, first_failure=None)
        if membership in {Membership.QUEUE, Membership.QUEUE_AND_OTHERS}:
            cancel.due = clock.NEVER
            cancel.add(blockers=1)
    return cancel
