"""Metrics in CloudWatch's embedded metric format: lines of JSON on stdout, without a request.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import re
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.exceptions import TaskAlreadySucceededError, TaskError, TaskIgnoredError
from pynamodb_tracker.instrumentation import Hook, RunDetails
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import shown

_NAMESPACE = re.compile(r"(?!AWS/)(?=.{1,255}\Z)[0-9A-Za-z._/#-][0-9A-Za-z._/#: -]*")
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html reserves AWS/."""
_MILLISECOND = timedelta(milliseconds=1)


class EmfHook(Hook):
    """Writes metrics about all runs in this process to stdout, where CloudWatch reads them from the log.

    `pynamodb-tracker worker` sends its functions' stdout to stderr, which CloudWatch reads, too. Use the hook in AWS
    Lambda and in containers that log to CloudWatch. A handler's own `metrics` are the same for its events, so use only
    one of the two.

    Args:
        namespace: The metrics' namespace, 1 to 255 characters.

    Raises:
        ValueError: CloudWatch does not take this namespace.

    Examples:
        >>> remove = add_hook(EmfHook("orders"))
        >>> remove()
    """

    def __init__(self, namespace: str = "pynamodb_tracker") -> None:
        self._namespace = _check_namespace(namespace)

    def on_start(self, run: RunDetails) -> None:
        """Count an attempt before its block, which may kill the process."""
        write(self._namespace, run.use_case_id, run.step, {"Started": 1, "TakenOver": int(run.took_over)})

    def on_end(self, run: RunDetails) -> None:
        """Count an attempt that has ended."""
        count_end(self._namespace, run)

    on_refuse = on_end


def namespace_of(metrics: object) -> str | None:
    return None if metrics is False else _check_namespace("pynamodb_tracker" if metrics is True else metrics)


def _check_namespace(namespace: object) -> str:
    if isinstance(namespace, str) and _NAMESPACE.fullmatch(namespace):
        return namespace
    raise ValueError(
        "the namespace of metrics must be 1 to 255 letters, digits and ._/#:- and not begin with AWS/, "
        f"not {shown(namespace)}"
    )


def count_end(namespace: str, run: RunDetails, *, is_unsent: bool = False) -> None:
    """Count an attempt that has ended or was refused. `is_unsent`: the message to its next queue failed."""
    was_claimed, is_repeated = run.attempt is not None, isinstance(run.error, TaskAlreadySucceededError)
    counts = {
        "Succeeded": run.outcome == "succeeded",
        "Failed": run.outcome == "failed",
        "Ignored": became_ignored(run),
        "Refused": not (was_claimed or is_repeated),
        "Broken": is_unsent or is_broken(run),
    }
    rare = {  # a metric costs money where it is written
        "SkippedOccurrences": run.skipped_occurrence,
        "Postponed": run.postponed,
        "Repeated": is_repeated and not was_claimed,
    }
    counts |= {name: True for name, is_so in rare.items() if is_so}
    duration = run.duration / _MILLISECOND if was_claimed else None
    write(namespace, run.use_case_id, run.step, {name: int(is_so) for name, is_so in counts.items()}, duration)


def write(
    namespace: str, use_case_id: object, step: object, counts: Mapping[str, int], duration: float | None = None
) -> None:
    """Write one line, perhaps with a duration in milliseconds."""
    about = {"use_case_id": use_case_id, "step": step}
    dimensions = {name: str(text).encode("ascii", "backslashreplace").decode() for name, text in about.items()}
    metrics = [{"Name": name, "Unit": "Count"} for name in counts]
    values: dict[str, float] = dict(counts)
    if duration is not None:
        metrics.append({"Name": "Duration", "Unit": "Milliseconds"})
        values["Duration"] = duration
    directive = {"Namespace": namespace, "Dimensions": [[*dimensions]], "Metrics": metrics}
    stamp = {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": [directive]}
    sys.stdout.write(strict_json.dumps({"_aws": stamp, **dimensions, **values}) + "\n")
    sys.stdout.flush()


def became_ignored(run: RunDetails) -> bool:
    if run.attempt is not None:
        return run.outcome == "ignored"
    task: Any = run.error.task if isinstance(run.error, TaskIgnoredError) else None
    return task is not None and bool(task.update_time >= run.start_time)


def is_broken(run: RunDetails) -> bool:
    """Return whether a run failed because the table was throttled, unreachable, missing or forbidden."""
    if run.attempt is None:
        return run.error is not None and not isinstance(run.error, TaskError)
    return run.outcome not in ("succeeded", "failed", "ignored") and isinstance(run.error, PynamoDBException)
