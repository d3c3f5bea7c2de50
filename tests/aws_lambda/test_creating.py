"""A task that is registered by its first event."""

import time
from bisect import bisect_left
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pynamodb_tracker import (
    ExecutionContext,
    PayloadMismatchError,
    Repeat,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
    ValueNotStorableError,
)
from pynamodb_tracker.aws_lambda import UnreadableEventError, handles
from pynamodb_tracker.dynamodb.connection import shares_requests
from pynamodb_tracker.instrumentation import Hook, RunDetails, add_hook
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.transitions import claims
from pynamodb_tracker.writes import creations
from tests.aws_lambda.events import bare, names, sqs
from tests.aws_lambda.shop import Broken, Context, Order, ship
from tests.support.workers import die

registers = handles(Order.confirm, task_id="order_id", create_if_missing=True)(ship)
with_amount = handles(
    Order.confirm, task_id="order_id", create_if_missing=lambda event: {"amount": event["amount"], "data": {"v": 1}}
)(ship)


def test_the_first_event_creates_the_task_and_runs_it(context: Context) -> None:
    assert registers(bare("o-1"), context) == {"task_id": "o-1", "use_case_id": "order", "state": "ship pending"}
    assert registers(bare("o-1"), context)["state"] == "ship pending"
    assert (Order.get_task("o-1").fence, Order.get_task("o-1").label) == (1, "label of o-1")


def test_the_event_says_what_the_new_task_has(context: Context) -> None:
    with_amount(bare("o-1", amount=4200), context)
    task = Order.get_task("o-1")
    assert (task.amount, task.data) == (4200, {"v": 1})


def test_a_task_that_is_there_keeps_what_it_has(context: Context) -> None:
    Order.create("o-1", amount=1)
    with_amount(bare("o-1", amount=4200), context)
    assert Order.get_task("o-1").amount == 1


def test_an_event_about_a_task_that_is_there_needs_no_attributes(context: Context) -> None:
    Order.create("o-1", amount=1)
    assert names(with_amount(sqs({"order_id": "o-1"}), context)) == []


def test_an_event_without_the_attributes_is_refused(context: Context) -> None:
    with pytest.raises(UnreadableEventError, match="create_if_missing raised KeyError for an object with"):
        with_amount(bare("o-1"), context)
    assert names(with_amount(sqs(bare("o-2"), bare("o-3", amount=1)), context)) == ["m-1"]


def test_unknown_attributes_are_reported(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "pynamodb_tracker")
    handler = handles(Order.confirm, task_id="order_id", create_if_missing=lambda _: {"amuont": 1})(ship)
    with pytest.raises(UnreadableEventError, match=r"cannot be created with an object with \['amuont'\]: TypeError"):
        handler(bare("o-1"), context)
    assert "did you mean 'amount'" in caplog.text


@pytest.mark.parametrize("name", ["state", "task_id"])
def test_the_id_and_the_state_of_a_new_task_are_no_attributes_of_it(context: Context, name: str) -> None:
    handler = handles(Order.confirm, task_id="order_id", create_if_missing=lambda _: {name: "o-2"})(ship)
    with pytest.raises(UnreadableEventError, match=rf"cannot be created with an object with \['{name}'\]: TypeError"):
        handler(bare("o-1"), context)


def test_an_attribute_that_cannot_be_stored_is_named(context: Context) -> None:
    with pytest.raises(UnreadableEventError, match="ValueNotStorableError for 'amount'"):
        with_amount(bare("o-1", amount="4111 1111"), context)


def test_the_new_task_is_pending_for_the_step_of_the_handler(context: Context) -> None:
    late = handles(Order.ship, task_id="order_id", create_if_missing=True)(ship)
    with pytest.raises(Broken):
        late(bare("o-1", broken="no paper"), context)
    assert Order.get_task("o-1").state == Order.ship.failed


