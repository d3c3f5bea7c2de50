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
from pynamodb_tracker.bound_step import BoundStep

__all__ = ["Metrics", "check_namespace"]

_NAMESPACE = "pynamodb_tracker"
_ALLOWED = re.compile(r"(?!AWS/)(?=.{1,255}\Z)[0-9A-Za-z._/#-][0-9A-Za-z._/#: -]*")
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html; AWS/ is for AWS."""

_REFUSED = {"Started": 0, "Succeeded": 0, "Failed": 0, "Ignored": 0, "TakenOver": 0, "Refused": 1}


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
        if attempt.ctx is None:
            self._write({**_REFUSED, "Ignored": int(attempt.set_aside)})
            return
        counts = {
            "Started": 1,
            "Succeeded": int(attempt.outcome == "succeeded"),
            "Failed": int(attempt.outcome == "failed"),
            "Ignored": int(attempt.set_aside),
            "TakenOver": int(attempt.took_over),
            "Refused": 0,
        }
        self._write(counts, {"Duration": attempt.duration / timedelta(milliseconds=1)})

    def refuse(self) -> None:
        """Tell of what cannot be read."""
        self._write(_REFUSED)

    def _write(self, counts: dict[str, int], durations: dict[str, float] | None = None) -> None:
        durations = durations or {}
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
