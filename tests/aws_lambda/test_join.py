"""A task that waits for others, in functions that queues and a schedule invoke."""

from typing import Any

import pytest

from pynamodb_tracker import ExecutionContext, Step, TaskAlreadyExistsError, UseCase
from pynamodb_tracker.aws_lambda import handles, retry_handler
from tests.aws_lambda.events import bare, names, sqs
from tests.aws_lambda.shop import Context, Order, ShopTask, ready
from tests.aws_lambda.test_retry import NOTHING, SCHEDULE


class Parcel(ShopTask):
    use_case_id = UseCase("parcel of an order")

    send = Step(10)


PARCELS = ["o-1/0", "o-1/1"]


def split(ctx: ExecutionContext[Order], _event: Any) -> str:
    for task_id in PARCELS:
        ctx.create(Parcel, task_id, wait=True)
    return "split"


def deliver(ctx: ExecutionContext[Order]) -> None:
    ctx.task.label = "delivered"


splits = handles(Order.ship, task_id="order_id", store_result=True)(split)
packs = handles(Parcel.send, task_id="order_id")(lambda _ctx, _event: None)
delivers = handles(Order.deliver, task_id="order_id")(lambda ctx, _: deliver(ctx))


def test_the_message_of_the_waiting_step_is_done_and_the_schedule_starts_it_once_the_others_have_ended(
    context: Context,
) -> None:
    ready("o-1")
    assert splits(bare("o-1"), context) == "split"
    assert splits(bare("o-1"), context) == "split"  # delivered again
    assert names(delivers(sqs(bare("o-1")), context)) == []
    assert retry_handler(Order.deliver, deliver)(SCHEDULE, context) == NOTHING
    assert names(packs(sqs(*map(bare, PARCELS)), context)) == []
    assert retry_handler(Order.deliver, deliver)(SCHEDULE, context) == {**NOTHING, "succeeded": 1}
    assert Order.get_task("o-1").label == "delivered"


def test_a_task_to_create_that_another_one_has_created_fails_the_record(context: Context) -> None:
    ready("o-1")
    Parcel.create("o-1/1")
    with pytest.raises(TaskAlreadyExistsError):
        splits(bare("o-1"), context)
    assert Order.get_task("o-1").state == Order.ship.failed
