"""Metrics in CloudWatch's embedded metric format: lines of JSON on stdout, which cost no request.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import timedelta
from typing import Any

from pynamodb_tracker.arguments import shown
from pynamodb_tracker.aws_lambda.attempt import Attempt
from pynamodb_tracker.step.bound import BoundStep

__all__ = ["Metrics", "check_namespace"]

_NAMESPACE = "pynamodb_tracker"
_ALLOWED = re.compile(r"(?!AWS/)(?=.{1,255}\Z)[0-9A-Za-z._/#-][0-9A-Za-z._/#: -]*")
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html; AWS/ is for AWS."""

_COUNTS = ("Started", "Succeeded", "Failed", "Ignored", "TakenOver", "Refused")


def check_namespace(metrics: object) -> str | None:
    """Return the namespace of the metrics; None where there are to be none."""
    if isinstance(metrics, bool):
        return _NAMESPACE if metrics else None
    if not (isinstance(metrics, str) and _ALLOWED.fullmatch(metrics)):
        raise ValueError(
            "metrics is True, False, or a namespace: 1 to 255 letters, digits and ._/#:- that do not begin with AWS/, "
            f"not {shown(metrics)}"
        )
    return metrics


class Metrics:
    """The metrics of a step: a line for each task, written when it has ended."""

    def __init__(self, step: BoundStep[Any], namespace: str) -> None:
        names = {"use_case_id": step.model.tracker.use_case.name, "step": step.name}
        self._dimensions = {name: value.encode("ascii", "backslashreplace").decode() for name, value in names.items()}
        self._namespace = namespace

    def count(self, attempt: Attempt) -> None:
        """Tell what became of a task."""
        started = attempt.ctx is not None
        held = {
            "Started": started,
            "Succeeded": attempt.outcome == "succeeded",
            "Failed": attempt.outcome == "failed",
            "Ignored": attempt.set_aside,
            "TakenOver": attempt.took_over,
            "Refused": not started,
        }
        self._write(held, {"Duration": attempt.duration / timedelta(milliseconds=1)} if started else {})

    def refuse(self) -> None:
        """Tell of what cannot be read."""
        self._write({"Refused": True}, {})

    def _write(self, held: dict[str, bool], durations: dict[str, float]) -> None:
        counts = {name: int(held.get(name, False)) for name in _COUNTS}
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
