"""Client CPU of a run, claim and success, with HTTP stubbed: what hooks and OpenTelemetry add to it."""

import json
import statistics
import time
from collections.abc import Callable, Iterator

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

from pynamodb_tracker import instrumentation
from pynamodb_tracker.instrumentation import Hook, add_hook
from pynamodb_tracker.opentelemetry import instrument
from tests.benchmarks.apart import Apart
from tests.benchmarks.by_tracker import ByTrackerInRow
from tests.benchmarks.stub import Stub
from tests.benchmarks.tables import table

WARM_UP = 50
PAIRS = 800
"""Of a run without hooks and one with them, each first in every second pair: what else the machine does is in both."""

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


def report() -> Iterator[str]:
    yield f"Client CPU of a run (claim and success), HTTP answers stubbed; medians of {PAIRS} pairs of runs"
    rows = []
    for name in WAYS:
        apart = Apart(Pairs, name)
        without, added, ratio = apart.call("times")
        apart.close()
        rows.append([name, f"{without * 1e6:.0f} µs", f"{added * 1e6:+.0f} µs", f"{ratio:.3f}"])
    yield from table(["", "without hooks", "with it", "ratio"], rows)
    yield "medians of what the runs of a pair differ by; spans are dropped when they end: an exporter takes more"


class Pairs:
    """Runs of a task that has a trace, without any hook and with some, in a process of their own."""

    def __init__(self, name: str) -> None:
        self._way = ByTrackerInRow()
        row = {**self._way.claimed("o-1", {}), "trace": {"S": json.dumps(TRACE)}}
        Stub(self._way.client, row)
        WAYS[name]()
        self._hooks = instrumentation.hooks

    def times(self) -> tuple[float, float, float]:
        """Return the CPU seconds of a run without hooks, what they add to it, and its ratio."""
        pairs = [self._pair(number % 2 == 0) for number in range(WARM_UP + PAIRS)][WARM_UP:]
        return (
            statistics.median(without for without, _ in pairs),
            statistics.median(with_ - without for without, with_ in pairs),
            statistics.median(with_ / without for without, with_ in pairs),
        )

    def _pair(self, hooks_first: bool) -> tuple[float, float]:  # noqa: FBT001 - which of the two
        if hooks_first:
            with_ = self._time(self._hooks)
            return self._time(()), with_
        return self._time(()), self._time(self._hooks)

    def _time(self, hooks: tuple[Hook, ...]) -> float:
        instrumentation.hooks = hooks
        began = time.process_time()
        self._way.run("o-1")
        return time.process_time() - began


def no_hook() -> None:
    """Add nothing: shows how exact the others are."""


def a_hook() -> None:
    add_hook(Hook())


def without_sdk() -> None:
    instrument()


def sampled_out() -> None:
    with_sdk(ALWAYS_OFF)


def recorded() -> None:
    with_sdk(ALWAYS_ON)


def with_sdk(sampler: Sampler) -> None:
    tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    tracers.add_span_processor(SpanProcessor())  # which drops what it is given
    instrument(tracer_provider=tracers, meter_provider=MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False))


WAYS: dict[str, Callable[[], None]] = {
    "no hook": no_hook,
    "a hook that does nothing": a_hook,
    "instrument() without an SDK": without_sdk,
    "instrument(), sampled out, with metrics": sampled_out,
    "instrument(), recorded, with a link and metrics": recorded,
}
