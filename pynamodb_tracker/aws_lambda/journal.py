"""Writes an invocation's log and metrics."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pynamodb_tracker.aws_lambda import emf
from pynamodb_tracker.aws_lambda.invocation import InvocationAttempt, RunningInvocation
from pynamodb_tracker.aws_lambda.trigger import Record, UnreadableEventError
from pynamodb_tracker.exceptions import TaskFormatError, TrackerError
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model.row import TaskRow

# The log levels of results. Any other is an ERROR.
LEVELS: Mapping[str | None, int] = {
    **dict.fromkeys(("succeeded", "locked", "not_ready", "waits", "paused", "limited", "cancelled"), logging.INFO),
    **dict.fromkeys(("not_found", "mismatch", "ignored"), logging.WARNING),
}

_MILLISECOND = timedelta(milliseconds=1)


class InvocationLog:
    """Logs and counts each task as soon as it ends, because the next one may kill the function."""

    def __init__(
        self,
        model: type[TaskRow],
        step: str | None,
        invocation: RunningInvocation,
        trigger: str,
        namespace: str | None = None,
        *,
        known: set[str] | None = None,
    ) -> None:
        """`known` has newer versions' tasks that earlier invocations warned about."""
        self._namespace = namespace
        self._known = set[str]() if known is None else known
        self._step = log_fields(model.tracker.use_case.name, step)
        self._about = {"request_id": invocation.request_id, "trigger": trigger}

    def attempt_started(self, attempt: InvocationAttempt) -> None:
        if self._namespace is not None:
            emf.EmfHook(self._namespace).on_start(attempt.details)

    def attempt_ended(self, attempt: InvocationAttempt, record: Record | None = None) -> None:
        if self._namespace is not None:
            emf.count_end(self._namespace, attempt.details, is_unsent=attempt.unsent is not None)
        level, message = _level_and_message(attempt)
        if isinstance(attempt.claim_error, TaskFormatError):
            level = logging.DEBUG if attempt.task_id in self._known else logging.WARNING
            self._known.add(attempt.task_id)
        if not log.isEnabledFor(level):
            return
        fields = {
            **attempt.details.log_fields,
            "outcome": attempt.outcome,
            "reason": attempt.reason,
            "duration_ms": round(attempt.duration / _MILLISECOND, 3),
        }
        log.log(level, "%s %s", attempt, message, extra=self._fields(record, **fields), exc_info=attempt.system_error)

    def write(self, level: int, message: str, record: Record | None = None, **fields: object) -> None:
        log.log(level, "%s", message, extra=self._fields(record, **fields))

    def unreadable(self, error: UnreadableEventError, record: Record | None = None) -> None:
        if self._namespace is not None:
            emf.write(self._namespace, self._step["use_case_id"], self._step["step"], {"Unreadable": 1})
        where = f"record {record.name}: " if record and record.name else ""
        task = "" if error.task_id is None else f"task {error.task_id!r}: "
        fields = self._fields(record, task_id=error.task_id, outcome="unreadable")
        log.error("%s%s%s", where, task, error, extra=fields, exc_info=error if error.is_by_function else None)

    def summary(self, counts: dict[str, Any]) -> None:
        known = {name.replace("_", " "): number for name, number in counts.items() if number is not False}
        text = ", ".join(name if number is True else f"{number} {name}" for name, number in known.items())
        log.info("%s", text, extra=self._fields(None, **counts))

    def _fields(self, record: Record | None, **fields: object) -> dict[str, object]:
        about = {**self._about, "record": record.name} if record and record.name else self._about
        return {**self._step, **about, **fields}


def _level_and_message(attempt: InvocationAttempt) -> tuple[int, str]:
    task, error, outcome = attempt.task, attempt.error, attempt.outcome
    if attempt.unsent is not None:
        return logging.ERROR, f"succeeded, but was not sent to its next step's queue: {attempt.unsent}"
    is_ignored = emf.became_ignored(attempt.details)
    if is_ignored or attempt.details.skipped_occurrence:
        ignored = "became ignored and will not run again unless it is reopened"
        text = ignored if is_ignored else "gave up its occurrence and waits for the next one"
        return logging.ERROR, f"{text}: {task.last_error}"
    if attempt.claim_error is not None:
        is_repeated = attempt.reason == "succeeded"
        level = logging.DEBUG if is_repeated else LEVELS.get(attempt.reason, logging.ERROR)
        return level, "had succeeded before" if is_repeated else f"was not started: {error}"
    if outcome == "succeeded":
        return logging.INFO, "succeeded"
    if outcome in ("failed", "released"):
        return logging.WARNING, f"failed: {task.last_error}" if outcome == "failed" else "was released"
    # Any other error is the function's own, and its message may contain a secret.
    reason = error if isinstance(error, TrackerError) else type(error).__name__
    return logging.WARNING, f"ended, but that may not be recorded: {reason}"
