"""The alarms and the dashboard see all that is deployed, and CloudWatch takes them."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from tests.infra.order_pipeline.stack import PARAMETERS, Stack
from tests.infra.order_pipeline.template import STEPS, of_type, packaged, transformed

TEMPLATE = transformed(packaged("packages", "key"))
FUNCTIONS = dict(of_type(TEMPLATE, "AWS::Lambda::Function"))
ALARMS = dict(of_type(TEMPLATE, "AWS::CloudWatch::Alarm"))


def metrics_of(alarm: dict[str, Any]) -> Iterator[tuple[Any, str, frozenset[str]]]:
    """Yield namespace, name and names of dimensions of each metric of an alarm."""
    plain = [alarm] if "MetricName" in alarm else []
    for metric in [
        *plain,
        *(each["MetricStat"]["Metric"] for each in alarm.get("Metrics", []) if "MetricStat" in each),
    ]:
        names = frozenset(dimension["Name"] for dimension in metric["Dimensions"])
        yield json.dumps(metric["Namespace"]), metric["MetricName"], names


def test_every_alarm_notifies_the_topic_and_so_does_its_end() -> None:
    orders = {"OrdersIgnored", "OrdersOverdue", "OrdersUnregistered"}
    assert set(ALARMS) == orders | {"MessagesDead", "TableThrottled", "FunctionsFailing", "AttemptsFailing"}
    for alarm in ALARMS.values():
        assert alarm["AlarmActions"] == alarm.get("OKActions", alarm["AlarmActions"]) == [{"Ref": "AlarmTopicArn"}]
        assert alarm["ComparisonOperator"] == "GreaterThanThreshold"
    assert [name for name, alarm in ALARMS.items() if "OKActions" not in alarm] == ["OrdersIgnored"], "it is an event"


@pytest.mark.parametrize("name", ALARMS)
def test_cloudwatch_takes_each_alarm(name: str, stack: Stack) -> None:
    values: dict[str, Any] = {**stack.ids, **PARAMETERS, "AWS::StackName": stack.name, "OverdueAfterSeconds": 900}

    def resolved(node: Any) -> Any:
        if not isinstance(node, dict):
            return [resolved(each) for each in node] if isinstance(node, list) else node
        match node:
            case {"Ref": reference}:
                return values[reference]
            case {"Fn::GetAtt": [resource, "QueueName"]}:
                return values[resource].rpartition("/")[2]
            case {"Fn::ImportValue": {"Fn::Sub": "${TableStack}-TableName"}}:
                return "orders"
            case {"Fn::Sub": str(text)}:
                return text.replace("${FailedPercent}", "5")
            case _:
                assert not any(key.startswith("Fn::") for key in node), node
                return {key: resolved(each) for key, each in node.items()}

    client = boto3.client("cloudwatch")
    client.put_metric_alarm(AlarmName=name, **resolved(ALARMS[name]))
    [alarm] = client.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    assert alarm["AlarmActions"] == [PARAMETERS["AlarmTopicArn"]]


@pytest.mark.parametrize(
    ("started", "failed", "unreadable", "is_raised"),
    [
        (100, 6, 0, True),
        (100, 5, 0, False),  # that is the share, and not more
        (20, 2, 0, False),  # a step of few orders
        (3, 3, 0, True),
        (0, 0, 3, True),  # each new order fails before it is created
        (0, 0, 0, False),
    ],
)
def test_attempts_that_fail_raise_an_alarm_by_their_share(
    started: int, failed: int, unreadable: int, *, is_raised: bool
) -> None:
    _, first, *_ = ALARMS["AttemptsFailing"]["Metrics"]
    expression = first["Expression"]["Fn::Sub"].replace("${FailedPercent}", "5").replace(" AND ", " and ")
    functions = {"FILL": lambda value, _missing: value, "IF": lambda holds, yes, no: yes if holds else no}
    values = {"s1": started, "f1": failed, "u1": unreadable}
    assert eval(expression, {**functions, **values}) == is_raised  # noqa: S307 - our own text


def test_alarms_see_every_dead_letter_queue_every_function_and_the_index() -> None:
    def values(alarm: str, dimension: str) -> list[Any]:
        metrics = [each["MetricStat"]["Metric"] for each in ALARMS[alarm]["Metrics"] if "MetricStat" in each]
        return [each["Value"] for metric in metrics for each in metric["Dimensions"] if each["Name"] == dimension]

    queues = {value["Fn::GetAtt"][0] for value in values("MessagesDead", "QueueName")}
    assert queues == {name for name, _ in of_type(TEMPLATE, "AWS::SQS::Queue") if not name.endswith("Queue")}
    assert {value["Ref"] for value in values("FunctionsFailing", "FunctionName")} == set(FUNCTIONS)
    throttles = [(metric, names) for _, metric, names in metrics_of(ALARMS["TableThrottled"])]
    table, index = frozenset({"TableName"}), frozenset({"TableName", "GlobalSecondaryIndexName"})
    events = ("ReadThrottleEvents", "WriteThrottleEvents")
    assert sorted(throttles, key=str) == sorted(
        [(event, names) for event in events for names in (table, index)], key=str
    )
    assert set(values("TableThrottled", "GlobalSecondaryIndexName")) == {"status-index"}
    assert set(values("OrdersIgnored", "step")) == set(STEPS.values())


def test_the_dashboard_shows_metrics_of_what_is_deployed(stack: Stack) -> None:
    body = boto3.client("cloudwatch").get_dashboard(DashboardName="order-pipeline")["DashboardBody"]
    assert "${" not in body
    widgets = json.loads(body)["widgets"]
    alarms = [
        arn.rpartition(":")[2] for each in widgets if each["type"] == "alarm" for arn in each["properties"]["alarms"]
    ]
    assert set(alarms) == set(ALARMS)

    metrics = [metric for each in widgets if each["type"] == "metric" for metric in each["properties"]["metrics"]]
    by_namespace: dict[str, set[str]] = {}
    for namespace, _, *dimensions in metrics:
        by_namespace.setdefault(namespace, set()).update(dimensions[1::2])
    assert by_namespace["AWS/Lambda"] == {stack[name] for name in FUNCTIONS}
    assert by_namespace["AWS/SQS"] == {
        stack[name].rpartition("/")[2] for name, _ in of_type(TEMPLATE, "AWS::SQS::Queue")
    }
    assert by_namespace["AWS/DynamoDB"] == {"orders", "status-index"}
    assert by_namespace["order-pipeline"] == {"order", *STEPS.values()}
    assert set(by_namespace) == {"AWS/Lambda", "AWS/SQS", "AWS/DynamoDB", "order-pipeline"}


def test_widgets_do_not_lie_on_each_other(stack: Stack) -> None:  # noqa: ARG001 - it is deployed
    body = boto3.client("cloudwatch").get_dashboard(DashboardName="order-pipeline")["DashboardBody"]
    taken: set[tuple[int, int]] = set()
    for widget in json.loads(body)["widgets"]:
        xs, ys = range(widget["x"], widget["x"] + widget["width"]), range(widget["y"], widget["y"] + widget["height"])
        cells = {(x, y) for x in xs for y in ys}
        assert max(xs) < 24
        assert not cells & taken, widget["properties"]["title"]
        taken |= cells
    assert taken
