"""Caches each control item for five seconds. A known pause holds even if the table does not respond."""

import threading
from datetime import datetime, timedelta
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.control.item import Pause, compare, read
from pynamodb_tracker.dynamodb.forking import PerConnection
from pynamodb_tracker.exceptions import DefinitionError, TrackerError
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.status import SPACING
from pynamodb_tracker.writes.lock import Journal

INTERVAL = timedelta(seconds=5)  # by the time of day, which continues while a Lambda environment is frozen

_WITHIN = timedelta(seconds=2)


class _Known:
    def __init__(self) -> None:
        self.pauses: dict[int, Pause] | None = None  # None until the item was read
        self.required: list[int] = []  # the required steps that this program does not declare
        self.mistake = ""  # why the class's steps contradict the recorded ones
        self.is_compared = False
        self.is_warned = False
        self.last_read: datetime | None = None
        self.guard = threading.Lock()

    @property
    def is_fresh(self) -> bool:
        """Whether it was read recently. Setting the clock back does not prolong that."""
        return self.last_read is not None and self.last_read <= clock.now() < self.last_read + INTERVAL

    def refresh(self, model: type[TaskRow]) -> None:
        """Read the item unless it is fresh. Other threads wait for the read."""
        if self.is_fresh or not self.guard.acquire(timeout=_WITHIN.total_seconds()):
            return
        try:
            if not self.is_fresh:
                begun = clock.now()  # the read may miss a pause that is added while it runs
                try:
                    self._read(model)
                finally:
                    self.last_read = begun
        finally:
            self.guard.release()

    def _read(self, model: type[TaskRow]) -> None:
        try:
            control = read(model, within=_WITHIN)
            self.pauses, steps = control.pauses, model.tracker.steps
            self.required = [
                number
                for number in sorted(control.required)
                if all(abs(number - codes.pending) >= SPACING for codes in steps)
            ]
            if not self.is_compared:
                compare(model, control)
            self.is_compared, self.is_warned, self.mistake = True, False, ""
        except DefinitionError as error:
            self.mistake = str(error)
        except (PynamoDBException, TrackerError) as error:
            if not self.is_warned:
                held = "pauses are unknown, and work continues" if self.pauses is None else "known pauses hold"
                text = "cannot read the control item of %s or record its steps (%s): %s"
                log.warning(text, model.__name__, held, error, extra=log_fields(model.tracker.use_case.name))
            self.is_warned = True


_known = PerConnection(lambda _: _Known())


def _find_known(model: type[TaskRow]) -> _Known:
    known = _known.of(model)
    known.refresh(model)
    return known


def lead_to_required(journal: Journal[Any]) -> None:
    """Let a success lead to a required step that this program does not declare.

    A target that the block has chosen stays, as in a program that declares the step.
    """
    codes = journal.claim.statements.codes
    if codes.branch or "target" in journal.additions:
        return
    between = range(codes.pending, codes.succeeded)
    required = _find_known(type(journal.claim.task)).required
    journal.next_code = next((number for number in required if number in between), codes.succeeded)


def pause_of(model: type[TaskRow], number: int) -> Pause | None:
    """Return a step's current pause. Raise DefinitionError if tasks are stored with other step numbers."""
    known = _find_known(model)
    if known.mistake:
        raise DefinitionError(known.mistake)
    pause = (known.pauses or {}).get(number)
    return pause if pause is not None and pause.is_in_force else None
