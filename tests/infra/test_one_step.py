"""The small application: the queue repeats what failed, and its dead letters are what needs a person."""

import importlib
import io
import json
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from cfnlint.decode import cfn_yaml

from pynamodb_tracker.testing import local_table, sqs_event
from tests.infra.template import INFRA, problems

FOLDER = INFRA / "one_step"
TEMPLATE: dict[str, Any] = json.loads(json.dumps(cfn_yaml.load(str(FOLDER / "template.yaml"))))["Resources"]
FUNCTION = TEMPLATE["Ship"]["Properties"]
ENVIRONMENT = {"TASKS_TABLE": "tasks", "CARRIER_URL": "https://carrier.test/labels", "AWS_DEFAULT_REGION": "us-east-1"}

ORDER = {"order_id": "o-1", "address": "1 Main Street"}


@pytest.fixture(scope="module")
def shipping() -> Iterator[ModuleType]:
    """Import the handler as Lambda does, with the environment of the template."""
    with mock.patch.dict(os.environ, ENVIRONMENT), mock.patch.object(sys, "path", [str(FOLDER / "src"), *sys.path]):
        module = importlib.import_module("shipping")
        with local_table(module.AppTask):
            yield module
    del sys.modules["shipping"]


def test_the_template_fits_its_function_and_has_nothing_that_cfn_lint_finds(shipping: ModuleType) -> None:
    text = (FOLDER / "template.yaml").read_text(encoding="utf-8")
    assert problems(text) == []
    assert len(text.splitlines()) <= 150, "it is the small one"
    module, _, name = FUNCTION["Handler"].partition(".")
    assert callable(getattr(sys.modules[module], name))
    assert {*FUNCTION["Environment"]["Variables"], "AWS_DEFAULT_REGION"} == ENVIRONMENT.keys()
    queue, messages = TEMPLATE["Orders"]["Properties"], FUNCTION["Events"]["Messages"]["Properties"]
    assert messages["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert messages["BatchSize"] * 5 < FUNCTION["Timeout"], "each call of the carrier takes at most 5 seconds"
    assert queue["VisibilityTimeout"] >= 6 * FUNCTION["Timeout"]
    assert queue["RedrivePolicy"]["maxReceiveCount"] > shipping.Order.ship.max_attempts
    [dimension] = TEMPLATE["NeedsAPerson"]["Properties"]["Dimensions"]
    assert dimension["Value"] == {"Fn::GetAtt": ["DeadLetters", "QueueName"]}


def test_a_message_creates_its_order_and_ships_it_once(shipping: ModuleType) -> None:
    with mock.patch("urllib.request.urlopen", return_value=io.BytesIO(b'{"tracking_no": "t-1"}')) as called:
        for _ in range(2):
            assert shipping.handler(sqs_event(ORDER), None) == {"batchItemFailures": []}
    [call] = called.mock_calls
    assert json.loads(call.args[0].data) == ORDER
    assert shipping.Order.get_task("o-1").tracking_no == "t-1"


def test_what_fails_stays_in_the_queue_and_so_does_what_is_ignored(shipping: ModuleType) -> None:
    failed = {"batchItemFailures": [{"itemIdentifier": "m-1"}]}
    with mock.patch("urllib.request.urlopen", side_effect=OSError("down")) as called:
        for _ in range(shipping.Order.ship.max_attempts + 1):
            assert shipping.handler(sqs_event({**ORDER, "order_id": "o-2"}), None) == failed
    assert called.call_count == shipping.Order.ship.max_attempts
    assert shipping.Order.get_task("o-2").state == shipping.Order.ship.ignored
