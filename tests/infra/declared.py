"""The table as its class declares it, and as a template asks for it: both as what DynamoDB is asked for."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pynamodb_tracker import Task
from pynamodb_tracker.testing import local_table
from tests.infra.shop import ShopTask
from tests.support.recorder import recorded

PROTECTED: Mapping[str, Any] = {
    "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
    "DeletionProtectionEnabled": True,
}
"""What a table has by default that its class does not declare."""

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"

ALL: Mapping[str, str] = {
    "KmsKeyArn": KEY,
    "StreamViewType": "NEW_IMAGE",
    "WarmUnits": "24000,8000",
    "IndexWarmUnits": "13000,16000",
    "MaxUnits": "3000,1000",
    "IndexMaxUnits": "500,2000",
}
"""A value for each parameter that adds something."""

ALL_ADDED: Mapping[str, Mapping[str, Any]] = {
    "KmsKeyArn": {"SSESpecification": {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}},
    "StreamViewType": {"StreamSpecification": {"StreamViewType": "NEW_IMAGE"}},
    "WarmUnits": {"WarmThroughput": {"ReadUnitsPerSecond": 24000, "WriteUnitsPerSecond": 8000}},
    "IndexWarmUnits": {"Index": {"WarmThroughput": {"ReadUnitsPerSecond": 13000, "WriteUnitsPerSecond": 16000}}},
    "MaxUnits": {"OnDemandThroughput": {"MaxReadRequestUnits": 3000, "MaxWriteRequestUnits": 1000}},
    "IndexMaxUnits": {"Index": {"OnDemandThroughput": {"MaxReadRequestUnits": 500, "MaxWriteRequestUnits": 2000}}},
}
"""What each of them adds to the table, or to its index."""


def declared(*parameters: str, model: type[Task] = ShopTask) -> dict[str, Any]:
    """Return what `create_table` asks for, what protects a table, and what these parameters of ALL add."""
    table: dict[str, Any] = {**json.loads(_requested(model)), **PROTECTED}
    for parameter in parameters:
        added = {**ALL_ADDED[parameter]}
        table["GlobalSecondaryIndexes"][0].update(added.pop("Index", {}))
        table.update(added)
    wanted: dict[str, Any] = comparable(table)
    return wanted


@cache
def _requested(model: type[Task]) -> str:
    with local_table(model):
        model.delete_table()
        with recorded(model) as requests:
            model.create_table(wait=True)
    (create,) = (request.body for request in requests if request.operation == "CreateTable")
    (expire,) = (request.body for request in requests if request.operation == "UpdateTimeToLive")
    return json.dumps({**create, "TimeToLiveSpecification": expire["TimeToLiveSpecification"]})


def comparable(value: Any) -> Any:
    """Return a table with values of the types that DynamoDB knows, and lists in one order: there it means nothing."""
    if isinstance(value, Mapping):
        return {key: comparable(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((comparable(each) for each in value), key=json.dumps)
    return typed(value)


def typed(value: Any) -> Any:
    """Return what CloudFormation makes of a parameter, which is text: a number or a boolean where it looks like one."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
