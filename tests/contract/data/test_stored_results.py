"""The result of a step, which is stored with its success and returned to repeated calls."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from pynamodb_tracker import (
    LockLostError,
    TaskAlreadySucceededError,
    TaskNotFoundError,
    TrackerError,
    ValueNotStorableError,
)
from pynamodb_tracker.testing import StoppedClock
from tests.support.network import unreached
from tests.support.recorder import recorded
from tests.support.rows import change, nested, stored
from tests.support.shop import Order, Parcel
from tests.support.workers import Broken, die, fail, succeed

pytestmark = pytest.mark.usefixtures("table", "task")

LABEL = {"label": "L-1", "parcels": [1, 2.5, None, True], "note": "größer"}


def pay(result: object = LABEL, task_id: str = "o-1", **options: Any) -> Any:
    return Order.confirm_payment.run(task_id, lambda _: result, store_result=True, **options)


def test_the_answer_is_stored_with_the_success_and_read_by_id() -> None:
    with recorded() as requests:
        assert pay() == LABEL
    assert (requests.operations, Order.confirm_payment.result("o-1")) == (["UpdateItem", "UpdateItem"], LABEL)


def test_a_repeated_call_finds_the_answer_in_the_task_of_its_refusal() -> None:
    pay()
    with pytest.raises(TaskAlreadySucceededError) as refused:
        pay("another")
    task = refused.value.task
    assert isinstance(task, Order)
    with unreached():
        assert Order.confirm_payment.result(task) == LABEL


def test_each_step_has_its_answer_whatever_comes_after_it() -> None:
    pay("paid")
    with Order.ship.start("o-1") as ctx:
        ctx.store_result("shipped")
    succeed(Order.deliver, "o-1")
    assert (Order.confirm_payment.result("o-1"), Order.ship.result("o-1")) == ("paid", "shipped")
    assert Order.deliver.result("o-1") is None


def test_the_task_of_a_run_has_its_answer_after_the_success() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.store_result(LABEL)
        assert Order.confirm_payment.result(ctx.task) is None
    assert Order.confirm_payment.result(ctx.task) == LABEL


def test_no_answer_is_stored_by_a_run_that_fails() -> None:
    def work(ctx: Any) -> None:
        ctx.store_result(LABEL)
        raise Broken

    with pytest.raises(Broken):
        Order.confirm_payment.run("o-1", work)
    succeed(Order.confirm_payment, "o-1")
    assert Order.confirm_payment.result("o-1") is None


def test_a_worker_that_lost_its_lock_does_not_replace_the_answer_of_the_winner(clock: StoppedClock) -> None:
    with pytest.raises(LockLostError), Order.confirm_payment.start("o-1") as ctx:  # noqa: PT012 - its end is refused
        ctx.store_result("the loser's")
        clock.advance(Order.confirm_payment._definition.declared.lock_for * 2)
        pay("the winner's")
    assert Order.confirm_payment.result("o-1") == "the winner's"


@pytest.mark.parametrize("again", ["second", None])
def test_running_a_finished_step_again_replaces_its_answer(again: str | None) -> None:
    pay("first")
    pay(again, also_from=(Order.confirm_payment.succeeded,))
    assert Order.confirm_payment.result("o-1") == again
    assert ("result#10" in stored(Order, "o-1")) == (again is not None)


def test_the_answer_stays_while_a_later_run_of_the_step_fails_and_is_not_returned() -> None:
    pay("first")
    with pytest.raises(Broken), Order.confirm_payment.start("o-1", also_from=(Order.confirm_payment.succeeded,)):
        raise Broken
    assert Order.confirm_payment.result("o-1") is None


def test_saved_progress_has_no_answer_yet() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.store_result(LABEL)
        ctx.task.amount = 1
        ctx.save()
        assert "result#10" not in stored(Order, "o-1")
        die_here = Order.get_task("o-1")
    assert Order.confirm_payment.result(die_here) is None
    assert Order.confirm_payment.result("o-1") == LABEL


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (object(), "the result is a object"),
        ({"price": Decimal(1)}, r"the result\['price'\] is a Decimal"),
        ({1: "a"}, "keys are strings"),
        ((1, 2), "the result is a tuple"),
        (float("nan"), "which JSON does not have"),
        ("x" * 262_143, "has 262,145 bytes as JSON, but at most 262,144 can be stored"),
        *((nested(depth), "the result is nested more than 200 levels deep") for depth in (200, 10_000)),
    ],
    ids=["object", "decimal", "key", "tuple", "nan", "large", "deep", "far too deep"],
)
def test_an_answer_that_cannot_be_stored_fails_the_attempt(result: object, why: str) -> None:
    with pytest.raises(ValueNotStorableError, match=why) as refused:
        pay(result)
    assert (refused.value.attribute, refused.value.task_id) == ("result", "o-1")
    assert Order.get_task("o-1").state == Order.confirm_payment.ignored


def test_the_longest_answer_is_stored_and_the_row_still_has_its_limit() -> None:
    assert (len(pay("x" * 262_142)), len(Order.confirm_payment.result("o-1"))) == (262_142, 262_142)
    with pytest.raises(ValueNotStorableError, match="a row holds 409,600: put result#"):
        Order.ship.run("o-1", lambda _: "y" * 262_142, store_result=True)


def test_a_transaction_that_records_the_success_stores_the_answer() -> None:
    def work(ctx: Any) -> str:
        ctx.store_result("stored")
        with ctx.transaction(succeed=True):
            pass
        return "returned"

    assert Order.confirm_payment.run("o-1", work, store_result=True) == "stored"
    assert Order.confirm_payment.result("o-1") == "stored"


def test_a_transaction_is_refused_that_would_record_the_success_without_its_answer() -> None:
    def work(ctx: Any) -> str:
        with ctx.transaction(succeed=True):
            pass
        return "too late"

    with pytest.raises(TrackerError, match=r"Call ctx\.store_result"):
        Order.confirm_payment.run("o-1", work, store_result=True)
    assert Order.get_task("o-1").state == Order.confirm_payment.failed


def test_an_answer_after_the_recorded_success_is_refused() -> None:
    def work(ctx: Any) -> None:
        with ctx.transaction(succeed=True):
            pass
        ctx.store_result("late")

    with pytest.raises(LockLostError, match="a transaction has recorded its success"):
        Order.confirm_payment.run("o-1", work)
    assert Order.get_task("o-1").state == Order.ship.pending


def forget(_: str) -> None:
    """Leave the task as it is."""


@pytest.mark.parametrize(
    "prepare",
    [forget, lambda task_id: die(Order.confirm_payment, task_id), lambda task_id: fail(Order.confirm_payment, task_id)],
    ids=["pending", "in progress", "failed"],
)
def test_a_task_that_has_not_succeeded_has_no_answer(prepare: Callable[[str], None]) -> None:
    prepare("o-1")
    assert Order.confirm_payment.result("o-1") is None


def test_the_answer_of_a_missing_task_is_an_error() -> None:
    with pytest.raises(TaskNotFoundError):
        Order.confirm_payment.result("nothing")


@pytest.mark.parametrize("task", [None, 5, Parcel("o-1")], ids=repr)
def test_what_is_no_task_of_the_use_case_has_no_answer(task: Any) -> None:
    with unreached(), pytest.raises(TypeError, match="result takes a task id or a task of Order"):
        Order.confirm_payment.result(task)


@pytest.mark.parametrize("value", [{"S": "{"}, {"N": "5"}], ids=repr)
def test_an_answer_that_another_program_has_damaged_is_an_error_that_names_the_task(value: dict[str, str]) -> None:
    pay()
    change(Order, "o-1", **{"result#10": value})
    with pytest.raises(TrackerError, match="Order 'o-1' cannot be read: result#10"):
        Order.confirm_payment.result("o-1")
