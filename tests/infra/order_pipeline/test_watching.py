"""The metrics on which the alarms and the dashboard look are those that the functions write."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.infra.order_pipeline.account import Account
from tests.infra.order_pipeline.template import STEPS, of_type, packaged, transformed

ORDER = {"order_id": "o-1", "amount": 4200, "address": "1 Main Street"}

Metric = tuple[str, str, frozenset[tuple[str, str]]]


def written(out: str) -> set[Metric]:
    """Return the metrics in lines of the embedded format: namespace, name and dimensions."""
    found: set[Metric] = set()
    for line in map(json.loads, out.splitlines()):
        for directive in line["_aws"]["CloudWatchMetrics"]:
            for names in directive["Dimensions"]:
                dimensions = frozenset((name, line[name]) for name in names)
                found |= {(directive["Namespace"], metric["Name"], dimensions) for metric in directive["Metrics"]}
    return found


def told(metric: dict[str, Any]) -> Metric:
    dimensions = frozenset((each["Name"], each["Value"]) for each in metric["Dimensions"])
    return "order-pipeline", metric["MetricName"], dimensions


def test_alarms_and_dashboard_use_written_metrics(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.announce(ORDER)
    for step in STEPS.values():
        account.send(step, "no JSON")
        account.poll(step)
    account.invoke("Watch", {})
    metrics = written(capsys.readouterr().out)

    own = {"Ref": "AWS::StackName"}
    alarms = [alarm for _, alarm in of_type(transformed(packaged("b", "k")), "AWS::CloudWatch::Alarm")]
    queries = [
        each["MetricStat"]["Metric"] for alarm in alarms for each in alarm.get("Metrics", []) if "MetricStat" in each
    ]
    watched = {told(metric) for metric in [*alarms, *queries] if metric.get("Namespace") == own}
    assert len(watched) == 4 + 9
    assert watched <= metrics

    shown = json.loads(account.dashboard())["widgets"]
    lines = [line for each in shown if each["type"] == "metric" for line in each["properties"]["metrics"]]
    drawn = {
        (namespace, name, frozenset(zip(rest[::2], rest[1::2], strict=True)))
        for namespace, name, *rest in lines
        if namespace == "order-pipeline"
    }
    assert len(drawn) == 21
    assert drawn <= metrics


def test_the_watch_measures_how_long_the_oldest_order_of_a_step_has_been_due(account: Account) -> None:
    account.order.create("o-1", amount=1, address="?", state=account.order.ship.pending)
    account.clock.advance(timedelta(minutes=20))
    account.order.create("o-2", amount=1, address="?", state=account.order.ship.pending)
    later = account.clock.now() + timedelta(hours=1)
    account.order.create("o-3", amount=1, address="?", state=account.order.deliver.pending, due_time=later)
    assert account.app.write_overdue(account.clock.now(), "test") == {"confirm_payment": 0, "ship": 1200, "deliver": 0}


def test_the_watch_sees_an_order_that_a_dead_function_left_behind(account: Account) -> None:
    account.announce(ORDER)
    account.dies = lambda _function: 3
    account.poll("confirm_payment")
    account.clock.advance(timedelta(minutes=30))
    overdue = account.app.write_overdue(account.clock.now(), "test")["confirm_payment"]
    assert timedelta(minutes=28) < timedelta(seconds=overdue) < timedelta(minutes=30)


def test_the_watch_costs_three_small_requests_for_a_step_however_many_orders_there_are(account: Account) -> None:
    orders = ({"task_id": f"o-{number}", "amount": 1, "address": "?"} for number in range(50))
    account.order.create_many(orders)
    account.invoke("Watch", {})
    assert account.life.requests == ["Query"] * 9


def test_the_ignored_are_counted_where_their_alarm_looks(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    def declined(key: str, _call: int) -> None:
        raise account.refused_error(key)

    account.services.refuses = declined
    account.announce(ORDER)
    account.poll("confirm_payment")

    _, line = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["step"], line["Ignored"]) == ("confirm_payment", 1)
