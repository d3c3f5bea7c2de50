"""The trace context that a task keeps of the span in which it was created, in the form of W3C Trace Context.

That form is independent of the propagators of the processes that create and run tasks, which may differ:
https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_TRACEPARENT, _TRACESTATE = "traceparent", "tracestate"

_MAX_TRACESTATE = 256
"""Characters of a tracestate: it and the traceparent leave a third of a task's 512 bytes to entries of users."""

_PROPAGATOR = TraceContextTextMapPropagator()

_EMPTY = Context()


def current_entries(creator: SpanContext | None) -> dict[str, str] | None:
    """Return the entries for the `trace` of a task that is created now; None outside of a span.

    `creator` is what the task in whose block it is created has in its own `trace`.
    """
    entries: dict[str, str] = {}
    _PROPAGATOR.inject(entries)
    if not entries:
        return None
    if len(entries.get(_TRACESTATE, "")) > _MAX_TRACESTATE:
        entries[_TRACESTATE] = _shortened(entries[_TRACESTATE])
    if creator is not None and creator.trace_state:  # which the new task would inherit, and which is of another trace
        entries.setdefault(_TRACESTATE, "")
    return entries


def span_context_in(entries: Mapping[str, str] | None) -> SpanContext | None:
    """Return the span in which a task was created; None if its `trace` does not say, or cannot be read."""
    if not entries or _TRACEPARENT not in entries:
        return None
    span_context = trace.get_current_span(_PROPAGATOR.extract(entries, _EMPTY)).get_span_context()
    return span_context if span_context.is_valid else None


def _shortened(tracestate: str) -> str:
    """Leave out entries from the end, the oldest ones: https://www.w3.org/TR/trace-context/#tracestate-limits."""
    kept: list[str] = []
    left = _MAX_TRACESTATE
    for entry in tracestate.split(","):
        left -= len(entry) + 1
        if left < 0:
            break
        kept.append(entry)
    return ",".join(kept)
