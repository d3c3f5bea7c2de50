"""Two handlers of each trigger, on moto and on dynoxide: one registers the task, and one runs a step of it."""

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from pynamodb_tracker import ExecutionContext
from pynamodb_tracker.aws_lambda import Handler, TriggerName, handles
from pynamodb_tracker.testing import (
    dynamodb_event,
    eventbridge_event,
    kafka_event,
    kinesis_event,
    s3_event,
    sns_event,
    sqs_event,
)
from tests.aws_lambda.shop import Order, ShopTask
from tests.support.engines import Dynoxide, Engine, Moto

BODY = {"order_id": "o-1"}
REQUEST = {
    "version": "2.0",
    "requestContext": {"http": {"method": "POST", "path": "/orders"}},
    "headers": {"content-type": "application/json"},
    "body": json.dumps(BODY),
    "isBase64Encoded": False,
}

TRIGGERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "direct": ("order_id", BODY),
    "http": ("body.order_id", REQUEST),
    "async": ("order_id", BODY),
    "eventbridge": ("detail.order_id", eventbridge_event(BODY)),
    "s3": ("Records.0.s3.object.key", s3_event("o-1")),
    "sns": ("order_id", sns_event(BODY)),
    "sqs": ("order_id", sqs_event(BODY)),
    "kinesis": ("order_id", kinesis_event(BODY)),
    "dynamodb": ("dynamodb.Keys.order_id.S", dynamodb_event(BODY, keys=["order_id"])),
    "kafka": ("order_id", kafka_event(BODY)),
}


@pytest.fixture(scope="module", params=["moto", pytest.param("dynoxide", marks=pytest.mark.engine)])
def tables(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "moto":
        with Moto.of([ShopTask]) as tables:
            yield tables
        return
    with Dynoxide.of([ShopTask], request.getfixturevalue("dynamodb").endpoint) as tables:
        yield tables


@pytest.mark.parametrize("name", TRIGGERS)
def test_an_event_registers_a_task_and_runs_its_steps_once(tables: Engine, name: Any) -> None:
    task_id, event = TRIGGERS[name]
    ran: list[str] = []

    def work(ctx: ExecutionContext[Order], _payload: Any) -> None:
        ran.append(str(ctx.task.state))

    registers: Handler = handles(Order.confirm, task_id=task_id, trigger=name, create_if_missing=True)(work)
    ships: Handler = handles(Order.ship, task_id=task_id, trigger=name)(work)
    try:
        answers = [handler(event, None) for handler in (registers, ships, registers, ships)]
        assert Order.get_task("o-1").state == Order.deliver.pending
    finally:
        tables.empty()

    assert ran == ["confirm in_progress", "ship in_progress"]
    done = {"task_id": "o-1", "use_case_id": "order", "state": "ship pending"}
    single: list[Any] = [done, *[{**done, "state": "deliver pending"}] * 3]
    if name == "http":
        answers = [json.loads(answer["body"]) for answer in answers]
    is_batch = name in ("sqs", "kinesis", "dynamodb", "kafka")
    nothing: list[Any] = [{"batchItemFailures": []}] * 4
    assert answers == (nothing if is_batch else single)


def test_every_trigger_is_tried() -> None:
    assert TRIGGERS.keys() == {*get_args(TriggerName)}
