"""Orders in memory, and an application whose OpenTelemetry SDK exports to memory."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.instrumentation.botocore import BotocoreInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from pynamodb_tracker.opentelemetry import instrument
from tests.opentelemetry.shop import ShopTask
from tests.support.engines import Engine, opened


class Telemetry:
    """The providers of an application, and what they have exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self._removals: list[Callable[[], None]] = []

    def instrument(self, **options: Any) -> Callable[[], None]:
        remove = instrument(tracer_provider=self.tracers, meter_provider=self.meters, **options)
        self._removals.append(remove)
        return remove

    @property
    def tracer(self) -> Tracer:
        return self.tracers.get_tracer("shop")

    @property
    def spans(self) -> list[ReadableSpan]:
        return [*self._exporter.get_finished_spans()]

    @property
    def runs(self) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.startswith("run ")]

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
            if metric.name == name
        ]

    def close(self) -> None:
        for remove in self._removals:
            remove()
        self.tracers.shutdown()
        self.meters.shutdown()


engine = opened(ShopTask)


@pytest.fixture
def shop(engine: Engine) -> Iterator[None]:
    yield
    engine.empty()


@pytest.fixture
def telemetry(shop: None) -> Iterator[Telemetry]:  # noqa: ARG001 - the tables
    """Give the test an application with OpenTelemetry that has not called `instrument`."""
    telemetry = Telemetry()
    yield telemetry
    telemetry.close()


@pytest.fixture
def request_spans(telemetry: Telemetry) -> Iterator[None]:
    """Let botocore make a span of each request."""
    botocore = BotocoreInstrumentor()
    botocore.instrument(tracer_provider=telemetry.tracers, meter_provider=telemetry.meters)
    yield
    botocore.uninstrument()
