"""Batches of SQS: each message is about one task, and the answer names those that have to be redelivered."""

import sys
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import ExecutionContext, TaskAlreadySucceededError, TaskNotFoundError
from pynamodb_tracker.aws_lambda import Replies, UnreadableEventError, handles
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import bare, fifo, kinesis, names, sqs
from tests.aws_lambda.shop import Context, Order, ready, ship, states
from tests.support.workers import raising

handler = handles(Order.ship, task_id="order_id")(ship)

BROKEN = {"broken": "no paper"}


def taking(clock: StoppedClock, seconds: float) -> Any:
    """Return a handler whose function takes that long."""

    def slow(ctx: ExecutionContext[Order], event: Any) -> None:
        ship(ctx, event)
        clock.advance(timedelta(seconds=seconds))

    return handles(Order.ship, task_id="order_id")(slow)


def test_only_what_failed_is_redelivered(context: Context) -> None:
    ready("o-1", "o-2", "o-3")
    assert names(handler(sqs(bare("o-1"), bare("o-2", **BROKEN), bare("o-3")), context)) == ["m-2"]
    assert states("o-1", "o-2", "o-3") == ["deliver pending", "ship failed", "deliver pending"]


@pytest.mark.parametrize(
    "error", [UnreadableEventError("no address"), TaskNotFoundError("no such customer", task_id="c-1")], ids=repr
)
def test_a_function_that_raises_an_error_of_the_library_fails_its_record(context: Context, error: Exception) -> None:
    ready("o-1", "o-2")
    ran: list[str] = []

    def broken(ctx: ExecutionContext[Order], _event: Any) -> None:
        ran.append(ctx.task.task_id)
        raise error

    answer = handles(Order.ship, task_id="order_id", create_if_missing=True)(broken)(
        sqs(bare("o-1"), bare("o-2")), context
    )
    assert (names(answer), ran) == (["m-1", "m-2"], ["o-1", "o-2"])
    assert states("o-1", "o-2") == ["ship failed"] * 2
    assert Order.get_task("o-1").errors[-1].type == type(error).__name__


def test_a_message_that_is_delivered_twice_is_acknowledged(context: Context) -> None:
    ready("o-1")
    assert names(handler(sqs(bare("o-1"), bare("o-1")), context)) == []


def test_a_task_that_is_locked_or_not_due_is_redelivered(context: Context) -> None:
    ready("o-1", "o-3")
    Order.create("o-2")
    with Order.ship.start("o-1"):
        answer = handler(sqs(bare("o-1"), bare("o-2"), bare("o-3"), bare("o-4")), context)
    assert names(answer) == ["m-1", "m-2", "m-4"]


def test_a_message_about_an_ignored_task_is_acknowledged(context: Context) -> None:
    ready("o-1", "o-2")
    Order.ship.ignore("o-1", reason="cancelled")
    first = handler(sqs(bare("o-1"), bare("o-2", **BROKEN)), context)
    last = handler(sqs(bare("o-2", **BROKEN)), context)
    assert (names(first), names(last)) == (["m-2"], [])
    assert states("o-1", "o-2") == ["ship ignored"] * 2


def test_ignored_tasks_can_be_sent_to_the_dead_letter_queue(context: Context) -> None:
    ready("o-1")
    Order.ship.ignore("o-1", reason="cancelled")
    careful = handles(Order.ship, task_id="order_id", replies=Replies(ignored="raise"))(ship)
    assert names(careful(sqs(bare("o-1")), context)) == ["m-1"]


@pytest.mark.parametrize("body", ["", "{", "o-1", "[]", "null", '"o-1"', "{}", '{"order_id": 1}', '{"order_id": ""}'])
def test_an_unreadable_message_is_redelivered_until_it_becomes_a_dead_letter(body: str, context: Context) -> None:
    ready("o-1")
    assert names(handler(sqs(body, bare("o-1")), context)) == ["m-1"]
    assert states("o-1") == ["deliver pending"]


