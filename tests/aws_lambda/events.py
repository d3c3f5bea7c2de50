"""Events about orders, by the builders that users have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pynamodb_tracker.testing import (
    dynamodb_event,
    eventbridge_event,
    kafka_event,
    kinesis_event,
    s3_event,
    sns_event,
    sqs_event,
)

__all__ = [
    "bare",
    "eventbridge",
    "fifo",
    "function_url",
    "http_api",
    "kafka",
    "kinesis",
    "load_balancer",
    "names",
    "rest_api",
    "s3",
    "sns",
    "sqs",
    "stream",
]

_ARN = "arn:aws:{}:us-east-1:123456789012:{}"

kinesis = kinesis_event
s3 = s3_event
sns = sns_event


def bare(task_id: str, **more: Any) -> dict[str, Any]:
    return {"order_id": task_id, **more}


def eventbridge(task_id: str, **more: Any) -> dict[str, Any]:
    return eventbridge_event(bare(task_id, **more), source="shop", detail_type="order placed")


def http_api(body: Any = None, *, path: Mapping[str, str] | None = None, **headers: str) -> dict[str, Any]:
    """Return a request by an HTTP API, format 2.0, which has its header names in lower case."""
    event = {
        "version": "2.0",
        "routeKey": "POST /orders",
        "rawPath": "/orders",
        "rawQueryString": "",
        "headers": _headers(body, headers),
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "r3pmxmplak",
            "http": {
                "method": "POST",
                "path": "/orders",
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "curl/8.5.0",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": "POST /orders",
            "stage": "$default",
            "timeEpoch": 1795262400000,
        },
        "isBase64Encoded": False,
        **({} if path is None else {"pathParameters": path}),
    }
    return event if body is None else {**event, "body": body if isinstance(body, str) else json.dumps(body)}


def function_url(body: Any = None, **headers: str) -> dict[str, Any]:
    """Return a request by the URL of a function, which sends a JSON body as text and any other in base64."""
    event = http_api(None, path=None, **_headers(body, headers))
    del event["requestContext"]["routeKey"]
    return {**event, "routeKey": "$default", **({} if body is None else {"body": json.dumps(body)})}


def rest_api(body: Any = None, *, path: Mapping[str, str] | None = None, **headers: str) -> dict[str, Any]:
    """Return a request by a REST API, format 1.0, which has its headers as the client wrote them."""
    sent = {name.title(): value for name, value in _headers(body, headers).items()}
    return {
        "resource": "/orders",
        "path": "/orders",
        "httpMethod": "POST",
        "headers": sent,
        "multiValueHeaders": {name: [value] for name, value in sent.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": path,
        "stageVariables": None,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "1234567890",
            "httpMethod": "POST",
            "identity": {"sourceIp": "192.0.2.1", "userAgent": "curl/8.5.0"},
            "path": "/prod/orders",
            "protocol": "HTTP/1.1",
            "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
            "resourcePath": "/orders",
            "stage": "prod",
        },
        "body": body if body is None or isinstance(body, str) else json.dumps(body),
        "isBase64Encoded": False,
    }


def load_balancer(body: Any = None, *, multi_value: bool = False, **headers: str) -> dict[str, Any]:
    """Return a request by a load balancer, which sends values or lists of them, and an empty body as empty text."""
    sent = _headers(body, headers)
    values = (
        {"multiValueHeaders": {name: [value] for name, value in sent.items()}} if multi_value else {"headers": sent}
    )
    return {
        "requestContext": {
            "elb": {"targetGroupArn": _ARN.format("elasticloadbalancing", "targetgroup/orders/49e9d65c")}
        },
        "httpMethod": "POST",
        "path": "/orders",
        "queryStringParameters": {},
        **values,
        "body": "" if body is None else json.dumps(body),
        "isBase64Encoded": False,
    }


def _headers(body: Any, headers: Mapping[str, str]) -> dict[str, str]:
    content = {} if body is None or "content_type" in headers else {"content-type": "application/json"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"host": "api.example.com", **content, **named}


def sqs(*bodies: Any, **attributes: str) -> dict[str, Any]:
    """Return messages of a standard queue, with further attributes."""
    event = sqs_event(*bodies)
    for record in event["Records"]:
        record["attributes"] |= attributes
    return event


def fifo(*messages: tuple[str, Any]) -> dict[str, Any]:
    """Return messages of a FIFO queue, each with its group."""
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
    """Return which records a batch reports as failed."""
    assert set(answer) == {"batchItemFailures"}
    assert all(set(each) == {"itemIdentifier"} for each in answer["batchItemFailures"])
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]
