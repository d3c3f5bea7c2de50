"""What one invocation tells about its tasks: lines in the log, and metrics."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pynamodb_tracker.aws_lambda.attempt import Attempt
from pynamodb_tracker.aws_lambda.event import Record, UnreadableEventError
from pynamodb_tracker.aws_lambda.invocation import Invocation
from pynamodb_tracker.aws_lambda.metrics import Metrics
from pynamodb_tracker.aws_lambda.replies import Reason
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.step.bound import BoundStep

__all__ = ["Journal"]

log = logging.getLogger("pynamodb_tracker")

_LEVELS: dict[Reason | None, int] = {
    "succeeded": logging.INFO,
    "locked": logging.INFO,
    "not_ready": logging.INFO,
    "not_found": logging.WARNING,
    "ignored": logging.WARNING,
}
"""How much it matters why a task was not started."""


class Journal:
    """The log and the metrics of an invocation: of each task at once, for nobody knows whether it lives to the next."""

    def __init__(self, step: BoundStep[Any], invocation: Invocation, trigger: str, namespace: str | None) -> None:
        self._metrics = None if namespace is None else Metrics(step, namespace)
        self._about = {
            "use_case_id": step.model.tracker.use_case.name,
            "step": step.name,
            "request_id": invocation.request_id,
            "trigger": trigger,
        }

    def note(self, attempt: Attempt, record: Record | None = None) -> None:
        """Tell what became of a task."""
        if self._metrics is not None:
            self._metrics.count(attempt)
        level, told = _told(attempt)
        extra = self._fields(record, outcome=attempt.outcome, **_fields_of(attempt))
        log.log(level, "%s %s", attempt, told, extra=extra, exc_info=attempt.not_started_by)

    def refuse(self, error: UnreadableEventError, record: Record | None = None) -> None:
        """Tell of an event or a record that cannot be read."""
        if self._metrics is not None:
            self._metrics.refuse()
        where = f"record {record.name}: " if record and record.name else ""
        log.error("%s%s", where, error, extra=self._fields(record, outcome="unreadable"))

    def leave(self, records: Sequence[Record]) -> None:
        """Tell of records that are not begun, for there is no time left."""
        first = records[0]
        log.warning(
            "there is no time left for %d records, the first of which is %s: they come again",
            len(records),
            first.name,
            extra=self._fields(first, outcome="left"),
        )

    def skip(self, record: Record) -> None:
        """Tell of a message that waits for an earlier one of its group."""
        log.info(
            "record %s waits for an earlier one of its group", record.name, extra=self._fields(record, outcome="left")
        )

    def tell(self, message: str, **fields: object) -> None:
        """Tell of the invocation as a whole."""
        log.info("%s", message, extra=self._fields(None, **fields))

    def warn(self, message: str) -> None:
        """Tell of something that a person should change."""
        log.warning("%s", message, extra=self._fields(None))

    def _fields(self, record: Record | None, **fields: object) -> dict[str, object]:
        return {**self._about, **({"record": record.name} if record and record.name else {}), **fields}


def _fields_of(attempt: Attempt) -> dict[str, object]:
    fields: dict[str, object] = {
        "task_id": attempt.task_id,
        "reason": attempt.reason,
        "duration_ms": round(attempt.duration / timedelta(milliseconds=1), 3),
    }
    return fields if attempt.ctx is None else {**fields, "attempt": attempt.ctx.attempt, "fence": attempt.ctx.fence}


def _told(attempt: Attempt) -> tuple[int, str]:
    """Return how much it matters what became of a task, and that in words."""
    task, error = attempt.task, attempt.error
    if attempt.set_aside:
        return logging.ERROR, f"was set aside, and waits for a person to reopen it: {task.last_error}"
    if attempt.ctx is None:
        return _LEVELS.get(attempt.reason, logging.ERROR), f"was not started: {error}"
    if attempt.outcome == "succeeded":
        return logging.INFO, "succeeded"
    if attempt.outcome == "failed":
        return logging.WARNING, f"failed: {task.last_error}"
    # The message of another error is the function's own, and may hold a secret.
    return logging.WARNING, f"ended unrecorded: {error if isinstance(error, TrackerError) else type(error).__name__}"
