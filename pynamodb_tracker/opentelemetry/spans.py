"""A span for each run, related to the span in which its task was created."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, Tracer

from pynamodb_tracker.instrumentation import Hook, RunDetails
from pynamodb_tracker.model.failure import cut, message_of, scrubbed, type_of
from pynamodb_tracker.model.row_state import readable_value
from pynamodb_tracker.opentelemetry import names
from pynamodb_tracker.opentelemetry.current_run import CurrentRun, run_in
from pynamodb_tracker.opentelemetry.trace_context import current_entries, span_context_in

_MAX_DESCRIPTION = 200
"""Bytes of an error's message."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Spans(Hook):
    """Starts a span when a task was claimed, and ends it once the end of the run is on record.

    A refused claim has none: workers that compete for a task refuse each other all the time.
    """

    def __init__(self, tracer: Tracer, *, adopt: bool) -> None:
        """With `adopt`, the span in which a task was created is the parent; otherwise it is linked."""
        self._tracer = tracer
        self._adopt = adopt
        self._open: WeakKeyDictionary[RunDetails, Span] = WeakKeyDictionary()
        """The spans of runs that have not ended; weak, because a run that is dropped inside its block never ends."""

    def on_create(self, use_case_id: str, task_id: str) -> Mapping[str, str] | None:  # noqa: ARG002 - of the hook
        """Return the current span for the `trace` of the task."""
        around = run_in()
        return current_entries(around.origin if around is not None else None)

    def on_start(self, run: RunDetails) -> AbstractContextManager[object]:
        """Start the span as of the time of the claim; it is the current one in the block."""
        origin = span_context_in(readable_value(run.task, "trace"))
        parent, linked = self._relatives(run, origin)
        destination = names.destination(run.use_case_id, run.step)
        span = self._tracer.start_span(
            f"{names.RUN} {destination}",
            context=parent,
            kind=SpanKind.CONSUMER,
            links=[Link(linked)] if linked else (),
            start_time=_nanoseconds(run.start_time),
            attributes={
                names.SYSTEM: names.TRACKER,
                names.OPERATION_TYPE: names.PROCESS,
                names.OPERATION_NAME: names.RUN,
                names.DESTINATION: destination,
                names.MESSAGE_ID: run.task_id,
                names.ATTEMPT: run.attempt or 0,
                names.FENCE: run.fence or 0,
                names.TOOK_OVER: run.took_over,
            },
        )
        self._open[run] = span
        return CurrentRun(span, origin)

    def on_end(self, run: RunDetails) -> None:
        """End the span, here and not as it is left: a worker may release a task whose block hangs."""
        span = self._open.pop(run, None)
        if span is None:
            return
        if span.is_recording():
            span.set_attribute(names.OUTCOME, outcome_of(run))
            if error := error_of(run):
                span.set_attribute(names.ERROR_TYPE, type_of(error))
                # No record_exception: messages and tracebacks contain secrets, which `redact` is there to remove.
                span.set_status(StatusCode.ERROR, cut(scrubbed(message_of(error), run.task.redact), _MAX_DESCRIPTION))
        span.end(_nanoseconds(run.start_time + run.duration))

    def _relatives(self, run: RunDetails, origin: SpanContext | None) -> tuple[Context | None, SpanContext | None]:
        """Return the context with the parent, None for the current one, and the span to link."""
        if origin is None:
            return None, None
        # The runs of a task that repeats would all become part of one trace, for years.
        if not self._adopt or readable_value(run.task, "repeat") is not None:
            return None, origin
        around = trace.get_current_span().get_span_context()
        if around.trace_id == origin.trace_id:
            return None, origin  # of the same trace, and nearer
        return trace.set_span_in_context(NonRecordingSpan(origin)), around if around.is_valid else None


def outcome_of(run: RunDetails) -> str:
    """Return how a run ended; a postponement is told from the failures that use up an attempt."""
    return names.POSTPONED if run.postponed else run.outcome or names.UNKNOWN


def error_of(run: RunDetails) -> BaseException | None:
    """Return the error of a run that ended with one: neither a release, as by Ctrl-C, nor a postponement is one."""
    return None if run.postponed or run.outcome in ("succeeded", "released") else run.error


def _nanoseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000
