"""Metrics in CloudWatch's embedded metric format: a line of JSON on stdout, which costs no request.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from datetime import timedelta
from typing import Any

from pynamodb_tracker.arguments import shown
from pynamodb_tracker.aws_lambda.attempt import Attempt
from pynamodb_tracker.bound_step import BoundStep

__all__ = ["Metrics", "check_namespace"]

_NAMESPACE = "pynamodb_tracker"
_COUNTS = ("Started", "Succeeded", "Failed", "Ignored", "TakenOver", "Refused")
_MOST_VALUES = 100
"""Of one metric on one line."""
_LONGEST_NAMESPACE = 256


def check_namespace(metrics: object) -> str | None:
    """Return the namespace of the metrics; None where there are to be none."""
    if isinstance(metrics, bool):
        return _NAMESPACE if metrics else None
    if not (isinstance(metrics, str) and 1 <= len(metrics) <= _LONGEST_NAMESPACE):
        raise ValueError(f"metrics is True, False, or a namespace of 1 to 256 characters, not {shown(metrics)}")
    return metrics


class Metrics:
    """What one invocation has counted of one step."""

    def __init__(self, step: BoundStep[Any], namespace: str) -> None:
        self._step = step
        self._namespace = namespace
        self._counts: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
        self._durations: list[float] = []

    def count(self, attempt: Attempt) -> None:
        """Count what became of a task."""
        if attempt.ctx is not None:
            self._counts["Started"] += 1
            self._durations.append(attempt.duration / timedelta(milliseconds=1))
        elif attempt.reason is not None:
            self._counts["Refused"] += 1
        self._counts["TakenOver"] += attempt.took_over
        self._counts["Ignored"] += attempt.set_aside
        self._counts["Succeeded"] += attempt.outcome == "succeeded"
        self._counts["Failed"] += attempt.outcome == "failed"

    def write(self) -> None:
        """Write one line, and a further one for each 100 durations more."""
        for begin in range(0, max(len(self._durations), 1), _MOST_VALUES):
            self._write(self._counts if begin == 0 else {}, self._durations[begin : begin + _MOST_VALUES])
        sys.stdout.flush()

    def _write(self, counts: dict[str, int], durations: list[float]) -> None:
        metrics = [{"Name": name, "Unit": "Count"} for name in counts]
        values: dict[str, Any] = dict(counts)
        if durations:
            metrics.append({"Name": "Duration", "Unit": "Milliseconds"})
            values["Duration"] = durations
        dimensions = {"use_case_id": self._step.model.tracker.use_case.name, "step": self._step.name}
        directive = {"Namespace": self._namespace, "Dimensions": [list(dimensions)], "Metrics": metrics}
        about = {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": [directive]}
        sys.stdout.write(json.dumps({"_aws": about, **dimensions, **values}) + "\n")