def test_without_it_a_task_that_is_not_there_is_an_error(context: Context) -> None:
    with pytest.raises(TaskNotFoundError):
        handles(Order.confirm, task_id="order_id")(ship)(bare("o-1"), context)


def test_of_two_deliveries_at_once_one_runs_and_the_other_gets_its_answer(context: Context) -> None:
    got: list[Any] = []
    first = handles(Order.confirm, task_id="order_id", create_if_missing=True, store_result=True, must_match="size")

    def attributes(event: Any) -> dict[str, int]:  # called once the claim has found no task
        got.append(first(lambda *_: "first")(event, context))
        return {"amount": 4200}

    second = handles(
        Order.confirm, task_id="order_id", create_if_missing=attributes, store_result=True, must_match="size"
    )
    got.append(second(lambda *_: "second")(bare("o-1", size="XL"), context))
    assert got == ["first", "first"]
    task: Any = Order.get_task("o-1")
    assert (task.amount, task.fence) == (None, 1)


def test_in_a_batch_the_attributes_are_computed_outside_of_shared_requests(context: Context) -> None:
    def attributes(_: Any) -> dict[str, int]:
        return {"amount": int(shares_requests())}

    handler = handles(Order.confirm, task_id="order_id", create_if_missing=attributes, threads=4)(ship)
    assert names(handler(sqs(*(bare(f"o-{number}") for number in range(4))), context)) == []
    assert {Order.get_task(f"o-{number}").amount for number in range(4)} == {0}


@pytest.mark.parametrize(("size", "error"), [("XL", TaskLockedError), ("S", PayloadMismatchError)])
def test_while_the_other_delivery_runs_this_one_is_refused(context: Context, size: str, error: type[Exception]) -> None:
    def attributes(_: Any) -> dict[str, int]:
        Order.create("o-1", state=Order.confirm.pending)
        die(Order.confirm, "o-1", must_match={"size": "XL"})
        return {}

    with pytest.raises(error):
        handles(Order.confirm, task_id="order_id", create_if_missing=attributes, must_match="size")(ship)(
            bare("o-1", size=size), context
        )


def test_where_the_other_one_has_only_created_it_this_one_runs_it(context: Context) -> None:
    def attributes(_: Any) -> dict[str, int]:
        Order.create("o-1", amount=1)
        return {"amount": 4200}

    handles(Order.confirm, task_id="order_id", create_if_missing=attributes)(ship)(bare("o-1"), context)
    assert (Order.get_task("o-1").amount, Order.get_task("o-1").state) == (1, Order.ship.pending)


def test_the_task_is_created_as_a_claim_leaves_it(context: Context) -> None:
    rows = []

    def look(ctx: ExecutionContext[Order], _event: Any) -> None:
        rows.append(Order.get_task("o-1")._row_state.stored)
        assert ctx.task.lock == ctx.task.creation
        assert (ctx.attempt, ctx.task.fence, ctx.task.trace) == (1, 1, {"traceparent": "00-1-2-01"})

    created = handles(
        Order.confirm,
        task_id="order_id",
        create_if_missing=lambda _: {"amount": 1, "trace": {"traceparent": "00-1-2-01"}},
        must_match="size",
    )(look)
    claimed = handles(Order.confirm, task_id="order_id", must_match="size")(look)

    created(bare("o-1", size="XL"), context)
    Order.delete_task("o-1")
    Order.create("o-1", amount=1, trace={"traceparent": "00-1-2-01"})
    with suppress(AssertionError):
        claimed(bare("o-1", size="XL"), context)

    new, old = ({**row, "lock": None, "creation": None} for row in rows)
    assert new == old


