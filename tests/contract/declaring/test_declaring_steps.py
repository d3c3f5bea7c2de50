"""Steps that are declared rightly, and wrongly: a DefinitionError that names the class and says what to write."""

import re
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import BoundStep, DefinitionError, State, Status, Step, UseCase
from tests.support.declaring import declare, new_table, refusal


class Shop(new_table()):  # type: ignore[misc]  # made on the spot
    """A table of this file."""


class Order(Shop):
    use_case_id = UseCase("order")

    confirm_payment = Step(10)
    ship = Step(20, max_attempts=5, lock_for=timedelta(minutes=15), retry_delay=timedelta(minutes=1))
    deliver = Step(30)


def test_the_codes_of_a_step_are_its_number_and_the_three_that_follow() -> None:
    ship = Order.ship
    assert [state.code for state in (ship.pending, ship.in_progress, ship.failed, ship.ignored)] == [20, 21, 22, 23]


def test_one_step_cannot_have_two_names() -> None:
    shared = Step(20)
    order = declare(ship=shared)
    message = r"Refund\.send and ship are one Step: write a Step\(\.\.\.\) for each"
    for step in (shared, order.ship):
        with pytest.raises(DefinitionError, match=message):
            declare("Refund", use_case_id=UseCase("refund"), send=step)
    assert isinstance(order.ship, BoundStep)
    assert (order.ship.name, str(order.ship.failed)) == ("ship", "ship failed")


def test_one_step_cannot_have_two_names_in_a_class_or_a_plain_base_of_it() -> None:
    twice = Step(20)
    plain = type("Shipping", (), {"ship": twice, "send": twice})
    assert "one Step" in refusal("Order", plain, new_table())
    assert "one Step" in refusal(a=twice, b=twice)


def test_classes_that_inherit_or_use_a_step_under_its_own_name_have_it_each_for_itself() -> None:
    shared = Step(20)
    plain = type("Shipping", (), {"ship": shared})
    models = [declare("Order", plain, new_table()), declare("Refund", ship=shared)]
    assert [model.ship.model for model in models] == models


def test_succeeded_of_a_step_is_pending_of_the_next_one_and_of_the_last_step_1000() -> None:
    assert Order.confirm_payment.succeeded == Order.ship.pending
    codes = (Order.confirm_payment.succeeded.code, Order.deliver.succeeded.code)
    assert (codes, Order.deliver.succeeded.status) == ((20, 1000), Status.SUCCEEDED)


def test_a_state_has_its_step_its_status_and_its_use_case() -> None:
    state = Order.ship.failed
    assert (state.step, state.status, state.use_case_id) == ("ship", Status.FAILED, "order")
    assert state.status == "failed"


def test_a_state_is_printed_in_words() -> None:
    assert str(Order.ship.pending) == str(Order.confirm_payment.succeeded) == "ship pending"
    assert [str(state) for state in (Order.ship.in_progress, Order.deliver.succeeded)] == [
        "ship in_progress",
        "deliver succeeded",
    ]


def test_states_are_equal_by_use_case_and_code() -> None:
    other = declare("Other", use_case_id=UseCase("other"), ship=Step(20), pack=None)
    same_again = declare("Again", ship=Step(20), pack=None)
    assert Order.ship.pending == Order.ship.pending
    assert Order.ship.pending == same_again.ship.pending
    assert Order.ship.pending != Order.ship.failed
    assert Order.ship.pending != other.ship.pending
    assert Order.ship.pending != 20
    assert Order.ship.pending != "ship pending"


def test_states_can_be_keys_of_a_dictionary() -> None:
    names: dict[State[Any], str] = {Order.ship.pending: "waits"}
    assert names[Order.confirm_payment.succeeded] == "waits"
    assert len({Order.ship.pending, Order.confirm_payment.succeeded, Order.ship.failed}) == 2


def test_a_step_on_the_class_is_bound_to_it() -> None:
    assert isinstance(Order.ship, BoundStep)
    assert Order.ship is Order.ship
    assert (Order.ship.name, Order.ship.number, str(Order.ship)) == ("ship", 20, "ship")


@pytest.mark.parametrize("number", [1, 10, 500, 990])
def test_numbers_go_from_1_to_990(number: int) -> None:
    assert declare(pack=Step(number)).pack.pending.code == number


def test_steps_run_in_the_order_of_their_numbers_not_of_their_lines() -> None:
    order = declare(last=Step(30), first=Step(10), pack=Step(20))
    assert (order.first.succeeded, order.pack.succeeded) == (order.pack.pending, order.last.pending)
    assert order.last.succeeded.code == 1000


def test_a_step_fits_between_two_that_are_10_apart_and_changes_no_code_of_theirs() -> None:
    order = declare(pack=None, pay=Step(10), fraud=Step(15), ship=Step(20))
    assert [order.pay.succeeded, order.fraud.succeeded] == [order.fraud.pending, order.ship.pending]
    codes = [*range(10, 14), *range(15, 19), *range(20, 24), 1000, 1001]
    assert [each.code for each in order._states.values()] == codes


