"""A handler while its step is paused: the task is there, it is not claimed, and each trigger gets its result."""

from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from pynamodb_tracker import PayloadMismatchError, StepPausedError, TaskNotFoundError
from pynamodb_tracker.aws_lambda import Replies, UnreadableEventError, handles, retry_handler
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.control import watch
from pynamodb_tracker.testing import StoppedClock, http_event
from tests.aws_lambda.events import bare, fifo, kafka, names, sqs
from tests.aws_lambda.shop import Context, Order, ShopTask, ready, ship
from tests.aws_lambda.test_every_trigger import TRIGGERS
from tests.support.recorder import recorded

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def controlled(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - there is a table
    monkeypatch.setattr(Order.use_case_id, "pausable", True)
    Order.confirm.pause(until=HOUR, reason="the bank is down", by="ada")


def once(where: Any = "order_id", **options: Any) -> Any:
    return handles(Order.confirm, task_id=where, create_if_missing=True, **options)(ship)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_the_task_is_created_but_not_run_and_the_trigger_gets_its_answer(trigger: Any, context: Context) -> None:
    where, event = TRIGGERS[trigger]
    handler = once(where, trigger=trigger)
    if trigger == "direct":
        with pytest.raises(
            StepPausedError, match=r"start confirm of Order 'o-1': confirm is paused until .* bank"
        ) as raised:
            handler(event, context)
        assert (raised.value.until, raised.value.task and raised.value.task.task_id) == (Order.pauses()[0].until, "o-1")
    elif trigger == "kafka":
        with pytest.raises(Exception, match="1 of 1 records must be redelivered"):
            handler(event, context)
    else:
        result = handler(event, context)
        if trigger == "http":
            assert (result["statusCode"], result["headers"]["retry-after"]) == (503, "60")
        elif "batchItemFailures" in result:
            assert len(result["batchItemFailures"]) == (trigger != "sqs")
    task = Order.get_task("o-1")
    assert (task.state, task.fence, task.attempt) == (Order.confirm.pending, 0, 0)


def test_by_default_only_a_schedule_asks_for_pauses(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order.use_case_id, "pausable", None)
    Order.create_many(["o-1", "o-2"])
    with recorded(ShopTask) as requests:
        once()(sqs(bare("o-1")), context)
    assert "GetItem" not in requests.operations
    assert Order.get_task("o-1").state == Order.ship.pending
    assert retry_handler(Order.confirm, lambda _: None)({}, context)["paused"]


def test_after_the_pause_a_schedule_runs_what_came_meanwhile(context: Context, clock: StoppedClock) -> None:
    once()(sqs(bare("o-1"), bare("o-2")), context)
    schedule = retry_handler(Order.confirm, lambda _: None)
    found = schedule({}, context)
    assert (found["succeeded"], found["out_of_time"], found["paused"]) == (0, False, True)
    clock.advance(HOUR)
    found = schedule({}, Context(clock))
    assert (found["succeeded"], found["paused"]) == (2, False)


def test_a_schedule_pauses_one_step_and_sends_no_message_about_it(context: Context) -> None:
    Order.create("o-1")
    Order.create("o-2", state=Order.ship.pending)
    with mock.patch.object(Order.confirm, "function", print), mock.patch.object(Order.ship, "function", print):
        found = retry_handler([Order.confirm, Order.ship])({}, context)
    assert (found["succeeded"], found["paused"]) == (1, True)
    with mock.patch.object(Queue, "send") as send:
        found = retry_handler(Order.confirm, queue_url="https://sqs.us-east-1.amazonaws.com/1/q")({}, context)
    assert (found["sent"], found["paused"], send.called) == (0, True, False)


def test_a_schedule_that_runs_starts_nothing_of_a_step_that_is_paused_meanwhile(clock: StoppedClock) -> None:
    Order.create_many(f"o-{number}" for number in range(3))
    Order.create_many({"task_id": f"s-{number}", "state": Order.ship.pending} for number in range(3))
    Order.confirm.resume()

    def work(_ctx: Any) -> None:
        Order.confirm.pause(until=None, reason="")
        clock.advance(timedelta(seconds=5))

    with mock.patch.object(Order.confirm, "function", work), mock.patch.object(Order.ship, "function", print):
        found = retry_handler([Order.confirm, Order.ship])({}, None)
    assert Order.confirm.pending.count() == 2
    assert (found["succeeded"], found["paused"]) == (5, True)


def test_a_queue_that_keeps_an_order_gets_the_record_again(context: Context) -> None:
    assert names(once()(fifo(("a", bare("o-1")), ("a", bare("o-2")), ("b", bare("o-3"))), context)) == [
        "m-1",
        "m-2",
        "m-3",
    ]
    with pytest.raises(ValueError, match=r'Replies\(paused="ack"\) breaks the order'):
        once(replies=Replies(paused="ack"))(fifo(("a", bare("o-1"))), context)


def test_a_repeated_message_is_handed_on_during_a_pause(context: Context) -> None:
    ready("o-1")
    with mock.patch.object(Queue, "send_one", return_value=None) as send:
        once(next_queue_url="https://sqs.us-east-1.amazonaws.com/1/next")(sqs(bare("o-1")), context)
    assert send.called


def test_kafka_records_may_be_acknowledged_during_a_pause(context: Context) -> None:
    acknowledging = once(replies=Replies(paused="ack"))
    assert names(acknowledging(kafka([bare("o-1"), bare("o-2")]), context)) == []


def test_a_task_that_has_passed_the_step_or_cannot_be_started_is_answered_as_ever(context: Context) -> None:
    Order.create("o-1")
    Order.confirm.run("o-1", lambda _: {"label": "L-1"}, store_result=True, must_match={"size": 1})
    handler = once(store_result=True, must_match="size")
    assert handler(bare("o-1", size=1), context) == {"label": "L-1"}
    with pytest.raises(PayloadMismatchError):
        handler(bare("o-1", size=2), context)
    with pytest.raises(TaskNotFoundError):
        handles(Order.confirm, task_id="order_id")(ship)(bare("o-2"), context)
    broken = handles(Order.confirm, task_id="order_id", create_if_missing=lambda _: {"amount": "much"})(ship)
    with pytest.raises(UnreadableEventError):
        broken(bare("o-3"), context)


def test_a_task_that_is_created_meanwhile_takes_no_other_payload(context: Context, clock: StoppedClock) -> None:
    handler = once(store_result=True, must_match="body.size", trigger="http", where="body.order_id")
    codes = [handler(http_event(bare("o-1", size=size)), context)["statusCode"] for size in (1, 2, 1)]
    clock.advance(HOUR)
    codes += [handler(http_event(bare("o-1", size=size)), Context(clock))["statusCode"] for size in (2, 1)]
    assert codes == [503, 422, 503, 422, 200]


@pytest.mark.parametrize(("given", "kept"), [(None, ["m-1"]), ("ack", [])])
def test_a_message_that_alone_starts_the_step_again_stays_in_its_queue(
    context: Context, monkeypatch: pytest.MonkeyPatch, given: Any, kept: list[str]
) -> None:
    Order.create("o-1", state=Order.ship.pending)
    monkeypatch.setattr(Order.confirm._definition, "also_from", {Order.ship.pending.code})
    result = once(replies=Replies(paused=given))(sqs(bare("o-1"), bare("o-3")), context)
    assert names(result) == kept, "the schedule finds o-3 alone"
    told = once("body.order_id")(http_event(bare("o-1")), context)
    assert (told["statusCode"], told["headers"]["retry-after"]) == (503, "60")


def test_a_paused_event_about_a_task_that_is_there_costs_one_read(context: Context) -> None:
    Order.create("o-1")
    handler = once(trigger="async")
    handler(bare("o-1"), context)
    with recorded(ShopTask) as requests:
        handler(bare("o-1"), context)
    assert requests.operations == ["GetItem"]
    Order.confirm.resume()
    watch._known.forget()
    with recorded(ShopTask) as requests:
        handler(bare("o-4"), context)
    assert requests.operations == ["GetItem", "UpdateItem", "PutItem", "UpdateItem"]
