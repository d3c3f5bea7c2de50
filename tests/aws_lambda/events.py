"""Events about orders, by the builders that users have."""

from functools import partial
from typing import Any

from pynamodb_tracker.testing import (
    dynamodb_event,
    eventbridge_event,
    http_event,
    kafka_event,
    kinesis_event,
    s3_event,
    sns_event,
    sqs_event,
)

kinesis = kinesis_event
s3 = s3_event
sns = sns_event


def bare(task_id: str, **more: Any) -> dict[str, Any]:
    return {"order_id": task_id, **more}


def eventbridge(task_id: str, **more: Any) -> dict[str, Any]:
    return eventbridge_event(bare(task_id, **more), source="shop", detail_type="order placed")


http_api = partial(http_event, path="/orders")
rest_api = partial(http_event, path="/orders", source="rest_api")
function_url = partial(http_event, source="function_url")
load_balancer = partial(http_event, source="load_balancer")


def sqs(*bodies: Any, **attributes: str) -> dict[str, Any]:
    """Return messages of a standard queue, with further attributes."""
    event = sqs_event(*bodies)
    for record in event["Records"]:
        record["attributes"] |= attributes
    return event


def fifo(*messages: tuple[str, Any]) -> dict[str, Any]:
    return sqs_event(*(body for _, body in messages), queue="orders.fifo", group=[group for group, _ in messages])


def stream(*task_ids: str) -> dict[str, Any]:
    """Return records of the stream of another table, whose items are orders."""
    return dynamodb_event(*(bare(task_id, amount=4200) for task_id in task_ids), keys=["order_id"], table="orders")


def kafka(*partitions: list[Any], self_managed: bool = False) -> dict[str, Any]:
    """Return records of the partitions of a topic."""
    events = [
        kafka_event(*values, topic="orders", partition=number, self_managed=self_managed)
        for number, values in enumerate(partitions)
    ]
    records = {partition: records for event in events for partition, records in event["records"].items()}
    return {**events[0], "records": records}


def names(answer: dict[str, Any]) -> list[Any]:
    assert set(answer) == {"batchItemFailures"}
    assert all(set(each) == {"itemIdentifier"} for each in answer["batchItemFailures"])
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]
