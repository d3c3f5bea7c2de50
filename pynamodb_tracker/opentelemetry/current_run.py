"""The span of a run as the current span of its block, and the one before it afterwards."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext

_RUN = context.create_key("pynamodb_tracker-run")


class CurrentRun(AbstractContextManager[None]):
    """Makes the span of a run the current one, in the context of the block; `Spans` ends it.

    Runs of one thread need not end in the reverse order in which they began. So the span stays current only until its
    run is left: if another run is the current one then, that leaves both contexts when its turn comes.
    """

    __slots__ = ("_before", "_is_left", "_span", "origin")

    def __init__(self, span: Span, origin: SpanContext | None) -> None:
        self._span = span
        self.origin = origin
        """The span in which the task was created, if that is known."""
        self._before = Context()
        self._is_left = False

    def __enter__(self) -> None:
        """Make the span current."""
        self._before = context.get_current()
        context.attach(context.set_value(_RUN, self, trace.set_span_in_context(self._span, self._before)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore the context from before, unless a span is current that began later and has not ended."""
        self._is_left = True
        if trace.get_current_span() is not self._span:
            return
        # Not by the token of `attach`: that could be the context of a run that was left meanwhile, or of another task.
        before = self._before
        while (outer := run_in(before)) and outer._is_left and trace.get_current_span(before) is outer._span:  # noqa: SLF001 - of the same class
            before = outer._before  # noqa: SLF001 - as above
        context.attach(before)


def run_in(of: Context | None = None) -> CurrentRun | None:
    """Return the innermost run of a context, by default the current one."""
    found = context.get_value(_RUN, of)
    return found if isinstance(found, CurrentRun) else None
