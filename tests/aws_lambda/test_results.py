"""Callers that want a result: the same for a repeated event, and none for another payload of the same task."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from pynamodb_tracker import (
    ExecutionContext,
    PayloadMismatchError,
    TaskIgnoredError,
    TrackerError,
    ValueNotStorableError,
)
from pynamodb_tracker.aws_lambda import Invocation, Replies, UnreadableEventError, handles
from tests.aws_lambda.events import bare, eventbridge, names, sqs
from tests.aws_lambda.shop import Broken, Context, Order, ignored, ready
from tests.support.rows import nested
from tests.support.workers import die

LABEL = {"label": "L-1"}


def work(_ctx: object, event: Any) -> dict[str, str]:
    if event.get("broken"):
        raise Broken(event["broken"])
    return LABEL


storing = handles(Order.ship, task_id="order_id", store_result=True)(work)
comparing = handles(Order.ship, task_id="order_id", must_match=("size", "items.0"), store_result=True)(work)


@pytest.mark.parametrize("trigger", ["direct", "async"])
def test_a_repeated_event_gets_the_answer_of_the_first(trigger: Any, context: Context) -> None:
    ready()
    handler = handles(Order.ship, task_id="order_id", store_result=True, trigger=trigger)(work)
    first, again = [handler(bare("o-1"), context) for _ in range(2)]
    Order.deliver.run("o-1", lambda _: None)
    assert first == again == handler(bare("o-1"), context) == LABEL


def test_a_state_machine_reads_the_same_path_after_a_retry_that_was_not_needed(context: Context) -> None:
    ready()
    result_selector = {"label.$": "$.label"}
    results = [json.loads(json.dumps(storing(bare("o-1"), context))) for _ in range(2)]  # a timeout lost the first
    assert [result[result_selector["label.$"].removeprefix("$.")] for result in results] == ["L-1"] * 2


def test_a_repeated_message_gets_the_answer_of_its_own_step(context: Context) -> None:
    Order.create("o-1")
    handlers = [
        handles(step, task_id="order_id", store_result=True)(lambda ctx, _event: f"{ctx.task.fence}")
        for step in (Order.confirm, Order.ship, Order.deliver)
    ]
    results = [handler(bare("o-1"), context) for handler in handlers]
    assert results == ["1", "2", "3"]
    assert [handler(bare("o-1"), context) for handler in handlers] == results


def test_an_answer_that_another_caller_has_stored_is_returned_without_the_option(context: Context) -> None:
    ready()
    Order.ship.run("o-1", lambda _: LABEL, store_result=True)
    assert handles(Order.ship, task_id="order_id")(work)(bare("o-1"), context) == LABEL


def test_records_of_a_batch_store_their_answers(context: Context) -> None:
    for task_id in ("o-1", "o-2"):
        ready(task_id)
    assert names(storing(sqs(bare("o-1"), bare("o-2", broken="no ink")), context)) == ["m-2"]
    assert (Order.ship.result("o-1"), Order.ship.result("o-2")) == (LABEL, None)


def test_a_function_that_stores_its_answer_itself_is_answered_with_that(context: Context) -> None:
    ready()

    @handles(Order.ship, task_id="order_id", store_result=True)
    def handler(ctx: ExecutionContext[Order], _event: object) -> str:
        ctx.store_result("stored")
        with ctx.transaction(succeed=True):
            pass
        return "returned"

    assert [handler(bare("o-1"), context) for _ in range(2)] == ["stored"] * 2


def test_a_transaction_without_the_answer_fails_the_attempt_and_applies_nothing(context: Context) -> None:
    ready()

    @handles(Order.ship, task_id="order_id", store_result=True)
    def handler(ctx: ExecutionContext[Order], _event: object) -> str:
        with ctx.transaction(succeed=True):
            pass
        return "too late"

    with pytest.raises(TrackerError, match=r"Call ctx\.store_result"):
        handler(bare("o-1"), context)
    assert Order.get_task("o-1").state == Order.ship.failed


def test_an_answer_that_is_no_json_fails_the_attempt_before_its_success_is_recorded(context: Context) -> None:
    ready()
    handler = handles(Order.ship, task_id="order_id", store_result=True)(lambda ctx, _event: {"at": ctx.task.due_time})
    with pytest.raises(ValueNotStorableError, match="the result"):
        handler(bare("o-1"), context)
    assert Order.get_task("o-1").state == Order.ship.ignored


def test_without_a_value_both_answers_are_the_state(context: Context) -> None:
    ready()
    handler = handles(Order.ship, task_id="order_id", store_result=True)(lambda _ctx, _event: None)
    assert handler(bare("o-1"), context) == handler(bare("o-1"), context)
    assert handler(bare("o-1"), context)["state"] == "deliver pending"


def locked() -> None:
    ready()
    die(Order.ship, "o-1")


def mismatched() -> None:
    ready()
    Order.ship.run("o-1", lambda _: None, must_match="other")


ALL_DONE = Replies(locked="ack", not_ready="ack", not_found="ack", mismatch="ack", ignored="ack", failed="ack")


@pytest.mark.parametrize(
    ("prepare", "event", "status"),
    [
        (ready, bare("o-1"), "succeeded"),
        (lambda: Order.create("o-1", state=Order.deliver.pending), bare("o-1"), "succeeded"),
        (lambda: Order.create("o-1"), bare("o-1"), "not_ready"),
        (locked, bare("o-1"), "locked"),
        (ignored, bare("o-1"), "ignored"),
        (mismatched, bare("o-1"), "mismatch"),
        (lambda: None, bare("o-1"), "not_found"),
        (ready, bare("o-1", broken="no ink"), "failed"),
    ],
)
@pytest.mark.usefixtures("clock")
def test_answer_is_called_for_every_result_and_gives_all_of_them_one_shape(
    prepare: Callable[[], object], event: Any, status: str, context: Context
) -> None:
    prepare()

    def told(result: Invocation[Order]) -> dict[str, object]:
        state = result.task and str(result.task.state)
        return {"id": result.task_id, "status": result.status, "state": state, "error": type(result.error).__name__}

    handler = handles(Order.ship, task_id="order_id", replies=ALL_DONE, respond=told, must_match=lambda _: "this")(work)
    result = handler(event, context)
    task = Order.get_task("o-1") if status != "not_found" else None
    assert (result["id"], result["status"], result["state"]) == ("o-1", status, task and str(task.state))


def test_an_error_for_the_caller_is_raised_without_an_answer(context: Context) -> None:
    ignored()
    results: list[object] = []
    with pytest.raises(TaskIgnoredError):
        handles(Order.ship, task_id="order_id", respond=results.append)(work)(bare("o-1"), context)
    assert results == []


def test_another_payload_of_the_same_task_is_never_answered_with_done(context: Context) -> None:
    ready()
    first = bare("o-1", size="XL", items=["a", "b"], note="please")
    assert comparing(first, context) == LABEL
    assert comparing({**first, "note": "quick", "items": ["a"]}, context) == LABEL
    for other in ({"size": "S"}, {"items": ["b"]}):
        with pytest.raises(PayloadMismatchError):
            comparing({**first, **other}, context)


def test_a_batch_redelivers_a_message_with_another_payload(context: Context) -> None:
    ready()
    handler = handles(Order.ship, task_id="order_id", must_match=lambda message: message)(work)
    assert names(handler(sqs(bare("o-1", size="S"), bare("o-1", size="XL"), bare("o-1", size="S")), context)) == ["m-2"]


def test_a_missing_task_is_created_and_keeps_the_payload_of_its_first_event(context: Context) -> None:
    handler = handles(
        Order.ship, task_id="detail.order_id", must_match="detail", create_if_missing=True, trigger="eventbridge"
    )(lambda _ctx, _event: None)
    handler(eventbridge("o-1", size="XL"), context)
    handler(eventbridge("o-1", size="XL"), context)
    with pytest.raises(PayloadMismatchError):
        handler(eventbridge("o-1", size="S"), context)


@pytest.mark.parametrize(
    ("must_match", "error", "why"),
    [
        ("size", UnreadableEventError, "'size' of the path 'size' is not in"),
        (lambda event: event["size"], UnreadableEventError, "must_match raised KeyError"),
        (lambda _: None, UnreadableEventError, "must_match returned None for an object"),
        (lambda _: nested(200), UnreadableEventError, "must_match is nested more than 200 levels deep"),
        (lambda _: nested(10_000), UnreadableEventError, "must_match is nested more than 200 levels deep"),
        (lambda _: object(), TypeError, "must_match is a object"),
    ],
)
def test_a_payload_that_cannot_be_compared_is_refused(
    must_match: Any, error: type[Exception], why: str, context: Context
) -> None:
    ready()
    with pytest.raises(error, match=why):
        handles(Order.ship, task_id="order_id", must_match=must_match)(work)(bare("o-1"), context)
    assert Order.get_task("o-1").state == Order.ship.pending


@pytest.mark.parametrize("must_match", [5, "", "a..b", (), ("a", 5), b"a", {"a": "b"}], ids=str)
def test_must_match_takes_paths_or_a_function(must_match: Any) -> None:
    with pytest.raises(TypeError, match="must_match is one or more paths"):
        handles(Order.ship, task_id="order_id", must_match=must_match)(work)


def test_store_answer_is_a_flag() -> None:
    with pytest.raises(TypeError, match="store_result must be True or False"):
        handles(Order.ship, task_id="order_id", store_result="yes")(work)  # type: ignore[arg-type]