def test_a_body_that_is_not_json_is_read_by_a_custom_payload(context: Context) -> None:
    ready("o-1")
    by_text = handles(Order.ship, task_id=str, payload=lambda record: record["body"])(lambda _ctx, _text: None)
    assert names(by_text(sqs("o-1"), context)) == []


def test_a_batch_of_another_kind_is_refused_as_a_whole(context: Context) -> None:
    only_sqs = handles(Order.ship, task_id="order_id", trigger="sqs")(ship)
    broken = sqs(bare("o-1"))
    del broken["Records"][0]["messageId"]
    for event in (bare("o-1"), {"Records": [{"eventSource": "aws:s3"}]}, broken, {"Records": [1]}):
        with pytest.raises(UnreadableEventError, match="not from the trigger 'sqs'"):
            only_sqs(event, context)
    assert names(only_sqs({"Records": []}, context)) == []


def test_after_the_first_failure_of_a_group_the_rest_of_it_is_left_in_its_order(context: Context) -> None:
    ready("a-1", "a-2", "b-1", "b-2")
    event = fifo(
        ("a", bare("a-1", **BROKEN)), ("b", bare("b-1")), ("a", bare("a-2")), ("c", "{"), ("b", bare("b-2")), ("c", "{")
    )
    assert names(handler(event, context)) == ["m-1", "m-3", "m-4", "m-6"]
    assert states("a-1", "a-2", "b-1", "b-2") == ["ship failed", "ship pending", "deliver pending", "deliver pending"]


def test_a_group_continues_after_a_message_that_is_acknowledged(context: Context) -> None:
    ready("a-1", "a-2")
    Order.ship.ignore("a-1", reason="cancelled")
    assert names(handler(fifo(("a", bare("a-1")), ("a", bare("a-2"))), context)) == []
    assert states("a-2") == ["deliver pending"]


def test_groups_of_a_standard_queue_keep_no_order(context: Context) -> None:
    ready("o-1", "o-2")
    event = sqs(bare("o-1", **BROKEN), bare("o-2"), MessageGroupId="tenant")
    assert names(handler(event, context)) == ["m-1"]


def test_no_message_is_begun_when_the_invocation_is_about_to_end(clock: StoppedClock) -> None:
    ready("o-1", "o-2", "o-3")
    slow = taking(clock, 2.2)
    answer = slow(sqs(bare("o-1"), bare("o-2"), bare("o-3")), Context(clock, 3))
    assert names(answer) == ["m-2", "m-3"]
    assert states("o-2", "o-3") == ["ship pending"] * 2
    assert Order.get_task("o-2").attempt == 0


def test_the_first_message_is_begun_however_short_the_invocation_is(clock: StoppedClock) -> None:
    ready("o-1", "o-2")
    assert names(handler(sqs(bare("o-1"), bare("o-2")), Context(clock, 0.9))) == ["m-2"]


def test_no_message_is_begun_that_would_not_end_if_it_takes_as_long_as_the_third_longest(clock: StoppedClock) -> None:
    ids = [f"o-{number}" for number in range(5)]
    ready(*ids)
    slow = taking(clock, 10)
    assert names(slow(sqs(*map(bare, ids)), Context(clock, 45))) == ["m-5"]


def test_one_message_that_was_frozen_says_nothing_about_the_others(clock: StoppedClock) -> None:
    ids = [f"o-{number}" for number in range(9)]
    ready(*ids)

    @handles(Order.ship, task_id="order_id")
    def frozen_once(ctx: ExecutionContext[Order], event: Any) -> None:
        ship(ctx, event)
        clock.advance(timedelta(seconds=15 if ctx.task.task_id in {"o-3", "o-4"} else 0.1))

    assert names(frozen_once(sqs(*map(bare, ids)), Context(clock, 35))) == []


def test_slow_messages_of_earlier_invocations_do_not_keep_the_first_of_the_next_waiting(clock: StoppedClock) -> None:
    ids = [f"o-{number}" for number in range(5)]
    ready(*ids)
    slow = taking(clock, 10)
    slow(sqs(*map(bare, ids[:3])), Context(clock, 60))
    assert names(slow(sqs(*map(bare, ids[3:])), Context(clock, 15))) == ["m-2"]


