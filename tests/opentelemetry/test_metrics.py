import json
import math
from contextlib import suppress
from contextvars import Context
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry, generate_latest

from pynamodb_tracker import (
    ConcurrencyLimit,
    ConcurrencyLimitReachedError,
    LockLostError,
    Repeat,
    RetryLater,
    Step,
    Task,
    TaskNotStartableError,
    UseCase,
)
from pynamodb_tracker.aws_lambda import EmfHook
from pynamodb_tracker.instrumentation import add_hook
from pynamodb_tracker.opentelemetry import instrument
from pynamodb_tracker.testing import StoppedClock
from tests.opentelemetry.conftest import Telemetry
from tests.opentelemetry.shop import Order, ShopTask
from tests.opentelemetry.test_spans import context_of
from tests.support.recorder import recorded
from tests.support.workers import die


def of_ship(**attributes: str) -> dict[str, str]:
    return {
        "messaging.system": "pynamodb_tracker",
        "messaging.operation.name": "run",
        "messaging.destination.name": "order.ship",
        **attributes,
    }


def counted(telemetry: Telemetry, name: str) -> list[tuple[dict[str, Any], int]]:
    return [(dict(point.attributes), point.value) for point in telemetry.points(name)]


def test_durations_are_in_seconds_by_outcome_and_error(telemetry: Telemetry, stopped_clock: StoppedClock) -> None:
    telemetry.instrument()
    Order.create("o-1")
    Order.create("o-2")
    with Order.ship.start("o-1"):
        stopped_clock.advance(timedelta(seconds=7))
    with suppress(ValueError), Order.ship.start("o-2"):
        raise ValueError("card 4242")

    succeeded, failed = telemetry.points("messaging.process.duration")
    assert dict(succeeded.attributes) == of_ship(**{"pynamodb_tracker.outcome": "succeeded"})
    assert (succeeded.count, succeeded.sum) == (1, 7)
    assert [exemplar.span_id for exemplar in succeeded.exemplars] == [context_of(telemetry.runs[0]).span_id]
    upper = dict(zip([*succeeded.explicit_bounds, math.inf], succeeded.bucket_counts, strict=True))
    assert [bound for bound, count in upper.items() if count] == [10]
    assert (min(upper), sorted(upper)[-2]) == (0.005, 3600)
    assert dict(failed.attributes) == of_ship(**{"pynamodb_tracker.outcome": "failed", "error.type": "ValueError"})


def test_a_postponement_is_apart_from_failures_and_no_error(telemetry: Telemetry) -> None:
    telemetry.instrument()
    Order.create("o-1")
    with suppress(RetryLater), Order.ship.start("o-1"):
        raise RetryLater(timedelta(minutes=5), use_attempt=False)
    [point] = telemetry.points("messaging.process.duration")
    assert dict(point.attributes) == of_ship(**{"pynamodb_tracker.outcome": "postponed"})


def test_refusals_are_counted_by_reason(telemetry: Telemetry) -> None:
    telemetry.instrument()
    Order.create("o-1")
    Order.create("o-2", due_time=timedelta(hours=1))
    Order.create("o-3")
    Order.ship.ignore("o-3", reason="cancelled")
    with Order.ship.start("o-1"):
        for task_id in ("o-1", "o-1", "o-2", "o-3", "o-4"):
            with suppress(TaskNotStartableError), Order.ship.start(task_id):
                pytest.fail("it was not to be started")
        with suppress(TaskNotStartableError), Order.ship.start("o-1", detailed_error=False):
            pytest.fail("it was not to be started")
    with suppress(TaskNotStartableError), Order.ship.start("o-1"):
        pytest.fail("it was not to be started")

    refused = {
        point["pynamodb_tracker.reason"]: count for point, count in counted(telemetry, "pynamodb_tracker.refused")
    }
    assert refused == {"locked": 2, "not_ready": 1, "ignored": 1, "not_found": 1, "unknown": 1, "succeeded": 1}


def test_a_task_without_a_slot_is_counted_as_limited(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Order.ship._definition.declared, "concurrency_limit", ConcurrencyLimit("bank", 1))
    telemetry.instrument()
    remove = add_hook(EmfHook())
    Order.create_many(["o-1", "o-2"])
    with Order.ship.start("o-1"), suppress(ConcurrencyLimitReachedError):
        Context().run(lambda: Order.ship.run("o-2", print))
    remove()
    refused = counted(telemetry, "pynamodb_tracker.refused")
    assert refused == [(of_ship(**{"pynamodb_tracker.reason": "limited"}), 1)]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    counts = [(line.get("Started"), line.get("Refused"), line.get("Succeeded")) for line in lines]
    assert counts == [(1, None, None), (None, 1, 0), (None, 0, 1)]


