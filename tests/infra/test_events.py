"""The application that publishes events: its function, its rules, and what Slack gets."""

import importlib
import json
import os
import re
import sys
from typing import Any
from unittest import mock

import boto3
import pytest
from cfnlint.decode import cfn_yaml
from moto import mock_aws
from moto.events.models import EventPattern

from tests.infra.record_history import FILE
from tests.infra.template import INFRA, problems

FOLDER = INFRA / "events"
TEMPLATE: dict[str, Any] = json.loads(json.dumps(cfn_yaml.load(str(FOLDER / "template.yaml"))))["Resources"]
FUNCTION = TEMPLATE["Publish"]["Properties"]
ENVIRONMENT = {"BUS": "tasks", "PYNAMODB_TRACKER_APP": "tests.infra.shop:ShopTask", "AWS_DEFAULT_REGION": "us-east-1"}


def test_cfn_lint_finds_nothing_but_that_undelivered_events_go_with_the_stack() -> None:
    found = problems((FOLDER / "template.yaml").read_text(encoding="utf-8"))
    assert {(each.rule.id, each.path[1]) for each in found} == {("I3011", "Undelivered")}


def test_the_function_publishes_what_a_real_stream_reports() -> None:
    records = [
        {**each, "eventSource": "aws:dynamodb"} for each in json.loads(FILE.read_text(encoding="utf-8"))["Records"]
    ]
    module, _, name = FUNCTION["Handler"].partition(".")
    with (
        mock_aws(),
        mock.patch.dict(os.environ, ENVIRONMENT),
        mock.patch.object(sys, "path", [str(FOLDER / "src"), *sys.path]),
    ):
        boto3.client("events").create_event_bus(Name="tasks")
        handler = getattr(importlib.import_module(module), name)
        del sys.modules[module]
        assert handler({"Records": records}, None) == {"batchItemFailures": []}


def test_the_function_has_its_settings_and_reports_failures_and_may_use_its_bus_only() -> None:
    assert {*FUNCTION["Environment"]["Variables"], "AWS_DEFAULT_REGION"} == ENVIRONMENT.keys()
    stream = FUNCTION["Events"]["Changes"]["Properties"]
    assert stream["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    [statement] = FUNCTION["Policies"][0]["Statement"]
    assert statement == {"Effect": "Allow", "Action": "events:PutEvents", "Resource": {"Fn::GetAtt": ["Bus", "Arn"]}}


@pytest.mark.parametrize(
    ("rule", "matched"),
    [
        ("IgnoredToTopic", ["ship ignored"]),
        ("FailedToWebhook", ["ship failed", "ship ignored"]),
        ("IgnoredToSlack", ["ship ignored"]),
    ],
)
def test_a_rule_takes_the_events_that_it_names(rule: str, matched: list[str]) -> None:
    pattern = EventPattern.load(json.dumps(TEMPLATE[rule]["Properties"]["EventPattern"]))
    types = ["ship created", "ship in_progress", "ship succeeded", "ship failed", "ship ignored", "ship deleted"]
    events: list[Any] = [{"source": "pynamodb_tracker", "detail-type": each} for each in types]
    assert [event["detail-type"] for event in events if pattern.matches_event(event)] == matched
    [target] = TEMPLATE[rule]["Properties"]["Targets"]
    assert target["DeadLetterConfig"] == {"Arn": {"Fn::GetAtt": ["Undelivered", "Arn"]}}


def test_slack_gets_json_whatever_an_error_says() -> None:
    [target] = TEMPLATE["IgnoredToSlack"]["Properties"]["Targets"]
    values = {"type": "ship ignored", "use_case": "order", "task": 'o-"1"', "error": 'ValueError: \\ "<b>"\n'}
    assert target["InputTransformer"]["InputPathsMap"].keys() == values.keys()
    text = re.sub(r"<(\w+)>", lambda name: json.dumps(values[name[1]]), target["InputTransformer"]["InputTemplate"])
    [block] = json.loads(text)["blocks"]
    assert [field["text"] for field in block["fields"]] == list(values.values())
