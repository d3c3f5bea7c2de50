import importlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.semconv.schemas import Schemas

from pynamodb_tracker import instrumentation
from pynamodb_tracker.opentelemetry import instrument
from pynamodb_tracker.opentelemetry.instrumentor import TrackerInstrumentor
from tests.opentelemetry.conftest import Telemetry
from tests.opentelemetry.shop import Order, Parcel, ShopTask


def run(task_id: str) -> None:
    Order.create(task_id)
    with Order.ship.start(task_id):
        pass


def test_without_an_sdk_nothing_happens(telemetry: Telemetry) -> None:
    given = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": "vendor=x"}
    remove = instrument()
    Order.create("o-1")
    Order.create("o-2", trace=given)
    with Order.ship.start("o-2") as ctx:
        ctx.create(Parcel, "o-2/parcel")
    remove()

    assert telemetry.spans == []
    assert Order.get_task("o-1").trace is None
    assert (Parcel.get_task("o-2/parcel").trace or {}).items() >= given.items()


def test_a_second_call_replaces_the_first_one(telemetry: Telemetry, caplog: pytest.LogCaptureFixture) -> None:
    remove_first = telemetry.instrument(gauges=[Order])
    telemetry.instrument()
    assert telemetry.points("pynamodb_tracker.due.age") == []

    remove_last = telemetry.instrument(gauges=[Parcel])
    run("o-1")
    assert len(telemetry.runs) == 1
    assert [point.count for point in telemetry.points("messaging.process.duration")] == [1]

    remove_first()
    assert len(telemetry.points("pynamodb_tracker.due.age")) == 3
    remove_last()
    assert instrumentation.hooks == ()
    assert caplog.records == []


def test_what_is_removed_reports_nothing_more_and_can_be_added_again(telemetry: Telemetry) -> None:
    remove = telemetry.instrument(gauges=[Order])
    remove()
    remove()
    run("o-1")

    assert instrumentation.hooks == ()
    assert telemetry.runs == []
    assert telemetry.points("messaging.process.duration") == []
    assert telemetry.points("pynamodb_tracker.due.age") == []

    telemetry.instrument(gauges=[Order])
    assert len(telemetry.points("pynamodb_tracker.due.age")) == 6


def test_a_run_that_has_begun_is_reported_although_the_hooks_were_removed_meanwhile(telemetry: Telemetry) -> None:
    remove = telemetry.instrument()
    Order.create("o-1")
    with Order.ship.start("o-1"):
        remove()
    assert len(telemetry.runs) == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"relation": "child"}, ValueError, 'relation is "link" or "parent", not \'child\''),
        ({"gauges": [ShopTask]}, TypeError, r"gauges takes use cases, \[Order\], not <class"),
        ({"gauges": Order}, TypeError, r"gauges takes use cases, \[Order\], not <class"),
        ({"gauges": [Order.ship]}, TypeError, r"gauges takes use cases, \[Order\], not "),
    ],
    ids=["relation", "a table", "no list", "a step"],
)
def test_a_wrong_argument_is_an_error_and_changes_nothing(
    telemetry: Telemetry, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        telemetry.instrument(**options)
    assert instrumentation.hooks == ()


def test_the_names_are_those_of_the_semantic_conventions(telemetry: Telemetry) -> None:
    telemetry.instrument()
    Order.create("o-1")
    with pytest.raises(KeyError), Order.ship.start("o-1"):
        raise KeyError
    [span] = telemetry.runs
    conventional = {
        messaging_attributes.MESSAGING_SYSTEM: "pynamodb_tracker",
        messaging_attributes.MESSAGING_OPERATION_TYPE: messaging_attributes.MessagingOperationTypeValues.PROCESS.value,
        messaging_attributes.MESSAGING_OPERATION_NAME: "run",
        messaging_attributes.MESSAGING_DESTINATION_NAME: "order.ship",
        messaging_attributes.MESSAGING_MESSAGE_ID: "o-1",
        error_attributes.ERROR_TYPE: "KeyError",
    }
    own = {name: value for name, value in (span.attributes or {}).items() if not name.startswith("pynamodb_tracker.")}
    assert own == conventional
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.schema_url == Schemas.V1_43_0.value
    assert len(telemetry.points(messaging_metrics.MESSAGING_PROCESS_DURATION)) == 1


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("pynamodb_tracker.opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match=r"need opentelemetry: pip install 'PATH-OF-THE-CLONE\[opentelemetry\]'"):
        importlib.import_module("pynamodb_tracker.opentelemetry")


def test_the_instrumentor_adds_and_removes(telemetry: Telemetry, caplog: pytest.LogCaptureFixture) -> None:
    instrumentor = TrackerInstrumentor()
    instrumentor.instrument(tracer_provider=telemetry.tracers, meter_provider=telemetry.meters)
    run("o-1")
    instrumentor.uninstrument()

    assert len(telemetry.runs) == 1
    assert instrumentation.hooks == ()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_the_command_opentelemetry_instrument_obeys_the_list_of_what_is_disabled() -> None:
    script = "import json; from pynamodb_tracker import instrumentation as i; print(json.dumps(len(i.hooks)))"
    command = [str(Path(sys.executable).with_name("opentelemetry-instrument")), sys.executable, "-c", script]
    settings = {**os.environ, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}
    disabled = {**settings, "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "botocore,pynamodb_tracker"}
    started = [
        subprocess.Popen(command, env={**each, "OTEL_LOGS_EXPORTER": "none"}, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ours
        for each in (settings, disabled)
    ]
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in started]

    assert answers == [2, 0]