def test_takeovers_and_lost_locks_are_counted(telemetry: Telemetry, stopped_clock: StoppedClock) -> None:
    telemetry.instrument()
    Order.create("o-1")
    with suppress(LockLostError), Order.ship.start("o-1", lock_for=timedelta(seconds=10)):
        stopped_clock.advance(timedelta(seconds=11))
        with Order.ship.start("o-1"):
            pass

    assert counted(telemetry, "pynamodb_tracker.takeovers") == [(of_ship(), 1)]
    assert counted(telemetry, "pynamodb_tracker.locks_lost") == [(of_ship(), 1)]
    outcomes = {
        point.attributes["pynamodb_tracker.outcome"]: point for point in telemetry.points("messaging.process.duration")
    }
    assert {*outcomes} == {"succeeded", "refused"}
    assert outcomes["refused"].attributes["error.type"] == "LockLostError"


def test_gauges_come_on_request_and_read_an_entry_per_state(telemetry: Telemetry, stopped_clock: StoppedClock) -> None:
    telemetry.instrument()
    assert telemetry.points("pynamodb_tracker.due.age") == []

    telemetry.instrument(gauges=[Order])
    for task_id in ("o-1", "o-2"):
        Order.create(task_id)
    Order.create("o-3", state=Order.deliver.pending, due_time=timedelta(hours=1))
    stopped_clock.advance(timedelta(minutes=5))
    with recorded(ShopTask) as requests:
        points = telemetry.points("pynamodb_tracker.due.age")
    ages = {
        (point.attributes["messaging.destination.name"], point.attributes["pynamodb_tracker.status"]): point.value
        for point in points
    }
    assert ages == {
        (step, status): 300 if (step, status) == ("order.ship", "pending") else 0
        for step in ("order.ship", "order.deliver")
        for status in ("pending", "failed", "in_progress")
    }
    assert (requests.operations, requests.entries_read) == (["Query"] * 6, 2)


class LostTask(Task):
    """A table that somebody has deleted."""

    class Meta:
        table_name = "lost"
        region = "us-east-1"


class Lost(LostTask):
    use_case_id = UseCase("lost")

    find = Step(10)
    send = Step(20)


def test_a_table_that_cannot_be_read_is_asked_once_and_keeps_no_gauge_of_another_one_from_the_export(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry.instrument(gauges=[Lost, Order])
    points = telemetry.points("pynamodb_tracker.due.age")
    assert {point.attributes["messaging.destination.name"] for point in points} == {"order.ship", "order.deliver"}
    assert [record.message for record in caplog.records if record.name == "pynamodb_tracker"] == [
        "cannot read how long tasks of <Step Lost.find (10)> have been due"
    ]


@pytest.mark.usefixtures("shop")
def test_prometheus_shows_them() -> None:
    registry = CollectorRegistry()
    provider = MeterProvider([PrometheusMetricReader(registry=registry)], shutdown_on_exit=False)
    remove = instrument(meter_provider=provider)
    try:
        Order.create("o-1")
        with Order.ship.start("o-1"):
            pass
        shown = generate_latest(registry).decode()
    finally:
        remove()
        provider.shutdown()

    [line] = [line for line in shown.splitlines() if line.startswith("messaging_process_duration_seconds_count")]
    assert 'messaging_destination_name="order.ship"' in line
    assert 'pynamodb_tracker_outcome="succeeded"' in line
    assert line.endswith(" 1.0")


def test_occurrences_that_were_given_up_are_counted(telemetry: Telemetry, stopped_clock: StoppedClock) -> None:
    Order.create("o-1", repeat=Repeat.every(timedelta(days=1)))
    for _ in range(Order.ship.max_attempts):
        die(Order.ship, "o-1")
        stopped_clock.advance(timedelta(hours=1))
    telemetry.instrument()
    with suppress(TaskNotStartableError), Order.ship.start("o-1"):
        pytest.fail("it was not to be started")
    stopped_clock.advance(timedelta(days=1))
    for _ in range(Order.ship.max_attempts):
        with suppress(ValueError), Order.ship.start("o-1"):
            raise ValueError("card 4242")

    assert counted(telemetry, "pynamodb_tracker.occurrences.skipped") == [(of_ship(), 2)]
