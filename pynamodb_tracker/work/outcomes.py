"""The outcomes of attempts: the report of a batch, and the numbers of a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.dynamodb.error_codes import is_invalid, is_temporary
from pynamodb_tracker.instrumentation import RunDetails
from pynamodb_tracker.work.step_work import StepWork

log = logging.getLogger("pynamodb_tracker")

Outcome = Literal["succeeded", "failed", "ignored", "refused", "released"]
"""refused: the task was not started, or its end could not be recorded. released: the attempt does not count."""


class Ended(Protocol):
    """The part of an attempt that says what became of its task."""

    task_id: str
    details: RunDetails

    @property
    def outcome(self) -> Outcome:
        """The recorded outcome."""

    @property
    def error(self) -> BaseException | None:
        """The error of the start, of the function, or of recording its end."""

    @property
    def was_claimed(self) -> bool:
        """Whether the task was claimed."""

    @property
    def task(self) -> Any:
        """The last row that was read, or None."""

    @property
    def unexpected_error(self) -> BaseException | None:
        """The error that kept the task from being started, unless it is a refusal or a failed request."""


@dataclass(slots=True)
class Report:
    """The outcome of a batch. Each task is in one of the lists."""

    succeeded: list[str] = field(default_factory=list)
    """These succeeded, or were created, deleted or reopened."""
    failed: list[str] = field(default_factory=list)
    """These failed, and will be tried again."""
    ignored: list[str] = field(default_factory=list)
    """These became ignored: no attempt is left, the function gave up, or `ignore_many` has ignored them."""
    refused: dict[str, Exception] = field(default_factory=dict)
    """These were not started, were not changed, or lost their lock. The errors say why."""
    released: list[str] = field(default_factory=list)
    """These attempts were released and do not count: the batch was stopped, or responses came too late."""
    paused: bool = False
    """Whether the step is paused, so that no more tasks were started."""
    postponed: int = 0
    """How many failed tasks were postponed, so that their attempts do not count."""
    due_now: int = 0
    """How many reopened tasks are due now, not at the time in `due_times`, because they repeat, have the turn of their
    group, or were pending already."""

    def __str__(self) -> str:
        postponed = f" ({self.postponed} postponed)" if self.postponed else ""
        paused = ", and then the step was paused" if self.paused else ""
        return (
            f"{len(self.succeeded)} succeeded, {len(self.failed)} failed{postponed}, {len(self.ignored)} ignored, "
            f"{len(self.refused)} refused{paused}"
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """How many tasks of a step had each outcome. Only numbers, because a worker may run for months."""

    succeeded: int = 0
    """The step is done for these."""
    failed: int = 0
    """These attempts failed, and the tasks will be tried again."""
    ignored: int = 0
    """These became ignored: no attempt is left, or the function gave up."""
    refused: int = 0
    """These were not started, mostly because another worker had them first, or their end could not be recorded."""
    released: int = 0
    """These attempts were released and do not count: the worker stopped, or responses came too late."""
    postponed: int = 0
    """How many of the failed attempts were postponed, so that they do not count."""
    paused: bool = False
    """Whether the step is paused, so that no more of its tasks were started."""

    def __add__(self, other: Tally) -> Tally:
        numbers: dict[str, Any] = {name: mine + getattr(other, name) for name, mine in asdict(self).items()}
        return Tally(**{**numbers, "paused": self.paused or other.paused})

    def __str__(self) -> str:
        return (
            f"{self.succeeded} succeeded, {self.failed} failed, {self.ignored} ignored, {self.refused} refused, "
            f"{self.released} released"
            + (f", {self.postponed} postponed" if self.postponed else "")
            + (", paused" if self.paused else "")
        )


def tally_of(attempt: Ended) -> Tally:
    """Return the numbers of one attempt."""
    numbers: dict[str, Any] = {attempt.outcome: 1}
    return Tally(**numbers, postponed=int(attempt.details.postponed))


def add_to(report: Report, attempt: Ended) -> None:
    """Add a task to the list of its outcome."""
    report.postponed += attempt.details.postponed
    if attempt.outcome != "refused":
        getattr(report, attempt.outcome).append(attempt.task_id)
    elif isinstance(attempt.error, Exception):
        report.refused[attempt.task_id] = attempt.error


_FAILURES_IN_A_ROW = 4
"""After so many claims in a row that failed for good, no others will do better: a policy or a table is missing."""


class BatchReport:
    """The report of a batch as it grows. It ends the batch if all claims fail for good, or at an unexpected error."""

    def __init__(self, work: StepWork, progress: Callable[[Report], object] | None, end: Callable[[], object]) -> None:
        """`end` is called after four permanent failures in a row."""
        self.report = Report()
        self._work = work
        self._progress = progress
        self._end = end
        self._failures = 0
        self._has_ended = False

    def add(self, attempt: Ended) -> None:
        """Add an attempt to the report. Raise an error that kept it from starting, unless a request has failed."""
        if (error := attempt.unexpected_error) is not None:
            raise error
        add_to(self.report, attempt)
        self._failures = self._failures + 1 if _has_failed_for_good(attempt) else 0
        if self._failures == _FAILURES_IN_A_ROW:
            self._has_ended = True
            self._end()
        if self._progress is not None:
            self._progress(self.report)

    def close(self, *, paused: bool) -> Report:
        """Return the report. Log once how many tasks were refused because requests failed, and why."""
        self.report.paused = paused
        refused = self.report.refused.items()
        failed = [(task_id, error) for task_id, error in refused if isinstance(error, PynamoDBException)]
        if failed:
            codes, (task_id, error) = self._work.codes, failed[0]
            log.warning(
                "%d tasks of %s are refused at %s, because requests failed; the first one is %r: %s: %s%s",
                len(failed),
                codes.use_case_id,
                codes.step,
                task_id,
                type(error).__name__,
                error,
                "; no more tasks were tried, because the last requests would fail again" if self._has_ended else "",
                extra=self._work.log_fields,
            )
        return self.report


def _has_failed_for_good(attempt: Ended) -> bool:
    """Return whether the claim failed in a way that a retry does not change, and not because of the task's row."""
    error = None if attempt.was_claimed else attempt.error
    return isinstance(error, PynamoDBException) and not (is_temporary(error) or is_invalid(error))
