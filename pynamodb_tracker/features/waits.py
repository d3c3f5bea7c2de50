"""How long a task's next step waits for children and signals.

A success begins the wait, and the next one ends it. `missed_signals` names the signals that were still missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.exceptions import TaskNotReadyError
from pynamodb_tracker.features.signals import not_received
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import end_of
from pynamodb_tracker.writes.conditions import Guard
from pynamodb_tracker.writes.lock import Journal
from pynamodb_tracker.writes.participants import Participant
from pynamodb_tracker.writes.transition import EMPTY_MAP, Transition

_OF_WAIT = frozenset({"blockers", "awaited_signals", "wait_until"})


class Waits(Participant):
    """Begins the next step's wait, and ends this step's."""

    writes = False

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        """The signals that the next step waits for."""
        self.until: datetime | None = None
        """When the next step starts even if something is missing."""
        self.run: Any = None
        self.row: Any = None
        self.missing: frozenset[str] = frozenset()
        self.claimed: frozenset[str] = frozenset()
        """Signals that were still missing when the task was claimed."""

    def limit(self, until: datetime) -> None:
        """Set the limit. Raise a ValueError if there is a different one."""
        if self.until not in (None, until):
            raise ValueError(f"the next step already has the limit {self.until}, so it cannot have {until} as well")
        self.until = until

    @classmethod
    def of_run(cls, run: Journal[Any]) -> Waits:
        """Return the run's waits. They stay in its additions even if a signal removes the row's attributes."""
        waits: Waits = run.additions.setdefault("waits", cls())
        waits.run, waits.claimed = run, (run.claim.task.awaited_signals or frozenset()) - waits.names
        return waits

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> Waits:
        """Find the missing signals. If one has come that the run did not know, raise TaskNotReadyError."""
        waits, received = cls.of_run(run), (row.signals or {}).keys()
        waits.row, waits.missing = row, waits.names - received
        if came := waits.claimed & received:
            run.unstarted = TaskNotReadyError(
                f"{run.claim} has decided without the signal {', '.join(sorted(came))}, which came during its run. The "
                "attempt is released without recording anything, and the next one has the signal",
                task_id=row.task_id,
                task=row,
            )
            raise run.unstarted
        return waits

    @classmethod
    def giving_up_guards(cls, run: Journal[Any]) -> Sequence[Guard]:
        """Require that no signal has come since the claim, unless a retry would repeat a part."""
        if getattr(run.additions.get("checkpoints"), "is_stuck", False):
            return ()
        return [not_received(name) for name in sorted(cls.of_run(run).claimed)]

    def change(self, success: Transition) -> None:
        """Begin the next step's wait, and end this step's."""
        run, row, missing = self.run, self.row, self.missing
        follow_ups = run.additions.get("follow_ups")
        children = 0 if follow_ups is None else follow_ups.waited
        success.add(*(not_received(name) for name in sorted(missing | self.claimed)))
        if children or missing:
            success.due = self.until or clock.NEVER
            success.add(blockers=children or None, awaited_signals=missing or None, wait_until=self.until)
            if children:
                success.add(join_token=run.claim.token)
            if missing:
                success.add(signals=EMPTY_MAP)
        else:
            success.add(**dict.fromkeys(sorted(_OF_WAIT & row._row_state.stored.keys())))
        known = row.missed_signals or frozenset()
        missed = (known | self.claimed) - self.names
        if missed != known and not end_of(run.next_code):
            success.add(missed_signals=missed or None)
