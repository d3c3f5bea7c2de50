"""Assignments in a block: an error at that line, not a surprise at the end."""

import copy
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute

from pynamodb_tracker import ExecutionContext, Step, UseCase
from tests.support.shop import AppTask, Order

pytestmark = pytest.mark.usefixtures("table")


class Priced(AppTask):
    use_case_id = UseCase("priced")

    sell = Step(10)

    cents = NumberAttribute(null=True)

    _note: str

    @property
    def euros(self) -> float:
        return self.cents / 100

    @euros.setter
    def euros(self, value: float) -> None:
        self.cents = value * 100


def assign(name: str, value: object) -> None:
    """Assign in a block, and have the error leave."""

    def block(ctx: ExecutionContext[Order]) -> None:
        setattr(ctx.task, name, value)

    Order.create("o-1")
    Order.confirm_payment.run("o-1", block)


@pytest.mark.parametrize(
    "name",
    [
        *("attempt", "create_time", "due_time", "errors", "expire_time", "fence", "last_error", "lock", "saves"),
        *("lock_expire_time", "status", "status_key", "task_id", "unfinished", "update_time", "use_case_id", "worker"),
    ],
)
def test_a_reserved_attribute_cannot_be_assigned(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        assign(name, 1)


@pytest.mark.parametrize("name", ["state", "status"])
def test_the_error_of_an_assigned_state_says_what_changes_it(name: str) -> None:
    with pytest.raises(
        AttributeError, match=rf"Order\.{name} changes when a step runs: use Order\.confirm_payment\.run"
    ):
        assign(name, Order.ship.succeeded)


def test_python_adds_no_suggestion_of_a_name_of_the_librarys_own() -> None:
    task = Order.create("o-1")
    with pytest.raises(AttributeError) as caught:
        task.status = 20
    assert (caught.value.name, caught.value.obj) == (None, None)  # by these it would suggest `_states`


@pytest.mark.parametrize("name", ["state", "save", "query", "confirm_payment", "ship", "tracker", "status_index"])
def test_a_name_of_the_class_cannot_be_assigned(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        assign(name, 1)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("amont", r"Order\.amont is not declared; did you mean 'amount'\?"),
        ("dta", ".*did you mean 'data'"),
        ("zzz", "(?!.*did you mean)"),
    ],
)
def test_an_undeclared_attribute_is_an_error_with_a_hint_if_something_is_near(name: str, told: str) -> None:
    with pytest.raises(AttributeError, match=f"(?s)^{told}"):
        assign(name, 1)


def test_a_property_of_the_users_own_can_be_assigned() -> None:
    Priced.create("p-1")
    with Priced.sell.start("p-1") as ctx:
        ctx.task.euros = 5
    assert Priced.get_task("p-1").cents == 500


def test_a_private_attribute_of_the_users_own_can_be_assigned_and_is_not_stored() -> None:
    Priced.create("p-1")
    with Priced.sell.start("p-1") as ctx:
        ctx.task._note = "for this block"
    assert not hasattr(Priced.get_task("p-1"), "_note")


def test_the_error_of_an_assignment_fails_the_attempt() -> None:
    with pytest.raises(AttributeError):
        assign("amont", 1)
    assert Order.get_task("o-1").state == Order.confirm_payment.failed


def test_a_caught_error_of_an_assignment_does_no_harm() -> None:
    Order.create("o-1", amount=1)
    with Order.confirm_payment.start("o-1") as ctx:
        with pytest.raises(AttributeError):
            ctx.task.status = 1000
        ctx.task.amount = 2
    task = Order.get_task("o-1")
    assert (task.state, task.amount) == (Order.ship.pending, 2)


def test_a_row_that_was_read_is_guarded_as_well() -> None:
    Order.create("o-1")
    task: Any = Order.get_task("o-1")
    with pytest.raises(AttributeError, match="did you mean 'amount'"):
        task.amuont = 1


def test_a_row_that_a_query_found_is_guarded_as_well() -> None:
    Order.create("o-1")
    task = next(Order.confirm_payment.pending.query())
    with pytest.raises(AttributeError, match="status"):
        task.status = 1000


def test_a_copy_of_a_task_keeps_its_values_when_the_task_gets_others() -> None:
    Order.create("o-1", amount=1)
    with Order.confirm_payment.start("o-1") as ctx:
        before = copy.copy(ctx.task)
        ctx.task.amount = 2
        ctx.save()
        before.tracking_no = "not saved"
        assert (before.amount, ctx.task.amount) == (1, 2)
    assert Order.get_task("o-1").amount == 2
    assert not Order.get_task("o-1").tracking_no
