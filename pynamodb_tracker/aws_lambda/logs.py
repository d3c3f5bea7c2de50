"""What an invocation reports about its tasks: lines in the log, and metrics, each as soon as a task has ended.

Metrics are in CloudWatch's embedded metric format, lines of JSON on stdout, which cost no request:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import json
import logging
import re
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pynamodb_tracker.arguments import shown
from pynamodb_tracker.aws_lambda.invocation import Invocation, InvocationAttempt
from pynamodb_tracker.aws_lambda.trigger import Reason, Record, UnreadableEventError
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.step.bound import BoundStep

log = logging.getLogger("pynamodb_tracker")

_LEVELS: dict[Reason | None, int] = {
    "succeeded": logging.INFO,
    "locked": logging.INFO,
    "not_ready": logging.INFO,
    "not_found": logging.WARNING,
    "ignored": logging.WARNING,
}
"""The level of the log for each reason why a task was not started; for any other it is ERROR."""

_NAMESPACE = "pynamodb_tracker"
_ALLOWED = re.compile(r"(?!AWS/)(?=.{1,255}\Z)[0-9A-Za-z._/#-][0-9A-Za-z._/#: -]*")
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html; AWS/ is reserved."""

_COUNTS = ("Started", "Succeeded", "Failed", "Ignored", "TakenOver", "Refused")
_MILLISECOND = timedelta(milliseconds=1)


def check_namespace(metrics: object) -> str | None:
    """Return the namespace of the metrics; None if they are switched off."""
    if isinstance(metrics, bool):
        return _NAMESPACE if metrics else None
    if not (isinstance(metrics, str) and _ALLOWED.fullmatch(metrics)):
        raise ValueError(
            "metrics is True, False, or a namespace: 1 to 255 letters, digits and ._/#:- that do not begin with AWS/, "
            f"not {shown(metrics)}"
        )
    return metrics


class InvocationLog:
    """The log and the metrics of an invocation, written task by task: the next task may kill the function."""

    def __init__(self, step: BoundStep[Any], invocation: Invocation, trigger: str, namespace: str | None) -> None:
        self._metrics = None if namespace is None else _Metrics(step, namespace)
        self._about = {
            "use_case_id": step.model.tracker.use_case.name,
            "step": step.name,
            "request_id": invocation.request_id,
            "trigger": trigger,
        }

    def attempt_ended(self, attempt: InvocationAttempt, record: Record | None = None) -> None:
        """Report what became of a task."""
        if self._metrics is not None:
            self._metrics.count(attempt)
        fields: dict[str, object] = {
            "outcome": attempt.outcome,
            "task_id": attempt.task_id,
            "reason": attempt.reason,
            "duration_ms": round(attempt.duration / _MILLISECOND, 3),
        }
        if attempt.ctx is not None:
            fields |= {"attempt": attempt.ctx.attempt, "fence": attempt.ctx.fence}
        level, message = _level_and_message(attempt)
        log.log(level, "%s %s", attempt, message, extra=self._fields(record, **fields), exc_info=attempt.claim_error)

    def unreadable(self, error: UnreadableEventError, record: Record | None = None) -> None:
        """Report an event or a record that cannot be read."""
        if self._metrics is not None:
            self._metrics.count_unreadable()
        where = f"record {record.name}: " if record and record.name else ""
        log.error("%s%s", where, error, extra=self._fields(record, outcome="unreadable"))

    def no_time_for(self, records: Sequence[Record]) -> None:
        """Report records that were not started because the invocation is about to end."""
        log.warning(
            "no time is left for %d records, from %s on: they will be redelivered",
            len(records),
            records[0].name,
            extra=self._fields(records[0], outcome="left"),
        )

    def group_blocked(self, record: Record) -> None:
        """Report a message that was not started because an earlier one of its group will be redelivered."""
        log.info(
            "record %s was not started: an earlier one of its group will be redelivered first",
            record.name,
            extra=self._fields(record, outcome="left"),
        )

    def summary(self, counts: dict[str, Any]) -> None:
        """Report what became of the tasks of the whole invocation."""
        text = ", ".join(f"{count} {name}" for name, count in counts.items())
        log.info("%s", text, extra=self._fields(None, **counts))

    def advise(self, message: str) -> None:
        """Report a setting that somebody should change."""
        log.warning("%s", message, extra=self._fields(None))

    def _fields(self, record: Record | None, **fields: object) -> dict[str, object]:
        return {**self._about, **({"record": record.name} if record and record.name else {}), **fields}


def _level_and_message(attempt: InvocationAttempt) -> tuple[int, str]:
    task, error = attempt.task, attempt.error
    if attempt.set_aside:
        return logging.ERROR, f"was set aside and will not run again unless it is reopened: {task.last_error}"
    if attempt.ctx is None:
        return _LEVELS.get(attempt.reason, logging.ERROR), f"was not started: {error}"
    if attempt.outcome == "succeeded":
        return logging.INFO, "succeeded"
    if attempt.outcome == "failed":
        return logging.WARNING, f"failed: {task.last_error}"
    # The message of any other error is the function's own, and may contain a secret.
    reason = error if isinstance(error, TrackerError) else type(error).__name__
    return logging.WARNING, f"ended, but that was not recorded: {reason}"


class _Metrics:
    """The metrics of a step: a line for each task."""

    def __init__(self, step: BoundStep[Any], namespace: str) -> None:
        names = {"use_case_id": step.model.tracker.use_case.name, "step": step.name}
        self._dimensions = {name: value.encode("ascii", "backslashreplace").decode() for name, value in names.items()}
        self._namespace = namespace

    def count(self, attempt: InvocationAttempt) -> None:
        """Count what became of a task."""
        started = attempt.ctx is not None
        counted = {
            "Started": started,
            "Succeeded": attempt.outcome == "succeeded",
            "Failed": attempt.outcome == "failed",
            "Ignored": attempt.set_aside,
            "TakenOver": attempt.took_over,
            "Refused": not started,
        }
        self._write(counted, {"Duration": attempt.duration / _MILLISECOND} if started else {})

    def count_unreadable(self) -> None:
        """Count an event or a record that cannot be read."""
        self._write({"Refused": True}, {})

    def _write(self, counted: dict[str, bool], durations: dict[str, float]) -> None:
        counts = {name: int(counted.get(name, False)) for name in _COUNTS}
        directive = {
            "Namespace": self._namespace,
            "Dimensions": [list(self._dimensions)],
            "Metrics": [
                *({"Name": name, "Unit": "Count"} for name in counts),
                *({"Name": name, "Unit": "Milliseconds"} for name in durations),
            ],
        }
        about = {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": [directive]}
        sys.stdout.write(json.dumps({"_aws": about, **self._dimensions, **counts, **durations}) + "\n")
        sys.stdout.flush()
