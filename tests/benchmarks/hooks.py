"""Client CPU of a run, claim and success, with HTTP stubbed: what hooks and OpenTelemetry add to it."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator

from opentelemetry.metrics import MeterProvider as AnyMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

from pynamodb_tracker.instrumentation import Hook, add_hook
from pynamodb_tracker.opentelemetry import instrument
from tests.benchmarks.apart import Apart
from tests.benchmarks.by_tracker import ByTrackerInRow
from tests.benchmarks.stub import Stub
from tests.benchmarks.tables import table

__all__ = ["report"]

Remove = Callable[[], object]

ROUNDS = 40
RUNS = 20
"""In each round, without and with; in turns, so that what else the machine does is in both."""

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


def report() -> Iterator[str]:
    yield f"Client CPU of a run (claim and success), HTTP answers stubbed; {ROUNDS} pairs of {RUNS} runs each"
    rows = []
    for name in WAYS:
        apart = Apart(Pairs, name)
        without, added, ratio = apart.call("times")
        apart.close()
        rows.append([name, f"{without * 1e6:.0f} µs", f"{added * 1e6:+.0f} µs", f"{ratio:.3f}"])
    yield from table(["", "without hooks", "with it", "ratio"], rows)
    yield "medians of what a pair differs by; spans are recorded and dropped, so what an exporter takes is not in it"


class Pairs:
    """Runs of a task that has a trace, without any hook and with some, in a process of their own."""

    def __init__(self, name: str) -> None:
        self._add = WAYS[name]
        self._way = ByTrackerInRow()
        row = {**self._way.claimed("o-1", {}), "trace": {"S": json.dumps(TRACE)}}
        Stub(self._way.client, row)
        self._round()

    def times(self) -> tuple[float, float, float]:
        """Return the CPU seconds of a run without hooks, what they add to it, and its ratio."""
        pairs = [(self._round(), self._round(self._add)) for _ in range(ROUNDS)]
        return (
            statistics.median(without for without, _ in pairs),
            statistics.median(with_ - without for without, with_ in pairs),
            statistics.median(with_ / without for without, with_ in pairs),
        )

    def _round(self, add: Callable[[], Remove] | None = None) -> float:
        remove = add() if add is not None else None
        try:
            return statistics.median(self._time() for _ in range(RUNS))
        finally:
            if remove is not None:
                remove()

    def _time(self) -> float:
        began = time.process_time()
        self._way.run("o-1")
        return time.process_time() - began


def no_hook() -> Remove:
    """Add nothing: how far two equal halves of a pair differ."""
    return lambda: None


def a_hook() -> Remove:
    return add_hook(Hook())


def without_sdk() -> Remove:
    return instrument()


def _sdk(sampler: Sampler) -> tuple[TracerProvider, AnyMeterProvider]:
    tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    tracers.add_span_processor(SpanProcessor())  # which drops what it is given
    return tracers, MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)


_OFF, _ON = _sdk(ALWAYS_OFF), _sdk(ALWAYS_ON)


def sampled_out() -> Remove:
    return instrument(tracer_provider=_OFF[0], meter_provider=_OFF[1])


def recorded() -> Remove:
    return instrument(tracer_provider=_ON[0], meter_provider=_ON[1])


WAYS: dict[str, Callable[[], Remove]] = {
    "no hook": no_hook,
    "a hook that does nothing": a_hook,
    "instrument() without an SDK": without_sdk,
    "instrument(), sampled out, with metrics": sampled_out,
    "instrument(), recorded, with a link and metrics": recorded,
}
