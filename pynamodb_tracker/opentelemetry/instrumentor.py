"""The entry point for `opentelemetry-instrument`, which needs the package opentelemetry-instrumentation."""

from collections.abc import Callable, Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from pynamodb_tracker.opentelemetry.setup import instrument


class TrackerInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # it is untyped
    """Calls `instrument`, unless `OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=pynamodb_tracker` is set."""

    _remove: Callable[[], None] | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing, because the instrumented package is this one."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        known = ("tracer_provider", "meter_provider", "relation", "gauges")
        self._remove = instrument(**{name: kwargs[name] for name in known if name in kwargs})

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - the base class passes them
        if self._remove is not None:
            self._remove()
            self._remove = None
