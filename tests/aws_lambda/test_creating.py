"""A task that is registered by its first event."""

from __future__ import annotations

from typing import Any

import pytest

from pynamodb_tracker import TaskNotFoundError
from pynamodb_tracker.aws_lambda import UnreadableEventError, handles
from tests.aws_lambda.events import bare, names, sqs
from tests.aws_lambda.shop import Broken, Context, Order, ship

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


def test_attributes_that_the_class_does_not_have_are_reported(
    context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "pynamodb_tracker")
    handler = handles(Order.confirm, task_id="order_id", create_if_missing=lambda _: {"amuont": 1})(ship)

    with pytest.raises(UnreadableEventError, match=r"cannot be created with an object with \['amuont'\]: TypeError"):
        handler(bare("o-1"), context)
    assert "did you mean 'amount'" in caplog.text


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


def test_where_another_event_creates_it_first_that_one_counts(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Order.create

    def late(task_id: str, **more: Any) -> Any:
        create(task_id, amount=1, state=Order.confirm.pending)
        return create(task_id, **more)

    monkeypatch.setattr(Order, "create", late)
    with_amount(bare("o-1", amount=4200), context)

    assert (Order.get_task("o-1").amount, Order.get_task("o-1").state) == (1, Order.ship.pending)


def test_where_it_is_deleted_at_once_it_is_not_found(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order, "create", lambda *_, **__: None)

    with pytest.raises(TaskNotFoundError):
        registers(bare("o-1"), context)
