"""Batches of Kinesis and of streams of tables: records are redelivered from the first failed one on."""

from typing import Any

import pytest

from pynamodb_tracker import ExecutionContext
from pynamodb_tracker.aws_lambda import UnreadableEventError, handles
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import bare, kinesis, names, stream
from tests.aws_lambda.shop import Broken, Context, Order, ready, ship, states
from tests.aws_lambda.test_batches import BROKEN

by_data = handles(Order.ship, task_id="order_id")(ship)


def test_the_data_of_kinesis_is_read_as_json(context: Context) -> None:
    ready("o-1", "o-2")
    assert names(by_data(kinesis(bare("o-1"), bare("o-2")), context)) == []
    assert states("o-1", "o-2") == ["deliver pending"] * 2


def test_the_first_failure_ends_the_batch_and_is_where_it_goes_on(context: Context) -> None:
    ready("o-1", "o-2", "o-3")
    assert names(by_data(kinesis(bare("o-1"), bare("o-2", **BROKEN), bare("o-3")), context)) == ["s-2"]
    assert states("o-1", "o-2", "o-3") == ["deliver pending", "ship failed", "ship pending"]


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b"{}"])
def test_data_that_cannot_be_read_is_where_a_batch_goes_on(data: bytes, context: Context) -> None:
    ready("o-1")
    assert names(by_data(kinesis(bare("o-1"), data), context)) == ["s-2"]
    assert states("o-1") == ["deliver pending"]


def test_data_that_is_no_base64_cannot_be_read(context: Context) -> None:
    event = kinesis(bare("o-1"))
    event["Records"][0]["kinesis"]["data"] = "!"
    assert names(by_data(event, context)) == ["s-1"]


def test_the_function_gets_the_record_of_a_table(context: Context) -> None:
    ready("o-1", "o-2")

    @handles(Order.ship, task_id="dynamodb.Keys.order_id.S")
    def by_change(ctx: ExecutionContext[Order], record: Any) -> None:
        ctx.task.amount = int(record["dynamodb"]["NewImage"]["amount"]["N"])
        if ctx.task.task_id == "o-2":
            raise Broken("no paper")

    assert names(by_change(stream("o-1", "o-2", "o-3"), context)) == ["s-2"]
    assert Order.get_task("o-1").amount == 4200


def test_records_for_which_no_time_is_left_are_redelivered(clock: StoppedClock) -> None:
    ready("o-1", "o-2", "o-3")
    assert names(by_data(kinesis(*map(bare, ("o-1", "o-2", "o-3"))), Context(clock, 0.9))) == ["s-2"]
    assert states("o-1", "o-2") == ["deliver pending", "ship pending"]


def test_a_stream_of_another_kind_is_refused(context: Context) -> None:
    handler = handles(Order.ship, task_id="order_id", trigger="kinesis")(ship)
    with pytest.raises(UnreadableEventError, match="not from the trigger 'kinesis'"):
        handler(stream("o-1"), context)


@pytest.mark.parametrize(
    ("event", "place"),
    [(kinesis(bare("o-1"), bare("o-2")), "order_id"), (stream("o-1", "o-2"), "dynamodb.Keys.order_id.S")],
    ids=["kinesis", "dynamodb"],
)
def test_what_is_ignored_keeps_no_stream_from_going_on(event: Any, place: str, context: Context) -> None:
    ready("o-1", "o-2")
    Order.ship.ignore("o-1", reason="cancelled")
    assert names(handles(Order.ship, task_id=place)(lambda _ctx, _record: None)(event, context)) == []
    assert states("o-2") == ["deliver pending"]
