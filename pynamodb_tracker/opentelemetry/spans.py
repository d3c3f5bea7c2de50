"""A span per run, which is current in the run's block, and related to the span in which the task was created.

A task keeps that span in its `trace` as W3C Trace Context, whichever propagators the processes use:
https://www.w3.org/TR/trace-context/
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from weakref import WeakKeyDictionary

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pynamodb_tracker.instrumentation import Hook, RunDetails
from pynamodb_tracker.model.failure import cut, message_of, redact_text, type_of

_MAX_DESCRIPTION = 200

_TRACEPARENT, _TRACESTATE = "traceparent", "tracestate"

_MAX_TRACESTATE = 256  # in characters, which leaves a third of the 512 bytes in `trace` to users

_PROPAGATOR = TraceContextTextMapPropagator()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RUN = context.create_key("pynamodb_tracker-run")


class Spans(Hook):
    """Starts a span after a claim, and ends it after the outcome was recorded."""

    def __init__(self, tracer: Tracer, *, adopt: bool) -> None:
        """With `adopt`, the creator's span becomes the parent instead of a link."""
        self._tracer = tracer
        self._adopt = adopt
        self._open: WeakKeyDictionary[RunDetails, Span] = WeakKeyDictionary()
        """Open runs' spans. The keys are weak, because a run that is dropped inside its block never ends."""

    def on_create(self, use_case_id: str, task_id: str) -> Mapping[str, str] | None:  # noqa: ARG002 - the hook's signature
        around = _find_run()
        return _current_entries(around.origin if around is not None else None)

    def on_start(self, run: RunDetails) -> AbstractContextManager[object]:
        origin = _parse_span_context(run.task.trace)
        parent, linked = self._find_relatives(run, origin)
        span = self._tracer.start_span(
            f"run {run.use_case_id}.{run.step}",
            context=parent,
            kind=SpanKind.CONSUMER,
            links=[Link(linked)] if linked else (),
            start_time=_nanoseconds(run.start_time),
            attributes={
                **about_step(run.use_case_id, run.step),
                "messaging.operation.type": "process",
                "messaging.message.id": run.task_id,
                "pynamodb_tracker.attempt": run.attempt or 0,
                "pynamodb_tracker.fence": run.fence or 0,
                "pynamodb_tracker.took_over": run.took_over,
            },
        )
        self._open[run] = span
        return _CurrentRun(span, origin)

    def on_end(self, run: RunDetails) -> None:
        """End the span, even if the block still hangs while a worker releases the task."""
        span = self._open.pop(run, None)
        if span is None:
            return
        if span.is_recording():
            span.set_attribute("pynamodb_tracker.outcome", outcome_of(run))
            if (error := error_of(run)) is not None:
                span.set_attribute("error.type", type_of(error))
                # record_exception would reveal secrets that `redact` removes.
                said = redact_text(message_of(error), run.task.redact)
                span.set_status(StatusCode.ERROR, cut(said, _MAX_DESCRIPTION))
        span.end(_nanoseconds(run.start_time + run.duration))

    def _find_relatives(self, run: RunDetails, origin: SpanContext | None) -> tuple[Context | None, SpanContext | None]:
        if origin is None:
            return None, None
        # Otherwise a repeating task's runs would all belong to one trace.
        if not self._adopt or run.task.repeat is not None:
            return None, origin
        around = trace.get_current_span().get_span_context()
        if around.trace_id == origin.trace_id:
            return None, origin  # the current span is closer, in the same trace
        return trace.set_span_in_context(NonRecordingSpan(origin)), around if around.is_valid else None


def about_step(use_case_id: str, step: str) -> dict[str, str]:
    """Return the attributes of all spans and metrics. A step is a destination, and a run "processes" a message.

    The names follow the conventions for messaging, which may still change:
    https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
    """
    return {
        "messaging.system": "pynamodb_tracker",
        "messaging.operation.name": "run",
        "messaging.destination.name": f"{use_case_id}.{step}",
    }


def outcome_of(run: RunDetails) -> str:
    """Return a run's outcome. A postponement is not a failure."""
    return "postponed" if run.postponed else run.outcome or "unknown"


def error_of(run: RunDetails) -> BaseException | None:
    """Return a failed run's error, or None after a success, a release or a postponement."""
    return None if run.postponed or run.outcome in ("succeeded", "released") else run.error


def _nanoseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000


class _CurrentRun(AbstractContextManager[None]):
    """Makes a run's span current in its block's context.

    Runs in one thread may end in any order. If another run's span is current when a run ends, that run leaves both
    contexts later.
    """

    __slots__ = ("_before", "_is_left", "_span", "origin")

    def __init__(self, span: Span, origin: SpanContext | None) -> None:
        self._span = span
        self.origin = origin
        self._before = Context()
        self._is_left = False

    def __enter__(self) -> None:
        self._before = context.get_current()
        context.attach(context.set_value(_RUN, self, trace.set_span_in_context(self._span, self._before)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore the previous context, unless a later run's span is current."""
        self._is_left = True
        if trace.get_current_span() is not self._span:
            return
        # The token from `attach` may belong to a run that was left since, or to another asyncio task.
        before = self._before
        while (outer := _find_run(before)) and outer._is_left and trace.get_current_span(before) is outer._span:  # noqa: SLF001 - the same class
            before = outer._before  # noqa: SLF001 - as above
        context.attach(before)


def _find_run(of: Context | None = None) -> _CurrentRun | None:
    found = context.get_value(_RUN, of)
    return found if isinstance(found, _CurrentRun) else None


def _current_entries(creator: SpanContext | None) -> dict[str, str] | None:
    """Return a new task's `trace`, or None outside any span. `creator` is the creating task's own creator."""
    entries: dict[str, str] = {}
    _PROPAGATOR.inject(entries)
    if not entries:
        return None
    if len(entries.get(_TRACESTATE, "")) > _MAX_TRACESTATE:
        entries[_TRACESTATE] = _shorten(entries[_TRACESTATE])
    if creator is not None and creator.trace_state:  # or the new task would inherit another trace's state
        entries.setdefault(_TRACESTATE, "")
    return entries


def _parse_span_context(entries: Mapping[str, str] | None) -> SpanContext | None:
    if not entries or _TRACEPARENT not in entries:
        return None
    span_context = trace.get_current_span(_PROPAGATOR.extract(entries, Context())).get_span_context()
    return span_context if span_context.is_valid else None


def _shorten(tracestate: str) -> str:
    """Drop the oldest entries from the end: https://www.w3.org/TR/trace-context/#tracestate-limits."""
    kept: list[str] = []
    left = _MAX_TRACESTATE
    for entry in tracestate.split(","):
        left -= len(entry) + 1
        if left < 0:
            break
        kept.append(entry)
    return ",".join(kept)
