"""Events about tasks that become due by themselves: by the end of others, or at their next occurrence."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import GiveUp, Repeat, TaskNotReadyError
from pynamodb_tracker.aws_lambda import Replies, handles
from pynamodb_tracker.clock import NEVER, stamp
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import bare, fifo, http_api, names, sqs
from tests.aws_lambda.shop import Context, Order, ready, ship
from tests.support.rows import change, park
from tests.support.workers import raising, succeed

handler = handles(Order.ship, task_id="order_id")(ship)


def test_a_message_whose_task_is_pending_again_after_its_success_is_done(context: Context) -> None:
    Order.create("o-1", state=Order.deliver.pending)

    def deliver(_ctx: object, _event: object) -> None:
        Order.create_or_merge("o-1")

    assert names(handles(Order.deliver, task_id="order_id")(deliver)(sqs(bare("o-1")), context)) == []
    assert Order.get_task("o-1").state == Order.confirm.pending


def repeats(task_id: str) -> None:
    change(Order, task_id, repeat={"S": '{"every":"3600"}'})


@pytest.mark.parametrize("event", [sqs(bare("o-1")), fifo(("g", bare("o-1")))], ids=["standard", "fifo"])
def test_a_message_about_a_task_that_waits_for_others_is_done(event: Any, context: Context) -> None:
    ready("o-1")
    park(Order, "o-1", 3)
    assert names(handler(event, context)) == []
    assert Order.get_task("o-1").attempt == 0
    asks_again = handles(Order.ship, task_id="order_id", replies=Replies(waits="raise"))(ship)
    assert names(asks_again(event, context)) == ["m-1"]


def test_a_message_about_a_task_that_waits_for_a_signal_is_done(context: Context) -> None:
    ready("o-1")
    change(Order, "o-1", awaited_signals={"SS": ["paid"]}, due_time={"S": stamp(NEVER)})
    assert names(handler(sqs(bare("o-1")), context)) == []


def test_a_message_about_a_task_that_repeats_is_done_until_its_next_occurrence(
    clock: StoppedClock, context: Context
) -> None:
    Order.create("o-1", state=Order.ship.pending, due_time=clock.now() + timedelta(days=1))
    repeats("o-1")
    assert names(handler(sqs(bare("o-1")), context)) == []


def test_a_message_about_a_failed_task_that_repeats_is_redelivered(clock: StoppedClock, context: Context) -> None:
    Order.create("o-1", state=Order.ship.failed, due_time=clock.now() + timedelta(minutes=1))
    repeats("o-1")
    assert names(handler(sqs(bare("o-1")), context)) == ["m-1"]


def test_a_caller_learns_that_a_task_waits_and_when_to_try_again_if_ever(clock: StoppedClock, context: Context) -> None:
    ready("o-1", "o-2")
    park(Order, "o-1", 3)
    park(Order, "o-2", 3, until=clock.now() + timedelta(minutes=2))
    with pytest.raises(TaskNotReadyError, match="waits for 3 tasks"):
        handler(bare("o-1"), context)
    by_http = handles(Order.ship, task_id="body.order_id")(ship)
    answers = [by_http(http_api(bare(task_id)), context) for task_id in ("o-1", "o-2")]
    assert [(each["statusCode"], each["headers"].get("retry-after")) for each in answers] == [(409, None), (409, "120")]
    assert '"error": "waits"' in answers[0]["body"]


def test_a_client_gets_the_next_occurrence_of_a_task_that_gave_up_this_one(context: Context) -> None:
    Order.create("o-1", repeat=Repeat.every(timedelta(hours=1)))
    succeed(Order.confirm, "o-1")
    give_up = handles(Order.ship, task_id="body.order_id")(raising(GiveUp("no paper")))
    assert give_up(http_api(bare("o-1")), context)["headers"]["retry-after"] == "3600"
