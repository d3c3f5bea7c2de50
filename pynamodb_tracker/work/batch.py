"""Runs one function on a step's due tasks, each once, and reports the outcomes."""

from collections.abc import Callable
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.dynamodb.error_codes import is_invalid, is_temporary
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.model import arguments
from pynamodb_tracker.work.attempt import Attempt
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.outcomes import Report
from pynamodb_tracker.work.source import FAILURES_IN_A_ROW, OnceThrough, StepWork


def add_to(report: Report, attempt: Attempt) -> None:
    report.postponed += attempt.details.postponed
    if (outcome := attempt.outcome) != "refused":
        getattr(report, outcome).append(attempt.task_id)
    elif isinstance(attempt.error, Exception):
        report.refused[attempt.task_id] = attempt.error


def concerns_all(error: BaseException | None) -> bool:
    """Return whether this error will refuse all tasks, such as expired credentials.

    Neither a retry helps, nor another row: an invalid request is due to its task's row.
    """
    return isinstance(error, PynamoDBException) and not (is_temporary(error) or is_invalid(error))


class Batch:
    """One function on the due tasks, and its report. It ends early if claims keep failing permanently."""

    def __init__(
        self,
        of: Any,
        start: Callable[[str], Any],
        function: Callable[[Any], Any],
        *,
        threads: int,
        limit: int | None,
        rate: float | None,
        progress: Callable[[Report], object] | None,
        **which: Any,
    ) -> None:
        """Check the arguments of `run_all`. `of` is the step's definition, and `which` chooses among its due tasks."""
        arguments.check_limit("limit", limit)
        given: object = progress
        if not (given is None or callable(given)) or arguments.is_async(given):
            raise TypeError(f"progress must be a function of the report that is not async, not {progress!r}")
        rate = arguments.check_rate("rate", rate)
        self.report = Report()
        work = StepWork(of, start, function)
        self._source = OnceThrough(work, of.candidates(threads=threads, limit=limit, **which))
        self.dispatcher = Dispatcher([self._source], limit=limit, rate=rate)
        self._progress = progress
        self._failures = 0
        self._has_ended = False

    def add(self, attempt: Attempt) -> None:
        if (error := attempt.unexpected_error) is not None:
            raise error
        add_to(self.report, attempt)
        self._failures = self._failures + 1 if concerns_all(attempt.claim_error) else 0
        if self._failures == FAILURES_IN_A_ROW:
            self._has_ended = True
            self.dispatcher.close()
        if self._progress is not None:
            self._progress(self.report)

    def close(self) -> None:
        """Complete the report. Log once how many tasks were refused because requests failed."""
        self.report.paused = self._source.pause is not None
        refused = self.report.refused.items()
        failed = [(task_id, error) for task_id, error in refused if isinstance(error, PynamoDBException)]
        if failed:
            codes, (task_id, error) = self._source.work.codes, failed[0]
            text = "%d tasks of %s are refused at %s, because requests failed. The first one is %r: %s: %s%s"
            ended = ". No more tasks were tried, because their requests would fail, too" if self._has_ended else ""
            about = len(failed), codes.use_case_id, codes.step, task_id, type(error).__name__, error, ended
            log.warning(text, *about, extra=self._source.work.log_fields)
