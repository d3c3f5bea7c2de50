"""`instrument`: adds and removes the hooks and gauges."""

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
"""Functions that remove the hooks and gauges of the last call of `instrument`."""


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    relation: Literal["link", "parent"] = "link",
    gauges: Iterable[type[Task]] = (),
) -> Callable[[], None]:
    """Report the runs of this process to OpenTelemetry from now on.

    Each run gets metrics and a span, which is the current one in its block. A task keeps the span in which it was
    created in its `trace`, about 75 bytes of its row. A second call replaces the settings of the first one.

    Args:
        tracer_provider: The provider of spans. By default, the global one. None is set.
        meter_provider: The provider of metrics. By default, the global one. None is set.
        relation: "link": runs have a link to the span in which their task was created. "parent": runs belong to the
            trace of that span, except for tasks that repeat.
        gauges: Use cases, `[Order]`, for `pynamodb_tracker.due.age`: how long the first task of each state has been
            due. Each export reads 1.5 read units per step, so give them to one process only.

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