@pytest.mark.parametrize("sent", [False, True])
def test_an_interrupted_put_leaves_it_pending(context: Context, monkeypatch: pytest.MonkeyPatch, *, sent: bool) -> None:
    put, interrupted = creations.put, list[bool]()

    def interrupt(*given: Any, **named: Any) -> None:
        if interrupted:
            put(*given, **named)
            return
        interrupted.append(True)
        if sent:
            put(*given, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(claims, "put", interrupt)
    with pytest.raises(KeyboardInterrupt) as left:
        with_amount(bare("o-1", amount=4200), context)

    task = Order.get_task("o-1")
    assert (task.state, task.attempt, task.amount, task.data) == (Order.confirm.pending, 0, 4200, {"v": 1})
    assert ("released" if sent else "created by this call, pending") in left.value.__notes__[0]
    with_amount(bare("o-1"), context)
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_worker_that_dies_in_the_function_is_taken_over(clock: StoppedClock, context: Context) -> None:
    run: Any = Order.confirm.start("o-1")
    run.create = partial(run.new_task, {"amount": 1}, None)
    die(cast("Any", SimpleNamespace(start=lambda _: run)), "o-1")
    clock.advance(timedelta(minutes=6))
    with_amount(bare("o-1"), context)
    assert (Order.get_task("o-1").fence, Order.get_task("o-1").unfinished) == (2, [1])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"due_time": timedelta(hours=1)}, TaskNotReadyError),
        ({"group": "customer-7"}, None),
        ({"repeat": Repeat.cron("* * * * *"), "due_time": timedelta(minutes=1)}, TaskNotReadyError),
    ],
    ids=str,
)
def test_a_task_with_options_is_created_pending_and_runs_if_it_may(
    context: Context, options: dict[str, Any], error: type[Exception] | None
) -> None:
    handler = handles(Order.confirm, task_id="order_id", create_if_missing=lambda _: options)(ship)
    with nullcontext() if error is None else pytest.raises(error):
        handler(bare("o-1"), context)
    task = Order.get_task("o-1")
    assert (task.fence, task.group) == (int(error is None), options.get("group"))


def test_hooks_see_one_run(context: Context) -> None:
    seen = []

    class Diary(Hook):
        def on_start(self, run: RunDetails) -> None:
            seen.append(f"start {run.attempt}")

        def on_end(self, run: RunDetails) -> None:
            seen.append(f"end {run.outcome}")

        def on_refuse(self, run: RunDetails) -> None:
            seen.append(f"refuse {type(run.error).__name__}")

    remove = add_hook(Diary())
    registers(bare("o-1"), context)
    with pytest.raises(UnreadableEventError):
        with_amount(bare("o-2"), context)
    remove()

    assert seen == ["start 1", "end succeeded", "refuse UnreadableEventError"]


def test_the_row_is_checked_together_with_its_lock(context: Context) -> None:
    def is_too_large(size: int) -> bool:
        try:
            Order.create(f"o-{size}", label="x" * size)
        except ValueNotStorableError:
            return True
        return False

    sizes = range(400_000, 409_600)
    size = sizes[bisect_left(sizes, True, key=is_too_large) - 1]  # noqa: FBT003 - the first one that is too large
    handler = handles(Order.confirm, task_id="order_id", create_if_missing=lambda _: {"label": "x" * size})(ship)
    with pytest.raises(UnreadableEventError, match="ValueNotStorableError for 'label'"):
        handler(bare("o-000000"), context)


def test_a_task_deleted_between_two_claims_stays_deleted(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1")
    ahead = f"{time.time_ns() + 10**12:016x}00000000"  # the clock of its last claimer is ahead
    Order.tracker.connection().update_item("o-1", "order", actions=[TaskRow.lock.set(ahead)])
    following = claims._Call._code_to_claim_from

    def delete_before(*given: Any, **named: Any) -> Any:
        Order.delete_task("o-1")
        return following(*given, **named)

    monkeypatch.setattr(claims._Call, "_code_to_claim_from", delete_before)
    with pytest.raises(TaskNotReadyError, match=r"during the call\. Try again"):
        registers(bare("o-1"), context)