def test_the_lock_of_each_message_ends_with_the_invocation(clock: StoppedClock) -> None:
    ready("o-1", "o-2")
    begun, ends = clock.now(), []

    @handles(Order.ship, task_id="order_id")
    def slow(ctx: ExecutionContext[Order], _event: Any) -> None:
        ends.append(ctx.lock_expire_time - begun)
        clock.advance(timedelta(seconds=5))

    slow(sqs(bare("o-1"), bare("o-2")), Context(clock, 30))
    assert ends == [timedelta(seconds=31)] * 2


def test_an_error_of_the_table_leaves_other_messages_alone(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    ready("o-1", "o-2")
    start = Order.ship.start

    def starts(task_id: str, **more: Any) -> Any:
        if task_id == "o-1":
            raise OSError("no such host")
        return start(task_id, **more)

    monkeypatch.setattr(Order.ship, "start", starts)
    assert names(handler(sqs(bare("o-1"), bare("o-2")), context)) == ["m-1"]
    assert states("o-2") == ["deliver pending"]


def test_a_batch_may_report_what_succeeded_before(context: Context) -> None:
    Order.create("o-1", state=Order.ship.succeeded)
    strict = handles(Order.ship, task_id="order_id", replies=Replies(succeeded="raise"))(ship)
    assert names(strict(sqs(bare("o-1")), context)) == ["m-1"]
    with pytest.raises(TaskAlreadySucceededError):
        strict(bare("o-1"), context)


def test_a_record_whose_function_exits_does_not_keep_the_others_from_being_run(context: Context) -> None:
    ready("o-1", "o-2", "o-3")

    @handles(Order.ship, task_id="order_id")
    def exits(ctx: ExecutionContext[Order], _event: Any) -> None:
        if ctx.task.task_id == "o-1":
            sys.exit(3)
        if ctx.task.task_id == "o-2":
            raise UnreadableEventError("no size in it")

    assert names(exits(sqs(bare("o-1"), bare("o-2"), bare("o-3")), context)) == ["m-1", "m-2"]
    assert states("o-1", "o-2", "o-3") == ["ship failed", "ship failed", "deliver pending"]


def test_ctrl_c_ends_the_batch(context: Context) -> None:
    ready("o-1", "o-2")
    with pytest.raises(KeyboardInterrupt):
        handles(Order.ship, task_id="order_id")(raising(KeyboardInterrupt))(sqs(bare("o-1"), bare("o-2")), context)
    assert states("o-1", "o-2") == ["ship pending"] * 2


def test_a_queue_is_a_fifo_queue_by_the_end_of_its_name(context: Context) -> None:
    ready("o-2")
    event = sqs("{", bare("o-2"), MessageGroupId="a")
    for record in event["Records"]:
        record["eventSourceARN"] = "arn:aws:sqs:us-east-1:123456789012:myfifo"
    assert names(handler(event, context)) == ["m-1"]


def test_records_of_two_kinds_are_no_batch(context: Context) -> None:
    mixed = {"Records": [*sqs(bare("o-1"))["Records"], *kinesis(bare("o-2"))["Records"]]}
    with pytest.raises(UnreadableEventError):
        handler(mixed, context)
    with pytest.raises(UnreadableEventError):
        handler({"Records": [{"eventSource": "aws:kinesis", "kinesis": None}]}, context)


def test_a_message_is_begun_when_just_enough_time_is_left(clock: StoppedClock) -> None:
    ready("o-1", "o-2", "o-3")
    slow = taking(clock, 10)
    assert names(slow(sqs(bare("o-1"), bare("o-2"), bare("o-3")), Context(clock, 20))) == ["m-3"]


def test_a_task_may_be_started_by_an_invocation_that_is_past_its_end(clock: StoppedClock) -> None:
    ready("o-1")
    assert names(handler(sqs(bare("o-1")), Context(clock, -5))) == []
