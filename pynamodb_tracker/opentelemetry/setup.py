"""`instrument` adds and removes the hooks and gauges."""

import threading
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Literal

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from pynamodb_tracker.instrumentation import add_hook
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.opentelemetry.metrics import DueAges, Metrics
from pynamodb_tracker.opentelemetry.spans import Spans
from pynamodb_tracker.task.task import Task

_SCOPE, _SCHEMA_URL = "pynamodb_tracker", "https://opentelemetry.io/schemas/1.43.0"

_changing = threading.Lock()
_removals: list[Callable[[], None]] = []  # remove the last call's hooks and gauges


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    relation: Literal["link", "parent"] = "link",
    gauges: Iterable[type[Task]] = (),
) -> Callable[[], None]:
    """Report this process's runs to OpenTelemetry from now on, with metrics and a span per run.

    The span is current in the run's block. A new task keeps its creator's span in `trace`, in about 75 bytes. A second
    call replaces the first one.

    Args:
        tracer_provider: Provides the tracer, by default the global provider.
        meter_provider: Provides the meter, by default the global provider.
        relation: With "link", runs link to the span in which their task was created. With "parent", they belong to its
            trace, except for repeating tasks.
        gauges: Use cases for the gauge `pynamodb_tracker.due.age`, such as `[Order]`. It shows how long each state's
            first task has been due. An export costs 1.5 read units per step, so use it in one process only.

    Returns:
        A function that ends the reporting.

    Raises:
        ValueError: `relation` is neither "link" nor "parent".
        TypeError: `gauges` are not use cases.

    Examples:
        >>> uninstrument = instrument()
        >>> uninstrument()
    """
    if relation not in ("link", "parent"):
        raise ValueError(f'relation is "link" or "parent", not {shown(relation)}')
    about = version("pynamodb-tracker")
    tracer = trace.get_tracer(_SCOPE, about, tracer_provider, _SCHEMA_URL)
    meter = metrics.get_meter(_SCOPE, about, meter_provider, _SCHEMA_URL)
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
