"""Creating tasks: one, many, and none that is there already."""

from datetime import timedelta
from typing import Any

import pytest
from pynamodb.attributes import ListAttribute, NumberAttribute, UnicodeAttribute

from pynamodb_tracker import Report, Step, TaskAlreadyExistsError, UseCase, ValueNotStorableError
from pynamodb_tracker.clock import StoppedClock
from tests.support.network import unreached
from tests.support.recorder import recorded
from tests.support.rows import stored
from tests.support.shop import AppTask, Order
from tests.support.workers import die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")


class Claim(AppTask):
    use_case_id = UseCase("claim")

    settle = Step(10)

    sum = NumberAttribute()
    currency = UnicodeAttribute(default="EUR")
    papers = ListAttribute[str](default=lambda: ["form"])
    channel = UnicodeAttribute(default_for_new="web", null=True)


def test_a_new_task_is_pending_at_its_first_step() -> None:
    task = Order.create("o-1")
    assert isinstance(task, Order)
    assert task.state == Order.get_task("o-1").state == Order.confirm_payment.pending
    assert (task.attempt, task.fence) == (0, 0)


def test_defaults_are_stored() -> None:
    Claim.create("c-1", sum=5)
    row = stored(Claim, "c-1")
    assert (row["currency"], row["papers"], row["channel"]) == ({"S": "EUR"}, {"L": [{"S": "form"}]}, {"S": "web"})


def test_what_is_none_or_empty_is_not_stored() -> None:
    Order.create("o-1", amount=None, data={})
    assert not {"amount", "data", "tracking_no", "errors", "lock", "worker"} & stored(Order, "o-1").keys()


@pytest.mark.parametrize("happen", [lambda _: None, succeed, fail, die], ids=["new", "succeeded", "failed", "running"])
def test_a_task_that_exists_is_refused_and_left_untouched(happen: Any) -> None:
    Order.create("o-1", amount=1)
    if happen in (succeed, fail, die):
        happen(Order.confirm_payment, "o-1")
    before = stored(Order, "o-1")
    with pytest.raises(TaskAlreadyExistsError, match=r"cannot create Order 'o-1': it already exists") as caught:
        Order.create("o-1", amount=2)
    assert (caught.value.task_id, stored(Order, "o-1")) == ("o-1", before)


def test_a_deleted_task_can_be_created_anew() -> None:
    Order.create("o-1", amount=1)
    succeed(Order.confirm_payment, "o-1")
    Order.delete_task("o-1")
    Order.create("o-1")
    task = Order.get_task("o-1")
    assert (task.state, task.fence, task.amount) == (Order.confirm_payment.pending, 0, None)


def test_a_required_attribute_is_required() -> None:
    with recorded() as requests, pytest.raises(ValueNotStorableError, match=r"Claim\.sum .*required") as caught:
        Claim.create("c-1")
    assert (caught.value.task_id, caught.value.attribute, requests) == ("c-1", "sum", [])


@pytest.mark.parametrize(
    ("name", "told"), [("amont", "did you mean 'amount'"), ("status", "status"), ("lock", "lock"), ("fence", "fence")]
)
def test_an_attribute_that_is_not_declared_or_reserved_is_a_type_error(name: str, told: str) -> None:
    values: dict[str, Any] = {name: 1}
    with unreached(), pytest.raises(TypeError, match=told):
        Order.create("o-1", **values)


def test_the_given_dictionary_is_not_shared_with_the_task() -> None:
    given = {"a": [1]}
    Order.create("o-1", data=given).data["a"].append(2)
    assert given == {"a": [1]}


def test_create_many_takes_ids_and_mappings(clock: StoppedClock) -> None:
    later = clock.now() + timedelta(days=1)
    report = Order.create_many(
        ["o-1", {"task_id": "o-2", "amount": 5, "due_time": later}, {"task_id": "o-3", "state": Order.ship.pending}]
    )
    assert report == Report(succeeded=["o-1", "o-2", "o-3"])
    task = Order.get_task("o-2")
    assert (task.amount, task.due_time, Order.get_task("o-3").state) == (5, later, Order.ship.pending)


def test_create_many_of_nothing_does_nothing() -> None:
    with recorded() as requests:
        assert (Order.create_many([]), requests) == (Report(), [])


def test_create_many_reports_what_exists_and_what_cannot_be_stored_and_continues() -> None:
    Order.create("o-1", amount=1)
    report = Order.create_many(["o-1", {"task_id": "o-2", "amount": "a lot"}, "o-3"])
    assert report.succeeded == ["o-3"]
    assert {task_id: type(error) for task_id, error in report.refused.items()} == {
        "o-1": TaskAlreadyExistsError,
        "o-2": ValueNotStorableError,
    }
    assert Order.get_task("o-1").amount == 1


def test_create_many_raises_for_a_wrong_argument() -> None:
    with pytest.raises(TypeError, match="did you mean 'amount'"):
        Order.create_many(["o-1", {"task_id": "o-2", "amont": 5}])
    assert Order.get_task("o-1").state == Order.confirm_payment.pending
