"""`instrument` adds and removes the hooks and gauges."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Literal

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from pynamodb_tracker.arguments import shown
from pynamodb_tracker.instrumentation import add_hook
from pynamodb_tracker.opentelemetry import names
from pynamodb_tracker.opentelemetry.metrics import DueAges, Metrics
from pynamodb_tracker.opentelemetry.spans import Spans
from pynamodb_tracker.task.task import Task

_changing = threading.Lock()
_removals: list[Callable[[], None]] = []
"""Functions that remove the hooks and gauges from the last call of `instrument`."""


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    relation: Literal["link", "parent"] = "link",
    gauges: Iterable[type[Task]] = (),
) -> Callable[[], None]:
    """Report this process's runs to OpenTelemetry from now on.

    Each run gets metrics and a span, which is current in its block. The span in which a task was created is kept in its
    `trace`, which takes about 75 bytes. A second call replaces the first call's settings.

    Args:
        tracer_provider: Provides the tracer, by default the global provider.
        meter_provider: Provides the meter, by default the global provider.
        relation: With "link", runs link to the span in which their task was created. With "parent", runs belong to that
            span's trace, except for repeating tasks.
        gauges: Use cases for the gauge `pynamodb_tracker.due.age`, such as `[Order]`. It shows how long each state's
            first task has been due. An export costs 1.5 read units per step, so pass this in one process only.

    Returns:
        A function that ends the reporting.

    Raises:
        ValueError: `relation` is neither "link" nor "parent".
        TypeError: `gauges` are not use cases.

    Examples:
        >>> uninstrument = instrument()
        >>> uninstrument()
    """
    given: object = relation
    if given not in ("link", "parent"):
        raise ValueError(f'relation is "link" or "parent", not {shown(given)}')
    about = version("pynamodb-tracker")
    tracer = trace.get_tracer(names.SCOPE, about, tracer_provider, names.SCHEMA_URL)
    meter = metrics.get_meter(names.SCOPE, about, meter_provider, names.SCHEMA_URL)
    ages = DueAges(gauges)
    with _changing:
        _remove_all(_removals)
        hooks = (Spans(tracer, adopt=relation == "parent"), Metrics(meter))
        ages.start(meter)
        added = [ages.stop, *map(add_hook, hooks)]
        _removals[:] = added

    def remove() -> None:
        with _changing:
            _remove_all(added)

    return remove


def _remove_all(removals: Iterable[Callable[[], None]]) -> None:
    for remove in removals:
        remove()
