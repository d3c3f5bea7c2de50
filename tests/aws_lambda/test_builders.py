"""The builders of events: what they return is read by the data classes of Powertools as well."""

import json
from decimal import Decimal
from typing import Any, cast

import pytest
from aws_lambda_powertools.utilities.data_classes import (
    DynamoDBStreamEvent,
    EventBridgeEvent,
    KafkaEvent,
    KinesisStreamEvent,
    S3Event,
    SNSEvent,
    SQSEvent,
)

from pynamodb_tracker import testing
from pynamodb_tracker.aws_lambda.trigger import trigger_of

EVENTS: dict[str, dict[str, Any]] = {
    "sqs": testing.sqs_event({"order_id": "o-1"}, "o-2"),
    "sns": testing.sns_event({"order_id": "o-1"}),
    "s3": testing.s3_event("a b/ä.json"),
    "eventbridge": testing.eventbridge_event({"order_id": "o-1"}),
    "kinesis": testing.kinesis_event({"order_id": "o-1"}, b"o-2"),
    "dynamodb": testing.dynamodb_event({"order_id": "o-1"}, keys=["order_id"]),
    "kafka": testing.kafka_event({"order_id": "o-1"}, None, b"o-2"),
}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_is_one_of_its_trigger_and_can_be_sent_as_json(name: str) -> None:
    event = EVENTS[name]
    assert trigger_of(event).name == name
    assert json.loads(json.dumps(event)) == event
    assert trigger_of(event).records(event)


def test_powertools_reads_the_same_contents() -> None:
    [first, second] = SQSEvent(EVENTS["sqs"]).records
    assert (first.json_body, second.body, first.message_id) == ({"order_id": "o-1"}, "o-2", "m-1")
    assert SNSEvent(EVENTS["sns"]).sns_message == '{"order_id": "o-1"}'
    assert (S3Event(EVENTS["s3"]).object_key, S3Event(EVENTS["s3"]).bucket_name) == ("a b/ä.json", "bucket")
    assert EventBridgeEvent(EVENTS["eventbridge"]).detail == {"order_id": "o-1"}
    [json_data, raw] = KinesisStreamEvent(EVENTS["kinesis"]).records
    assert (json_data.kinesis.data_as_json(), raw.kinesis.data_as_bytes()) == ({"order_id": "o-1"}, b"o-2")
    [value, *_] = KafkaEvent(EVENTS["kafka"]).records
    assert (value.json_value, value.topic, value.offset) == ({"order_id": "o-1"}, "topic", 0)


def test_an_item_of_a_stream_is_in_the_form_of_dynamodb() -> None:
    item = {
        "order_id": "o-1",
        "amount": Decimal("3.10"),
        "paid": True,
        "note": None,
        "lines": [{"size": 5}],
        "raw": b"x",
    }

    [new] = DynamoDBStreamEvent(testing.dynamodb_event(item, keys=["order_id"])).records
    [old] = DynamoDBStreamEvent(testing.dynamodb_event(item, keys=["order_id"], event_name="REMOVE")).records

    assert new.dynamodb is not None
    assert old.dynamodb is not None
    assert (new.dynamodb.keys, new.dynamodb.old_image) == ({"order_id": "o-1"}, {})
    assert new.dynamodb.new_image == old.dynamodb.old_image == {**item, "raw": "eA=="}
    with pytest.raises(TypeError, match="an item's value is text"):
        testing.dynamodb_event({"order_id": object()}, keys=["order_id"])
    with pytest.raises(ValueError, match=r"keys must name key attributes.*not 'order_id'"):
        testing.dynamodb_event(item, keys="order_id")


def test_a_function_url_and_a_load_balancer_have_no_path_parameters() -> None:
    for source in ("function_url", "load_balancer"):
        assert "pathParameters" not in testing.http_event(source=source, path_parameters={"id": "o-1"})


def test_messages_of_a_fifo_queue_have_their_groups() -> None:
    one = testing.sqs_event("a", "b", queue="orders.fifo")["Records"]
    each = testing.sqs_event("a", "b", queue="orders.fifo", group=["x", "y"])["Records"]
    assert [record["attributes"]["MessageGroupId"] for record in one] == ["group", "group"]
    assert [record["attributes"]["MessageGroupId"] for record in each] == ["x", "y"]
    assert "MessageGroupId" not in EVENTS["sqs"]["Records"][0]["attributes"]
    with pytest.raises(ValueError, match="group has 2 message groups for 1 messages"):
        testing.sqs_event("a", queue="orders.fifo", group=["x", "y"])


def test_an_unknown_source_of_a_request_is_refused() -> None:
    with pytest.raises(ValueError, match="source is one of 'http_api'"):
        testing.http_event(source=cast("Any", "alb"))
