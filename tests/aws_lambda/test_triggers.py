"""Events of S3, SNS and Kafka, of a stream's window, and where a payload has the task id."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from pynamodb_tracker import ExecutionContext, TrackerError
from pynamodb_tracker.aws_lambda import Replies, UnreadableEventError, handles, retry_handler
from pynamodb_tracker.testing import StoppedClock, dynamodb_event
from tests.aws_lambda.events import bare, kafka, kinesis, names, s3, sns, sqs
from tests.aws_lambda.shop import Broken, Context, Order, ready, ship, states
from tests.aws_lambda.test_batches import BROKEN

KEY = "Records.0.s3.object.key"

handler = handles(Order.ship, task_id="order_id")(ship)


def by_object(ctx: ExecutionContext[Order], event: Any) -> None:
    ctx.task.label = event["Records"][0]["s3"]["object"]["key"]
    if ctx.task.task_id.startswith("broken"):
        raise Broken("no paper")


@pytest.mark.parametrize("key", ["o-1", "orders/Größe 1+1=2%.json"])
def test_the_key_of_an_s3_object_is_decoded_as_task_id_and_left_alone_in_the_event(key: str, context: Context) -> None:
    ready(key)
    event = s3(key)
    handles(Order.ship, task_id=KEY)(by_object)(event, context)
    assert Order.get_task(key).state == Order.ship.succeeded
    assert Order.get_task(key).label == event["Records"][0]["s3"]["object"]["key"]


def test_every_record_of_an_s3_event_runs_its_task_and_one_failure_is_an_error(context: Context) -> None:
    ready("o-1", "broken", "o-3")
    by_key = handles(Order.ship, task_id=KEY)(by_object)
    with pytest.raises(Broken):
        by_key(s3("o-1", "broken", "o-3"), context)
    assert states("o-1", "broken", "o-3") == ["deliver pending", "ship failed", "deliver pending"]
    with pytest.raises(UnreadableEventError):
        by_key(s3("o-1", ""), context)


def test_a_notification_about_an_s3_object_may_come_through_a_queue(context: Context) -> None:
    ready("a b")
    assert names(handles(Order.ship, task_id=KEY)(by_object)(sqs(s3("a b")), context)) == []
    assert states("a b") == ["deliver pending"]


def test_the_message_of_a_notification_is_read_as_json(context: Context) -> None:
    ready("o-1")
    with pytest.raises(Broken):
        handler(sns(bare("o-1", **BROKEN)), context)
    assert handler(sns(bare("o-1")), context)["state"] == "deliver pending"
    with pytest.raises(UnreadableEventError):
        handler(sns("{"), context)


def test_an_ignored_task_is_no_error_to_s3_and_sns_which_would_only_deliver_again(context: Context) -> None:
    ready("o-1")
    Order.ship.ignore("o-1", reason="cancelled")
    assert handles(Order.ship, task_id=KEY)(by_object)(s3("o-1"), context)["state"] == "ship ignored"
    assert handler(sns(bare("o-1")), context)["state"] == "ship ignored"


@pytest.mark.parametrize("self_managed", [False, True])
def test_values_of_kafka_are_decoded_and_a_failure_has_the_whole_batch_redelivered(
    context: Context, *, self_managed: bool
) -> None:
    ready("o-1", "o-2", "o-3")
    event = kafka([bare("o-1"), bare("o-2", **BROKEN)], [bare("o-3")], self_managed=self_managed)
    with pytest.raises(TrackerError, match="1 of 3 records must be redelivered") as raised:
        handler(event, context)
    assert isinstance(raised.value.__cause__, Broken)
    assert states("o-1", "o-2", "o-3") == ["deliver pending", "ship failed", "deliver pending"]
    assert names(handler(kafka([bare("o-1"), bare("o-2")]), context)) == []


def test_a_report_of_kafka_names_the_rest_of_a_partition_in_its_order(context: Context) -> None:
    ready("o-1", "o-2", "o-3", "o-4")
    reports = handles(Order.ship, task_id="order_id", replies=Replies(batch="report"))(ship)
    answer = reports(kafka([bare("o-1", **BROKEN), bare("o-2")], [bare("o-3"), None, bare("o-4")]), context)
    assert names(answer) == [
        {"partition": "orders-0", "offset": 0},
        {"partition": "orders-0", "offset": 1},
        {"partition": "orders-1", "offset": 1},
        {"partition": "orders-1", "offset": 2},
    ]
    assert states("o-1", "o-2", "o-3", "o-4") == ["ship failed", "ship pending", "deliver pending", "ship pending"]


def test_a_batch_of_any_kind_may_raise_what_it_would_report(context: Context) -> None:
    ready("o-1")
    raises = handles(Order.ship, task_id="order_id", replies=Replies(batch="raise"))(ship)
    with pytest.raises(TrackerError, match="1 of 2 records must be redelivered") as raised:
        raises(sqs(bare("o-1"), "{"), context)
    assert isinstance(raised.value.__cause__, UnreadableEventError)
    assert names(raises(sqs(bare("o-1")), context)) == []


def test_a_window_that_ends_without_records_is_answered_with_its_state(context: Context) -> None:
    ready("o-1")
    window: dict[str, Any] = {
        "window": {"start": "2026-11-21T12:00:00Z", "end": "2026-11-21T12:05:00Z"},
        "state": {"seen": 2},
        "shardId": "shardId-000000000006",
        "eventSourceARN": kinesis(bare("o-1"))["Records"][0]["eventSourceARN"],
        "isFinalInvokeForWindow": True,
        "isWindowTerminatedEarly": False,
    }
    tables = "arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-11-21T12:00:00.000"

    assert handler({**window, "Records": []}, context) == {"batchItemFailures": [], "state": {"seen": 2}}
    assert handler({**window, "Records": [], "eventSourceARN": tables}, context)["state"] == {"seen": 2}
    answer = handler({**window, **kinesis(bare("o-1")), "isFinalInvokeForWindow": False}, context)
    assert answer == {"batchItemFailures": [], "state": {"seen": 2}}
    assert states("o-1") == ["deliver pending"]


def test_items_beside_tasks_are_acknowledged_in_the_stream_of_the_tasks_own_table(context: Context) -> None:
    ready("o-1")
    items = [("o-1", "order#data#A#0"), ("o-2", "#group#order"), ("o-1", "order"), ("o-3", "order")]
    event = dynamodb_event(
        *({"task_id": task_id, "use_case_id": range_key} for task_id, range_key in items),
        keys=["task_id", "use_case_id"],
    )
    own = handles(Order.ship, task_id="dynamodb.Keys.task_id.S")(lambda ctx, _: ctx.attempt)
    assert names(own(event, context)) == ["s-4"]
    assert states("o-1") == ["deliver pending"]
    assert names(own({"Records": event["Records"][:2]}, context)) == []


@pytest.mark.parametrize(
    "event",
    [
        {"eventSource": "aws:kafka", "records": {"orders-0": None}},
        {"eventSource": "aws:kafka", "records": {"orders-0": [{}]}},
        {"eventSource": "aws:mq", "records": {}},
        {"Records": [{"EventSource": "aws:sns"}]},
        {"Records": [{"eventSource": "aws:s3", "s3": {}}]},
        {"Records": [{"eventSource": "aws:dynamodb", "dynamodb": None}]},
        {"Records": [], "isFinalInvokeForWindow": True},
    ],
    ids=str,
)
def test_what_only_looks_like_such_an_event_cannot_be_read(event: Any, context: Context) -> None:
    with pytest.raises(UnreadableEventError):
        handler(event, context)


@pytest.mark.parametrize(("path", "found"), [("orders.1.id", "o-2"), ("orders.0.id", "o-1"), ("by_number.1", "o-3")])
def test_a_path_leads_through_lists_by_index(path: str, found: str, context: Context) -> None:
    ready(found)
    event = {"orders": [{"id": "o-1"}, {"id": "o-2"}], "by_number": {"1": "o-3"}}
    handles(Order.ship, task_id=path)(lambda _ctx, _event: None)(event, context)
    assert states(found) == ["deliver pending"]


@pytest.mark.parametrize("path", ["orders.2.id", "orders.-1.id", "orders.x.id"])
def test_a_list_has_no_entry_beyond_its_end_nor_by_name(path: str, context: Context) -> None:
    with pytest.raises(UnreadableEventError, match="in a list of length 2"):
        handles(Order.ship, task_id=path)(ship)({"orders": [{"id": "o-1"}, {"id": "o-2"}]}, context)


def test_a_number_for_a_task_id_says_what_to_write(context: Context) -> None:
    handler = handles(Order.ship, task_id="orders.0.id")(ship)
    with pytest.raises(UnreadableEventError) as refused:
        handler({"orders": [{"id": 5}]}, context)
    assert str(refused.value) == (
        "a task id is text of 1 to 1024 bytes, not an int: write task_id=lambda event: str(event['orders'][0]['id'])"
    )


def test_the_function_has_the_context_of_lambda(context: Context, clock: StoppedClock) -> None:
    ready("o-1", "o-2", "o-3")
    seen = []

    def look(ctx: ExecutionContext[Order], _event: object = None) -> None:
        seen.append(ctx.invocation)

    handles(Order.ship, task_id="order_id")(look)(sqs(bare("o-1")), context)
    retry_handler(Order.ship, look, limit=1)({}, Context(clock))
    Order.ship.run("o-3", look)
    assert seen[0] is context
    assert isinstance(seen[1], Context)
    assert seen[2] is None


@pytest.mark.parametrize("given", [1, 2])
def test_a_message_with_notifications_of_several_objects_is_refused_by_a_path_to_the_first_one(
    context: Context, given: int
) -> None:
    Order.create("o-1", state=Order.ship.pending)
    handler = handles(Order.ship, task_id="Records.0.s3.object.key")(lambda _ctx, _event: None)
    notifications = {"Records": [s3("o-1")["Records"][0]] * given}
    assert names(handler(sqs(notifications), context)) == ([] if given == 1 else ["m-1"])


def test_a_task_id_beside_notifications_is_read_however_many_they_are(context: Context) -> None:
    ready("o-1")
    assert names(handler(sqs({**s3("a", "b"), **bare("o-1")}), context)) == []


def test_only_the_key_of_an_s3_object_is_decoded(context: Context) -> None:
    ready("a+b%20c")
    assert names(handler(sqs(bare("a+b%20c")), context)) == []


@pytest.mark.parametrize("message", [[], {"Records": [{"s3": {"object": {"key": 5}}}]}], ids=str)
def test_a_message_without_the_key_of_an_s3_object_cannot_be_read(message: Any, context: Context) -> None:
    assert names(handles(Order.ship, task_id=KEY)(by_object)(sqs(message), context)) == ["m-1"]


def test_an_item_of_another_table_may_have_any_range_key(context: Context) -> None:
    ready("o-1")
    event = dynamodb_event({"order_id": "o-1", "use_case_id": "a#b"}, keys=["order_id", "use_case_id"], table="orders")
    handles(Order.ship, task_id="dynamodb.Keys.order_id.S")(lambda *_: None)(event, context)
    assert states("o-1") == ["deliver pending"]


def test_a_mock_as_the_context_is_like_none(clock: StoppedClock) -> None:  # noqa: ARG001 - the table is empty
    Order.create("o-1", state=Order.ship.pending)
    assert handles(Order.ship, task_id="order_id")(ship)(bare("o-1"), MagicMock())["state"] == "deliver pending"
    assert retry_handler(Order.deliver, lambda _: None)({}, MagicMock())["succeeded"] == 1