@pytest.mark.parametrize(
    ("numbers", "rule", "write"),
    [
        ({"fraud": 18}, "ship = Step(20) is 2 after fraud = Step(18)", ["fraud = Step(15)"]),
        ({"fraud": 12}, "fraud = Step(12) is 2 after pay = Step(10)", ["fraud = Step(15)"]),
        ({"fraud": 34}, "fraud = Step(34) is 4 after deliver = Step(30)", ["fraud = Step(100)"]),
        ({"fraud": 20}, "fraud = Step(20) is 0 after ship = Step(20)", ["ship = Step(15)", "fraud = Step(25)"]),
        ({"pay": 100, "ship": 200, "deliver": 300, "fraud": 198}, "198", ["fraud = Step(150)"]),
        ({"pay": 980, "ship": 985, "deliver": 990, "fraud": 970, "pack": 971}, "971", ["pack = Step(975)"]),
        ({"pay": 4, "fraud": 6}, "6", ["pay = Step(1)", "fraud = Step(10)"]),
    ],
    ids=str,
)
def test_a_step_too_close_to_another_gets_a_number_between_its_neighbours(
    numbers: dict[str, int], rule: str, write: list[str]
) -> None:
    numbers = {"pay": 10, "ship": 20, "deliver": 30, **numbers}
    told = refusal(**({"pack": None} | {name: Step(number) for name, number in numbers.items()}))
    assert re.findall(r"write (\w+ = Step\(\d+\))", told) == write
    for part in (rule, "steps need a gap of 5", "Never renumber a step that tasks are stored with"):
        assert part in told


@pytest.mark.parametrize(
    ("numbers", "neighbours"),
    [((10, 13, 15), "one = Step(10) and three = Step(15)"), ((1, 2, 3), "one = Step(1) and three = Step(3)")],
)
def test_a_step_that_has_no_room_is_not_given_a_number(numbers: tuple[int, ...], neighbours: str) -> None:
    told = refusal(pack=None, **dict(zip(("one", "two", "three"), map(Step, numbers), strict=True)))
    assert f"there is no room for two beside {neighbours}. If no task is stored yet, write 100, 200, 300." in told
    assert "Otherwise, never renumber a step, but do its work in the function of a neighbour" in told


def test_steps_of_just_5_apart_are_fine() -> None:
    order = declare(pack=None, one=Step(985), two=Step(990))
    assert order.one.succeeded == order.two.pending


def test_the_order_of_the_lines_makes_no_difference() -> None:
    assert refusal(pack=None, fraud=Step(22), ship=Step(20)) == refusal(pack=None, ship=Step(20), fraud=Step(22))


def test_settings_that_work_are_taken() -> None:
    declare(
        ship=Step(
            10,
            max_attempts=1,
            lock_for=timedelta(microseconds=1),
            retry_delay=timedelta(0),
            give_up_on=[ValueError, KeyboardInterrupt],
            also_from=[],
        ),
        deliver=Step(20, max_attempts=10**6, lock_for=timedelta(days=365), retry_delay=timedelta),
    )


def test_settings_are_given_by_name() -> None:
    step: Any = Step
    with pytest.raises(TypeError):
        step(10, 5)
    with pytest.raises(TypeError):
        step()


def test_also_from_names_states_of_steps_above() -> None:
    class Document(Shop):
        use_case_id = UseCase("document")

        translate = Step(10)
        archive = Step(20, also_from=(translate.failed, translate.ignored))

    assert Document.archive.pending == Document.translate.succeeded


def test_also_from_of_a_state_of_another_class_is_refused() -> None:
    stranger = Step(10)
    stranger.__set_name__(object, "ship")
    assert refusal(ship=Step(10), deliver=Step(20, also_from=(stranger.failed,))).startswith("Order.deliver")


def test_also_from_of_a_state_of_another_use_case_is_refused() -> None:
    other = declare("Other", use_case_id=UseCase("other"))
    assert refusal(deliver=Step(20, also_from=(other.pack.failed,))).startswith("Order.deliver")


def test_also_from_of_a_task_in_progress_is_refused() -> None:
    def declare_it() -> None:
        class Document(Shop):
            use_case_id = UseCase("document in progress")

            translate = Step(10)
            archive = Step(20, also_from=(translate.in_progress,))  # it is wrong

    with pytest.raises(DefinitionError, match="progress"):
        declare_it()


def test_also_from_of_a_bound_state_in_progress_is_refused() -> None:
    assert "progress" in refusal(ship=Step(20), deliver=Step(30, also_from=(Order.ship.in_progress,)))


def test_also_from_of_the_same_use_case_as_it_was_declared_before_is_fine() -> None:
    order = declare(ship=Step(20), deliver=Step(30, also_from=(Order.ship.failed,)))
    assert order.ship.failed == Order.ship.failed
