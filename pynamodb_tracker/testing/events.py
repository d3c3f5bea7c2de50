"""Builds events as AWS delivers them to Lambda functions."""

import base64
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, get_args
from urllib.parse import quote_plus

from pynamodb_tracker.model.strict_json import dumps

Event = dict[str, Any]

_ACCOUNT = "123456789012"
_REGION = "us-east-1"
_TIME = "2026-11-21T12:00:00Z"
_MILLISECONDS = 1_795_262_400_000


def _arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{_REGION}:{_ACCOUNT}:{resource}"


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
    if source == "rest_api":
        return _rest_api_event(text, method, path, parameters, {name.title(): sent[name] for name in sent})
    lower = {name.lower(): value for name, value in sent.items()}
    if source == "load_balancer":
        context = {"elb": {"targetGroupArn": _arn("elasticloadbalancing", "targetgroup/group/49e9d65c45c6791a")}}
        request = {"httpMethod": method, "path": path, "queryStringParameters": {}, "headers": lower}
        return {"requestContext": context, **request, "body": text or "", "isBase64Encoded": False}
    route = "$default" if source == "function_url" else f"{method} {path}"
    http = {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": "curl/8.5.0"}
    ids = {"accountId": _ACCOUNT, "apiId": "r3pmxmplak", "requestId": "JKJaXmPLvHcESHA="}
    return {
        "version": "2.0",
        "routeKey": route,
        "rawPath": path,
        "rawQueryString": "",
        "headers": lower,
        "requestContext": {**ids, "http": http, "routeKey": route, "stage": "$default", "timeEpoch": _MILLISECONDS},
        "isBase64Encoded": False,
        **({"pathParameters": parameters} if parameters is not None and source == "http_api" else {}),
        **({} if text is None else {"body": text}),
    }


def _rest_api_event(
    body: str | None, method: str, path: str, parameters: dict[str, str] | None, headers: dict[str, str]
) -> Event:
    ids = {"accountId": _ACCOUNT, "apiId": "1234567890", "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"}
    request = {"httpMethod": method, "path": f"/prod{path}", "resourcePath": path, "protocol": "HTTP/1.1"}
    identity = {"sourceIp": "192.0.2.1", "userAgent": "curl/8.5.0"}
    return {
        "resource": path,
        "path": path,
        "httpMethod": method,
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": parameters,
        "stageVariables": None,
        "requestContext": {**ids, **request, "identity": identity, "stage": "prod"},
        "body": body,
        "isBase64Encoded": False,
    }


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
    times = {"SentTimestamp": str(_MILLISECONDS), "ApproximateFirstReceiveTimestamp": str(_MILLISECONDS + 1)}
    received = {"ApproximateReceiveCount": "1", "SenderId": "AIDAIENQZJOLO23YVJ4VO", **times}
    source = {"eventSource": "aws:sqs", "eventSourceARN": _arn("sqs", queue), "awsRegion": _REGION}
    orders = ({"MessageGroupId": name, "SequenceNumber": f"1884949675{at:010}"} for at, name in enumerate(groups, 1))
    records = [
        {
            "messageId": f"m-{number}",
            "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
            "body": _to_text(body),
            "attributes": {**received, **(order if fifo or group else {})},
            "messageAttributes": {},
            "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
            **source,
        }
        for number, (body, order) in enumerate(zip(bodies, orders, strict=True), 1)
    ]
    return {"Records": records}


def sns_event(message: object, *, topic: str = "topic") -> Event:
    """Return an SNS notification. Any message but text becomes JSON.

    https://docs.aws.amazon.com/lambda/latest/dg/with-sns.html

    Examples:
        >>> event = sns_event({"order_id": "o-1"})
    """
    notification: Event = {
        "Type": "Notification",
        "MessageId": "95df01b4-ee98-5cb9-9903-4c221d41eb5e",
        "TopicArn": _arn("sns", topic),
        "Subject": None,
        "Message": _to_text(message),
        "Timestamp": _TIME,
        "SignatureVersion": "1",
        "Signature": "tcc6faL2yUC6dgZdmrwh1Y4cGa/ebXEkAi6RibDsvpi+tE/1+82j",
        "SigningCertUrl": f"https://sns.{_REGION}.amazonaws.com/SimpleNotificationService.pem",
        "UnsubscribeUrl": f"https://sns.{_REGION}.amazonaws.com/?Action=Unsubscribe",
        "MessageAttributes": {},
    }
    subscription = _arn("sns", f"{topic}:21be56ed-a058-49f5-8c98-aedd2564c486")
    record = {"EventVersion": "1.0", "EventSubscriptionArn": subscription, "EventSource": "aws:sns"}
    return {"Records": [{**record, "Sns": notification}]}


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
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": _REGION,
        "eventTime": _TIME,
        "eventName": event_name,
        "userIdentity": {"principalId": "EXAMPLE"},
        "requestParameters": {"sourceIPAddress": "127.0.0.1"},
        "responseElements": {"x-amz-request-id": "EXAMPLE123456789", "x-amz-id-2": "EXAMPLE123/5678"},
    }
    owner = {"name": bucket, "ownerIdentity": {"principalId": "EXAMPLE"}, "arn": f"arn:aws:s3:::{bucket}"}
    about = {"s3SchemaVersion": "1.0", "configurationId": "orders", "bucket": owner}
    records = []
    for number, key in enumerate(keys, 1):
        written = {"size": 1024, "eTag": "0123456789abcdef0123456789abcdef", "sequencer": f"0A1B2C3D4E5F67{number:04}"}
        records.append({**record, "s3": {**about, "object": {"key": quote_plus(key), **written}}})
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
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": detail_type,
        "source": source,
        "account": _ACCOUNT,
        "time": _TIME,
        "region": _REGION,
        "resources": [],
        "detail": dict(detail),
    }


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
    record = {
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventName": "aws:kinesis:record",
        "invokeIdentityArn": f"arn:aws:iam::{_ACCOUNT}:role/lambda-role",
        "awsRegion": _REGION,
        "eventSourceARN": _arn("kinesis", f"stream/{stream}"),
    }
    about = {"kinesisSchemaVersion": "1.0", "partitionKey": partition_key}
    arrived = {"approximateArrivalTimestamp": _MILLISECONDS / 1000}
    records = [
        {
            **record,
            "eventID": f"shardId-000000000006:s-{number}",
            "kinesis": {**about, "sequenceNumber": f"s-{number}", "data": _to_base64(each), **arrived},
        }
        for number, each in enumerate(data, 1)
    ]
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
    encoded = ({name: _encode_value(value) for name, value in item.items()} for item in items)
    records = [
        {
            "eventID": f"{number:032x}",
            "eventVersion": "1.1",
            "eventName": event_name,
            "eventSource": "aws:dynamodb",
            "awsRegion": _REGION,
            "eventSourceARN": _arn("dynamodb", f"table/{table}/stream/2026-11-21T12:00:00.000"),
            "dynamodb": {
                "ApproximateCreationDateTime": _MILLISECONDS // 1000,
                "Keys": {name: item[name] for name in keys},
                image: item,
                "SequenceNumber": f"s-{number}",
                "SizeBytes": 26,
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        }
        for number, item in enumerate(encoded, 1)
    ]
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
    records: list[Event] = [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": _MILLISECONDS,
            "timestampType": "CREATE_TIME",
            "key": _to_base64(b"key"),
            "value": None if value is None else _to_base64(value),
            "headers": [],
        }
        for offset, value in enumerate(values)
    ]
    msk = {"eventSource": "aws:kafka", "eventSourceArn": _arn("kafka", "cluster/cluster/751d2973")}
    return {
        **({"eventSource": "SelfManagedKafka"} if self_managed else msk),
        "bootstrapServers": "b-1.cluster.kafka.us-east-1.amazonaws.com:9092",
        "records": {f"{topic}-{partition}": records},
    }
