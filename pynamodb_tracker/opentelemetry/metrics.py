"""Metrics about runs and refusals and, on request, how long tasks have been due."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, ClassVar

from opentelemetry.metrics import CallbackOptions, Counter, Meter, Observation

from pynamodb_tracker import clock, exceptions
from pynamodb_tracker.instrumentation import Hook, RunDetails, log, log_fields
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.failure import type_of
from pynamodb_tracker.opentelemetry.spans import about_step, error_of, outcome_of
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.task.task import Task

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
"""In seconds. The SDK's default buckets are for milliseconds."""

_REASONS: dict[type, str] = {
    **exceptions.REASONS,
    exceptions.TaskFormatError: "format",
    exceptions.TaskNotStartableError: "unknown",  # with detailed_error=False
}
"""Labels of refusals. All other errors come from requests, and count as "error"."""


class Metrics(Hook):
    def __init__(self, meter: Meter) -> None:
        self._duration = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of runs, including their first and last request.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

        def counter(name: str, unit: str, description: str) -> Counter:
            return meter.create_counter(f"pynamodb_tracker.{name}", unit, description)

        self._refused = counter("refused", "{claim}", "Claims that were refused, or whose request failed.")
        self._takeovers = counter(
            "takeovers", "{run}", "Runs that took over a task from a worker that had not ended its run."
        )
        self._locks_lost = counter("locks_lost", "{lock}", "Runs that lost their lock.")
        self._skipped = counter(
            "occurrences.skipped", "{occurrence}", "Occurrences of repeating tasks that had no attempts left."
        )

    def on_start(self, run: RunDetails) -> None:
        if run.took_over:
            self._takeovers.add(1, about_step(run.use_case_id, run.step))

    def on_end(self, run: RunDetails) -> None:
        attributes = about_step(run.use_case_id, run.step)
        attributes["pynamodb_tracker.outcome"] = outcome_of(run)
        if (error := error_of(run)) is not None:
            attributes["error.type"] = type_of(error)
        self._duration.record(run.duration.total_seconds(), attributes)
        self._count_skipped(run)

    def on_refuse(self, run: RunDetails) -> None:
        attributes = about_step(run.use_case_id, run.step)
        attributes["pynamodb_tracker.reason"] = _REASONS.get(type(run.error), "error")
        self._refused.add(1, attributes)
        self._count_skipped(run)

    def on_lock_lost(self, run: RunDetails, error: Exception) -> None:  # noqa: ARG002 - the hook's signature
        self._locks_lost.add(1, about_step(run.use_case_id, run.step))

    def _count_skipped(self, run: RunDetails) -> None:
        if run.skipped_occurrence:
            self._skipped.add(1, about_step(run.use_case_id, run.step))


class DueAges:
    """The gauge for how long each state's first task has been due, at 1.5 read units per step and export."""

    _observed: ClassVar[tuple[BoundStep[Any], ...]] = ()
    """The last call's steps. They are on the class, because a meter keeps an instrument's first callback."""

    def __init__(self, models: Iterable[type[Task]]) -> None:
        if isinstance(models, type):
            raise TypeError(f"gauges takes use cases, [{models.__name__}], not {shown(models)}")
        steps: list[BoundStep[Any]] = []
        for model in models:
            each: object = model
            if not (isinstance(each, type) and issubclass(each, Task) and each._bound_steps):
                raise TypeError(f"gauges takes use cases, [Order], not {shown(each)}")
            steps += each._bound_steps.values()
        self._steps = tuple(steps)

    def start(self, meter: Meter) -> None:
        """Observe these steps instead of earlier ones."""
        DueAges._observed = self._steps
        if self._steps:
            meter.create_observable_gauge(
                "pynamodb_tracker.due.age",
                callbacks=[DueAges._observe],
                unit="s",
                description="How long the first startable task has been due, or 0 if there is none.",
            )

    def stop(self) -> None:
        """Stop observing, unless another call has replaced this one."""
        if DueAges._observed is self._steps:
            DueAges._observed = ()

    @classmethod
    def _observe(cls, options: CallbackOptions) -> Iterable[Observation]:  # noqa: ARG003 - OpenTelemetry's signature
        unanswered = set[str]()
        for step in cls._observed:
            table = step.model.Meta.table_name
            if table in unanswered:
                continue  # it would delay the export as much as the first step did
            try:
                first = step.next_due()
            except Exception:
                unanswered.add(table)
                fields = log_fields(step.model.tracker.use_case.name, step.name)
                log.exception("cannot read how long tasks of %r have been due", step, extra=fields)
                continue
            now = clock.now()
            for state in (step.pending, step.failed, step.in_progress):
                age = max(timedelta(0), now - first[state]) if state in first else timedelta(0)
                attributes = about_step(step.model.tracker.use_case.name, step.name)
                attributes["pynamodb_tracker.status"] = str(state.status)
                yield Observation(age.total_seconds(), attributes)
