"""New tasks of a batch are in the table before the batch can die, or has no time left for them."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import PutError

from pynamodb_tracker import ExecutionContext, Step, UseCase
from pynamodb_tracker.aws_lambda import handles, retry_handler
from pynamodb_tracker.step.definition import StepDefinition
from pynamodb_tracker.testing import StoppedClock, kinesis_event
from tests.aws_lambda.events import bare, fifo, names, sqs
from tests.aws_lambda.shop import Context, Order, ShopTask, ship
from tests.aws_lambda.test_retry import NOTHING, SCHEDULE
from tests.engine.engine import Engine
from tests.support.engines import Dynoxide
from tests.support.recorder import recorded
from tests.support.workers import raising

IDS = [f"o-{number}" for number in range(1, 6)]


class Receipt(ShopTask):
    use_case_id = UseCase("receipt", keep_for=timedelta(days=1))

    send = Step(10)


class KilledError(BaseException):
    """Stands for a function that is killed: nothing of the batch happens after it."""


def known(*task_ids: str) -> list[str]:
    return [task.task_id for task in Order.get_many(task_ids)]


def test_tasks_for_which_no_time_is_left_are_created_and_a_schedule_runs_them(
    clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    @handles(Order.confirm, task_id="order_id", create_if_missing=lambda event: {"amount": event["amount"]})
    def slow(ctx: ExecutionContext[Order], event: Any) -> None:
        ship(ctx, event)
        clock.advance(timedelta(seconds=10))

    event = sqs(*(bare(task_id, amount=7) for task_id in IDS), "{")
    assert names(slow(event, Context(clock, 35))) == ["m-4", "m-5", "m-6"]
    assert "no time left for 3 records from m-4 on: they will be redelivered. 2 of their tasks were" in caplog.text
    assert [(task.task_id, task.state, task.amount) for task in Order.get_many(IDS[3:])] == [
        ("o-4", Order.confirm.pending, 7),
        ("o-5", Order.confirm.pending, 7),
    ]
    assert retry_handler(Order.confirm, lambda _: None)(SCHEDULE, Context(clock)) == {**NOTHING, "succeeded": 2}


def test_all_tasks_of_a_batch_are_there_when_its_first_block_begins(context: Context) -> None:
    seen = list[list[str]]()

    @handles(Order.confirm, task_id="order_id", create_if_missing=True, create_first=True)
    def dies(_ctx: ExecutionContext[Order], _event: Any) -> None:
        seen.append(known(*IDS))
        raise KilledError

    with pytest.raises(KilledError):
        dies(sqs(*map(bare, IDS)), context)
    assert seen == [IDS]


def test_the_tasks_of_a_batch_are_created_by_one_request(
    stopped_clock: StoppedClock, dynamodb: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pynamodb_tracker.dynamodb.write_batcher._LONGEST_WAIT", 60)
    first = handles(Order.confirm, task_id="order_id", create_if_missing=True, create_first=True)(ship)
    with Dynoxide.of([ShopTask], dynamodb.endpoint):
        Order.create_many(["a", "b"], threads=2)  # the first batch of a process asks what the engine can do
        with recorded(ShopTask) as requests:
            first(sqs(*map(bare, IDS)), Context(stopped_clock))
    assert Counter(requests.operations) == {"BatchExecuteStatement": 1, "UpdateItem": 5 + 5}, "5 claims and 5 ends"


def test_tasks_that_exist_and_messages_that_cannot_be_read_are_left_to_their_turn(context: Context) -> None:
    Order.create("o-2", amount=1)
    first = handles(Order.confirm, task_id="order_id", create_if_missing=lambda _: {"amount": 2}, create_first=True)
    assert names(first(ship)(sqs(bare("o-1"), "{", {"order": "?"}, bare("o-2")), context)) == ["m-2", "m-3"]
    assert [task.amount for task in Order.get_many(["o-1", "o-2"])] == [2, 1]


@pytest.mark.parametrize("create", [True, lambda _: {"due_time": timedelta(0)}], ids=["plain", "with an option"])
def test_a_repeated_event_does_not_rerun_a_task_that_has_expired(clock: StoppedClock, create: Any) -> None:
    runs = list[str]()
    send = handles(Receipt.send, task_id="order_id", create_if_missing=create, create_first=True)(
        lambda ctx, _event: runs.append(ctx.task.task_id)
    )
    for _ in range(2):
        assert names(send(sqs(bare("r-1"), bare("r-2")), Context(clock))) == []
        clock.advance(timedelta(days=2))
    assert sorted(runs) == ["r-1", "r-2"]


def test_new_tasks_of_a_group_enter_it_in_the_order_of_their_messages(context: Context) -> None:
    @handles(Order.confirm, task_id="order_id", create_if_missing=lambda _: {"group": "c-7"}, create_first=True)
    def dies(_ctx: ExecutionContext[Order], _event: Any) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        dies(sqs(*map(bare, IDS)), context)
    assert [*Order.group("c-7").waiting()] == IDS[1:]


def test_records_in_an_order_are_not_created_before_their_turn(context: Context) -> None:
    dies = handles(Order.confirm, task_id="order_id", create_if_missing=True, create_first=True)(raising(KilledError))
    for event in (fifo(("a", bare("o-1")), ("a", bare("o-2"))), kinesis_event(bare("o-1"), bare("o-2"))):
        with pytest.raises(KilledError):
            dies(event, context)
    assert known("o-1", "o-2") == ["o-1"]


def test_a_task_not_created_first_is_created_by_its_claim(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepDefinition, "create", raising(PutError("slow down")))
    first = handles(Order.confirm, task_id="order_id", create_if_missing=True, create_first=True)(ship)
    assert names(first(sqs(*map(bare, IDS)), context)) == []
    assert known(*IDS) == IDS


def test_there_has_to_be_something_to_create() -> None:
    with pytest.raises(TypeError, match="create_first needs create_if_missing"):
        handles(Order.confirm, task_id="order_id", create_first=True)(ship)
    with pytest.raises(TypeError, match="create_first"):
        handles(Order.confirm, task_id="order_id", create_if_missing=True, create_first=1)(ship)  # type: ignore[arg-type]  # the point


def test_a_record_without_attributes_for_a_new_task_does_not_stop_the_others(context: Context) -> None:
    def attributes(event: Any) -> Any:
        return None if event["order_id"] == "o-2" else {"amount": 7}

    handler = handles(Order.confirm, task_id="order_id", create_if_missing=attributes, create_first=True)(ship)
    assert names(handler(sqs(bare("o-1"), bare("o-2"), bare("o-3")), context)) == ["m-2"]
    assert known("o-1", "o-2", "o-3") == ["o-1", "o-3"]
