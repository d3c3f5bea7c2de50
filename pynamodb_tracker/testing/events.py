"""Builds events as AWS delivers them to Lambda functions."""

import base64
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import quote_plus

from pynamodb_tracker.model.strict_json import dumps

Event = dict[str, Any]

_SAMPLES = Path(__file__).with_name("events.json")
_ARN = "arn:aws:{}:us-east-1:123456789012:{}"


def _sample(name: str) -> Event:
    """Return what all events or records of this kind contain."""
    found: Event = json.loads(_SAMPLES.read_text(encoding="utf-8"))[name]
    return found


def _to_text(content: object) -> str:
    return content if isinstance(content, str) else dumps(content)


def _to_base64(content: object) -> str:
    return base64.b64encode(content if isinstance(content, bytes) else dumps(content).encode()).decode()


HttpSource = Literal["http_api", "rest_api", "function_url", "load_balancer"]


def http_event(
    body: object = None,
    *,
    source: HttpSource = "http_api",
    method: str = "POST",
    path: str = "/",
    path_parameters: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Event:
    """Return an HTTP request to a Lambda function.

    https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html

    Args:
        body: The request body. Anything but text becomes JSON, with its content type.
        source: An HTTP API or a function URL (format 2.0), a REST API (1.0), or a load balancer.
        method: The HTTP method.
        path: The URL path.
        path_parameters: The API's path parameters. Function URLs and load balancers have none.
        headers: More headers. All sources but a REST API turn their names into lower case.

    Examples:
        >>> event = http_event({"order_id": "o-1"}, headers={"idempotency-key": "k-1"})
    """
    if source not in (known := get_args(HttpSource)):
        raise ValueError(f"source is one of {', '.join(map(repr, known))}, not {source!r}")
    content = {} if body is None or isinstance(body, str) else {"content-type": "application/json"}
    sent = {"host": "api.example.com", **content, **(headers or {})}
    text = None if body is None else _to_text(body)
    parameters = None if path_parameters is None else dict(path_parameters)
    event = _sample("http_api" if source == "function_url" else source)
    if source == "rest_api":
        named = {name.title(): value for name, value in sent.items()}
        lists = {name: [value] for name, value in named.items()}
        event["requestContext"] |= {"httpMethod": method, "path": f"/prod{path}", "resourcePath": path}
        event |= {"resource": path, "path": path, "httpMethod": method, "headers": named, "multiValueHeaders": lists}
        return {**event, "pathParameters": parameters, "body": text}
    lower = {name.lower(): value for name, value in sent.items()}
    if source == "load_balancer":
        return {**event, "httpMethod": method, "path": path, "headers": lower, "body": text or ""}
    route = "$default" if source == "function_url" else f"{method} {path}"
    event |= {"routeKey": route, "rawPath": path, "headers": lower}
    event["requestContext"]["routeKey"] = route
    event["requestContext"]["http"] |= {"method": method, "path": path}
    if parameters is not None and source == "http_api":
        event["pathParameters"] = parameters
    return event if text is None else {**event, "body": text}


def sqs_event(*bodies: object, queue: str = "queue", group: str | Sequence[str] | None = None) -> Event:
    """Return SQS messages with the ids "m-1", "m-2" and so on.

    https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html

    Args:
        bodies: The message bodies. Anything but text becomes JSON.
        queue: The queue name. With the suffix ".fifo", all messages have a group.
        group: The message group, or one per message.

    Examples:
        >>> event = sqs_event({"order_id": "o-1"}, {"order_id": "o-2"})
    """
    fifo = queue.endswith(".fifo")
    groups = [group or "group"] * len(bodies) if isinstance(group, str | None) else group
    if len(groups) != len(bodies):
        raise ValueError(f"group has {len(groups)} message groups for {len(bodies)} messages")
    records = []
    for number, (body, name) in enumerate(zip(bodies, groups, strict=True), 1):
        record = _sample("sqs") | {"messageId": f"m-{number}", "body": _to_text(body)}
        record["eventSourceARN"] = _ARN.format("sqs", queue)
        if fifo or group:
            record["attributes"] |= {"MessageGroupId": name, "SequenceNumber": f"1884949675{number:010}"}
        records.append(record)
    return {"Records": records}


def sns_event(message: object, *, topic: str = "topic") -> Event:
    """Return an SNS notification. Any message but text becomes JSON.

    https://docs.aws.amazon.com/lambda/latest/dg/with-sns.html

    Examples:
        >>> event = sns_event({"order_id": "o-1"})
    """
    record = _sample("sns")
    record["EventSubscriptionArn"] = _ARN.format("sns", f"{topic}:21be56ed-a058-49f5-8c98-aedd2564c486")
    record["Sns"] |= {"TopicArn": _ARN.format("sns", topic), "Message": _to_text(message)}
    return {"Records": [record]}


def s3_event(*keys: str, bucket: str = "bucket", event_name: str = "ObjectCreated:Put") -> Event:
    """Return S3 notifications about objects.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html

    Args:
        keys: The object keys, which get URL-encoded as in S3.
        bucket: The bucket name.
        event_name: The kind of change, such as "ObjectRemoved:Delete".

    Examples:
        >>> event = s3_event("scans/o-1.pdf")
    """
    records = []
    for number, key in enumerate(keys, 1):
        record = _sample("s3") | {"eventName": event_name}
        record["s3"]["bucket"] |= {"name": bucket, "arn": f"arn:aws:s3:::{bucket}"}
        record["s3"]["object"] |= {"key": quote_plus(key), "sequencer": f"0A1B2C3D4E5F67{number:04}"}
        records.append(record)
    return {"Records": records}


def eventbridge_event(detail: Mapping[str, Any], *, source: str = "source", detail_type: str = "detail-type") -> Event:
    """Return an EventBridge event.

    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-events-structure.html

    Args:
        detail: The event's contents.
        source: The program that sends it.
        detail_type: The kind of event, which rules match.

    Examples:
        >>> event = eventbridge_event({"order_id": "o-1"}, detail_type="order placed")
    """
    return _sample("eventbridge") | {"detail-type": detail_type, "source": source, "detail": dict(detail)}


def kinesis_event(*data: object, stream: str = "stream", partition_key: str = "key") -> Event:
    """Return Kinesis records with the sequence numbers "s-1", "s-2" and so on.

    https://docs.aws.amazon.com/lambda/latest/dg/with-kinesis.html

    Args:
        data: The records' contents. Anything but bytes becomes JSON.
        stream: The stream name.
        partition_key: All records' partition key.

    Examples:
        >>> event = kinesis_event({"order_id": "o-1"})
    """
    records = []
    for number, each in enumerate(data, 1):
        record = _sample("kinesis") | {"eventID": f"shardId-000000000006:s-{number}"}
        record["eventSourceARN"] = _ARN.format("kinesis", f"stream/{stream}")
        about = {"partitionKey": partition_key, "sequenceNumber": f"s-{number}", "data": _to_base64(each)}
        record["kinesis"] |= about
        records.append(record)
    return {"Records": records}


def dynamodb_event(
    *items: Mapping[str, Any], keys: Sequence[str], table: str = "table", event_name: str = "INSERT"
) -> Event:
    """Return DynamoDB stream records with the sequence numbers "s-1", "s-2" and so on.

    https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html

    Args:
        items: Plain items, which are the old images for "REMOVE", and otherwise the new ones.
        keys: The names of the table's key attributes.
        table: The table name.
        event_name: "INSERT", "MODIFY" or "REMOVE".

    Examples:
        >>> event = dynamodb_event({"order_id": "o-1"}, keys=("order_id",))
    """
    if isinstance(keys, str) or not all(name in item for item in items for name in keys):
        raise ValueError(f'keys must name key attributes that each item has, as in ("order_id",), not {keys!r}')
    image = "OldImage" if event_name == "REMOVE" else "NewImage"
    records = []
    for number, item in enumerate(items, 1):
        encoded = {name: _encode_value(value) for name, value in item.items()}
        record = _sample("dynamodb") | {"eventID": f"{number:032x}", "eventName": event_name}
        record["eventSourceARN"] = _ARN.format("dynamodb", f"table/{table}/stream/2026-11-21T12:00:00.000")
        record["dynamodb"] |= {"Keys": {name: encoded[name] for name in keys}, image: encoded}
        record["dynamodb"]["SequenceNumber"] = f"s-{number}"
        records.append(record)
    return {"Records": records}


def _encode_value(value: object) -> dict[str, Any]:
    if value is None or isinstance(value, bool):
        return {"NULL": True} if value is None else {"BOOL": value}
    if isinstance(value, int | float | Decimal):
        return {"N": str(value)}
    if isinstance(value, bytes):
        return {"B": _to_base64(value)}
    if isinstance(value, Mapping):
        return {"M": {name: _encode_value(each) for name, each in value.items()}}
    if isinstance(value, list | tuple):
        return {"L": [_encode_value(each) for each in value]}
    if isinstance(value, str):
        return {"S": value}
    raise TypeError(f"an item's value is text, a number, bytes, a list, a mapping, True, False or None, not {value!r}")


def kafka_event(*values: object, topic: str = "topic", partition: int = 0, self_managed: bool = False) -> Event:
    """Return records in one partition of a Kafka topic, with the offsets 0, 1 and so on.

    https://docs.aws.amazon.com/lambda/latest/dg/with-msk.html

    Args:
        values: The records' values. Anything but bytes becomes JSON, and None is a tombstone.
        topic: The topic name.
        partition: The partition number.
        self_managed: Whether the cluster is your own instead of Amazon MSK's.

    Examples:
        >>> event = kafka_event({"order_id": "o-1"})
    """
    place = {"topic": topic, "partition": partition}
    records = [
        {**_sample("kafka"), **place, "offset": offset, "value": None if value is None else _to_base64(value)}
        for offset, value in enumerate(values)
    ]
    msk = {"eventSource": "aws:kafka", "eventSourceArn": _ARN.format("kafka", "cluster/cluster/751d2973")}
    return {
        **({"eventSource": "SelfManagedKafka"} if self_managed else msk),
        "bootstrapServers": "b-1.cluster.kafka.us-east-1.amazonaws.com:9092",
        "records": {f"{topic}-{partition}": records},
    }
