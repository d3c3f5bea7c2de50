"""Events as Lambda delivers them, by the shapes that AWS documents."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote_plus

__all__ = ["bare", "eventbridge", "fifo", "kafka", "kinesis", "names", "s3", "sns", "sqs", "stream"]

_ARN = "arn:aws:{}:us-east-1:123456789012:{}"


def bare(task_id: str, **more: Any) -> dict[str, Any]:
    return {"order_id": task_id, **more}


def eventbridge(task_id: str, **more: Any) -> dict[str, Any]:
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": "order placed",
        "source": "shop",
        "account": "123456789012",
        "time": "2026-11-21T12:00:00Z",
        "region": "us-east-1",
        "resources": [],
        "detail": {"order_id": task_id, **more},
    }


def sqs(*bodies: Any, **attributes: str) -> dict[str, Any]:
    """Return messages of a standard queue; a body that is no text is sent as JSON."""
    return {"Records": [_message(number, body, "orders", attributes) for number, body in enumerate(bodies, 1)]}


def fifo(*messages: tuple[str, Any]) -> dict[str, Any]:
    """Return messages of a FIFO queue, each with its group."""
    records = [
        _message(number, body, "orders.fifo", {"MessageGroupId": group, "SequenceNumber": f"1884949675{number:010}"})
        for number, (group, body) in enumerate(messages, 1)
    ]
    return {"Records": records}


def _message(number: int, body: Any, queue: str, attributes: dict[str, str]) -> dict[str, Any]:
    return {
        "messageId": f"m-{number}",
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1795262400000",
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": "1795262400001",
            **attributes,
        },
        "messageAttributes": {},
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": _ARN.format("sqs", queue),
        "awsRegion": "us-east-1",
    }


def kinesis(*data: Any) -> dict[str, Any]:
    """Return records of a data stream; what is no bytes is put as JSON."""
    records = [
        {
            "kinesis": {
                "kinesisSchemaVersion": "1.0",
                "partitionKey": "1",
                "sequenceNumber": f"s-{number}",
                "data": base64.b64encode(each if isinstance(each, bytes) else json.dumps(each).encode()).decode(),
                "approximateArrivalTimestamp": 1795262400.1,
            },
            "eventSource": "aws:kinesis",
            "eventVersion": "1.0",
            "eventID": f"shardId-000000000006:s-{number}",
            "eventName": "aws:kinesis:record",
            "invokeIdentityArn": "arn:aws:iam::123456789012:role/lambda-role",
            "awsRegion": "us-east-1",
            "eventSourceARN": _ARN.format("kinesis", "stream/orders"),
        }
        for number, each in enumerate(data, 1)
    ]
    return {"Records": records}


def stream(*task_ids: str) -> dict[str, Any]:
    """Return records of the stream of another table, whose items are orders."""
    records = [
        {
            "eventID": f"{number:032x}",
            "eventVersion": "1.1",
            "eventName": "INSERT",
            "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1",
            "eventSourceARN": _ARN.format("dynamodb", "table/orders/stream/2026-11-21T12:00:00.000"),
            "dynamodb": {
                "ApproximateCreationDateTime": 1795262400,
                "Keys": {"order_id": {"S": task_id}},
                "NewImage": {"order_id": {"S": task_id}, "amount": {"N": "4200"}},
                "SequenceNumber": f"s-{number}",
                "SizeBytes": 26,
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        }
        for number, task_id in enumerate(task_ids, 1)
    ]
    return {"Records": records}


def s3(*keys: str) -> dict[str, Any]:
    """Return notifications about objects that were put into a bucket."""
    records = [
        {
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "awsRegion": "us-east-1",
            "eventTime": "2026-11-21T12:00:00.000Z",
            "eventName": "ObjectCreated:Put",
            "s3": {
                "s3SchemaVersion": "1.0",
                "bucket": {"name": "orders", "arn": "arn:aws:s3:::orders"},
                "object": {"key": quote_plus(key), "size": 1024, "sequencer": f"0A1B2C3D4E5F67{number:04}"},
            },
        }
        for number, key in enumerate(keys, 1)
    ]
    return {"Records": records}


def sns(message: Any) -> dict[str, Any]:
    """Return a notification of a topic; a message that is no text is sent as JSON."""
    record = {
        "EventVersion": "1.0",
        "EventSubscriptionArn": _ARN.format("sns", "orders:21be56ed-a058-49f5-8c98-aedd2564c486"),
        "EventSource": "aws:sns",
        "Sns": {
            "Type": "Notification",
            "MessageId": "95df01b4-ee98-5cb9-9903-4c221d41eb5e",
            "TopicArn": _ARN.format("sns", "orders"),
            "Subject": None,
            "Message": message if isinstance(message, str) else json.dumps(message),
            "Timestamp": "2026-11-21T12:00:00.000Z",
            "MessageAttributes": {},
        },
    }
    return {"Records": [record]}


def kafka(*partitions: list[Any], source: str = "aws:kafka") -> dict[str, Any]:
    """Return records of the partitions of a topic; a value that is None is a tombstone."""
    records: dict[str, list[dict[str, Any]]] = {
        f"orders-{partition}": [
            {
                "topic": "orders",
                "partition": partition,
                "offset": offset,
                "timestamp": 1795262400000,
                "timestampType": "CREATE_TIME",
                "value": None if value is None else base64.b64encode(json.dumps(value).encode()).decode(),
                "headers": [],
            }
            for offset, value in enumerate(values)
        ]
        for partition, values in enumerate(partitions)
    }
    return {"eventSource": source, "bootstrapServers": "b-1.kafka.us-east-1.amazonaws.com:9092", "records": records}


def names(answer: dict[str, Any]) -> list[Any]:
    """Return which records a batch reports as failed."""
    assert set(answer) == {"batchItemFailures"}
    assert all(set(each) == {"itemIdentifier"} for each in answer["batchItemFailures"])
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]
