"""The function that keeps a history stores each transition of a recorded stream once, whatever is delivered again."""

import importlib
import json
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from cfnlint.decode import cfn_yaml
from moto import mock_aws

from tests.infra.record_history import FILE
from tests.infra.template import INFRA

FOLDER = INFRA / "history"
ENVIRONMENT = {
    "HISTORY_TABLE": "history",
    "KEEP_DAYS": "365",
    "PYNAMODB_TRACKER_APP": "tests.infra.shop:ShopTask",
    "AWS_DEFAULT_REGION": "us-east-1",
}
TEMPLATE: dict[str, Any] = json.loads(json.dumps(cfn_yaml.load(str(FOLDER / "template.yaml"))))

Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def history() -> Iterator[ModuleType]:
    """Import the function as Lambda does, with the environment of the template."""
    with (
        mock_aws(),
        mock.patch.dict(os.environ, ENVIRONMENT),
        mock.patch.object(sys, "path", [str(FOLDER / "src"), *sys.path]),
    ):
        yield importlib.import_module("history")
    del sys.modules["history"]


@pytest.fixture(autouse=True)
def table(history: ModuleType) -> Iterator[None]:
    history.Transition.create_table(wait=True, billing_mode="PAY_PER_REQUEST")
    yield
    history.Transition.delete_table()


@pytest.fixture
def records() -> Records:
    records: Records = json.loads(FILE.read_text(encoding="utf-8"))["Records"]
    return records


def states(history: ModuleType, task: str) -> list[tuple[str, int]]:
    return [(each.state, int(each.attempt)) for each in history.Transition.query(task)]


def test_each_transition_of_a_task_is_one_item_in_order(history: ModuleType, records: Records) -> None:
    history.handler({"Records": records}, None)

    assert states(history, "parcel/p-1") == [
        ("pack pending", 0),
        ("pack in_progress", 1),
        ("pack failed", 1),
        ("pack in_progress", 2),
        ("send pending", 0),
        ("send ignored", 0),
        ("send pending", 0),
        ("send in_progress", 1),
        ("send succeeded", 0),
        ("deleted", 0),
    ]
    assert states(history, "letter/l-1") == [
        ("post pending", 0),
        ("post in_progress", 1),
        ("post pending", 0),  # it was requested again meanwhile
        ("post in_progress", 1),
        ("post succeeded", 0),
    ]
    assert states(history, "parcel/p-2") == [
        ("pack pending", 0),
        ("pack in_progress", 1),
        ("send pending", 0),  # it waits for a letter
        ("send pending", 0),  # and is due
        ("send in_progress", 1),
        ("send succeeded", 0),
    ]
    failed = list(history.Transition.query("parcel/p-1"))[2]
    assert failed.last_error.startswith("ConnectionError: the printer does not answer")
    assert sum(1 for _ in history.Transition.scan()) == 24


def test_a_batch_that_is_delivered_again_adds_nothing(history: ModuleType, records: Records) -> None:
    history.handler({"Records": records[:8]}, None)
    history.handler({"Records": records[4:]}, None)
    assert sum(1 for _ in history.Transition.scan()) == 24


def test_a_task_deleted_by_its_time_to_live_is_told_from_a_deleted_one(history: ModuleType, records: Records) -> None:
    (removed,) = (
        record
        for record in records
        if record["eventName"] == "REMOVE" and record["dynamodb"]["Keys"]["use_case_id"]["S"] == "parcel"
    )
    removed["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    history.handler({"Records": [removed]}, None)

    assert states(history, "parcel/p-1") == [("expired", 0)]


def test_the_template_names_the_function_its_settings_and_the_keys_of_its_table(history: ModuleType) -> None:
    resources = TEMPLATE["Resources"]
    function, keys = resources["KeepHistory"]["Properties"], resources["History"]["Properties"]["KeySchema"]
    module, _, name = function["Handler"].partition(".")
    assert getattr(sys.modules[module], name) is history.handler
    assert {*function["Environment"]["Variables"], "AWS_DEFAULT_REGION"} == ENVIRONMENT.keys()
    schema = history.Transition.describe_table()["KeySchema"]
    assert [(key["AttributeName"], key["KeyType"]) for key in keys] == [
        (key["AttributeName"], key["KeyType"]) for key in schema
    ]
