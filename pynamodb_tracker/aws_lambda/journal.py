"""What an invocation logs and counts as each of its tasks ends: the next task may kill the function.

Metrics are in CloudWatch's embedded metric format, lines of JSON on stdout, which cost no request:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import logging
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from pynamodb_tracker import strict_json
from pynamodb_tracker.aws_lambda.invocation import InvocationAttempt, RunningInvocation
from pynamodb_tracker.aws_lambda.result import InvocationStatus
from pynamodb_tracker.aws_lambda.trigger import Record, UnreadableEventError
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.model.row import TaskRow

log = logging.getLogger("pynamodb_tracker")

LEVELS: Mapping[InvocationStatus | None, int] = {
    "succeeded": logging.INFO,
    "locked": logging.INFO,
    "not_ready": logging.INFO,
    "waits": logging.INFO,
    "paused": logging.INFO,
    "not_found": logging.WARNING,
    "mismatch": logging.WARNING,
    "ignored": logging.WARNING,
}
"""The level of the log for each result; for any other it is ERROR."""

_AT_START = ("Started", "TakenOver")
_AT_END = ("Succeeded", "Failed", "Ignored", "Refused", "Broken")
_MILLISECOND = timedelta(milliseconds=1)


class InvocationLog:
    """The log and the metrics of an invocation, written task by task: the next task may kill the function."""

    def __init__(
        self, model: type[TaskRow], step: str | None, invocation: RunningInvocation, trigger: str, namespace: str | None
    ) -> None:
        self._namespace = namespace
        self._step = log_fields(model.tracker.use_case.name, step)
        self._about = {"request_id": invocation.request_id, "trigger": trigger}

    def attempt_started(self, attempt: InvocationAttempt) -> None:
        """Count an attempt before its block, which may kill the function."""
        self._write_metrics(_AT_START, {"Started": True, "TakenOver": attempt.details.took_over}, {})

    def attempt_ended(self, attempt: InvocationAttempt, record: Record | None = None) -> None:
        """Report what became of a task."""
        self._count(attempt)
        fields = {
            **attempt.details.log_fields,
            "outcome": attempt.outcome,
            "reason": attempt.reason,
            "duration_ms": round(attempt.duration / _MILLISECOND, 3),
        }
        level, message = _level_and_message(attempt)
        log.log(level, "%s %s", attempt, message, extra=self._fields(record, **fields), exc_info=attempt.claim_error)

    def write(self, level: int, message: str, record: Record | None = None, **fields: object) -> None:
        """Write a message, about a record or the whole invocation."""
        log.log(level, "%s", message, extra=self._fields(record, **fields))

    def unreadable(self, error: UnreadableEventError, record: Record | None = None) -> None:
        """Report an event or a record that cannot be read."""
        self._write_metrics((), {"Unreadable": True}, {})
        where = f"record {record.name}: " if record and record.name else ""
        task = "" if error.task_id is None else f"task {error.task_id!r}: "
        fields = self._fields(record, task_id=error.task_id, outcome="unreadable")
        log.error("%s%s%s", where, task, error, extra=fields, exc_info=error if error.is_by_function else None)

    def summary(self, counts: dict[str, Any]) -> None:
        """Report what became of the tasks of the whole invocation."""
        known = {name.replace("_", " "): number for name, number in counts.items() if number is not False}
        text = ", ".join(name if number is True else f"{number} {name}" for name, number in known.items())
        log.info("%s", text, extra=self._fields(None, **counts))

    def _fields(self, record: Record | None, **fields: object) -> dict[str, object]:
        about = {**self._about, "record": record.name} if record and record.name else self._about
        return {**self._step, **about, **fields}

    def _count(self, attempt: InvocationAttempt) -> None:
        is_repeated = attempt.reason == "succeeded"
        counted = {
            "Succeeded": attempt.outcome == "succeeded",
            "Failed": attempt.outcome == "failed",
            "Ignored": attempt.set_aside,
            "Refused": not (attempt.was_claimed or is_repeated),
            "Broken": attempt.is_broken,
        }
        rare = {  # a metric costs money where it is written
            "SkippedOccurrences": attempt.details.skipped_occurrence,
            "Postponed": attempt.details.postponed,
            "Repeated": is_repeated,
        }
        counted |= {name: True for name, is_so in rare.items() if is_so}
        durations = {"Duration": attempt.duration / _MILLISECOND} if attempt.was_claimed else {}
        self._write_metrics(_AT_END, counted, durations)

    def _write_metrics(
        self, always: Iterable[str], counted: Mapping[str, bool], durations: Mapping[str, float]
    ) -> None:
        if self._namespace is None:
            return
        counts = dict.fromkeys(always, 0) | {name: int(is_so) for name, is_so in counted.items()}
        names = ("use_case_id", "step")
        dimensions = {name: str(self._step[name]).encode("ascii", "backslashreplace").decode() for name in names}
        directive = {
            "Namespace": self._namespace,
            "Dimensions": [names],
            "Metrics": [
                *({"Name": name, "Unit": "Count"} for name in counts),
                *({"Name": name, "Unit": "Milliseconds"} for name in durations),
            ],
        }
        about = {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": [directive]}
        sys.stdout.write(strict_json.dumps({"_aws": about, **dimensions, **counts, **durations}) + "\n")
        sys.stdout.flush()


def _level_and_message(attempt: InvocationAttempt) -> tuple[int, str]:
    task, error = attempt.task, attempt.error
    if attempt.unsent is not None:
        return logging.ERROR, f"succeeded, but was not sent to the queue of its next step: {attempt.unsent}"
    if attempt.set_aside or attempt.details.skipped_occurrence:
        ignored = "became ignored and will not run again unless it is reopened"
        what = ignored if attempt.set_aside else "gave up its occurrence, and waits for the next one"
        return logging.ERROR, f"{what}: {task.last_error}"
    if not attempt.was_claimed:
        is_repeated = attempt.reason == "succeeded"
        level = logging.DEBUG if is_repeated else LEVELS.get(attempt.reason, logging.ERROR)
        return level, "had succeeded before" if is_repeated else f"was not started: {error}"
    if attempt.outcome == "succeeded":
        return logging.INFO, "succeeded"
    if attempt.outcome in ("failed", "released"):
        return logging.WARNING, f"failed: {task.last_error}" if attempt.outcome == "failed" else "was released"
    # The message of any other error is the function's own, and may contain a secret.
    reason = error if isinstance(error, TrackerError) else type(error).__name__
    return logging.WARNING, f"ended, and it is not certain that this is recorded: {reason}"
