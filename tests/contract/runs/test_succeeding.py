"""A run that succeeds: what it stores, and what it leaves alone."""

import json

import pytest
from pynamodb.attributes import BooleanAttribute, MapAttribute, NumberAttribute, UnicodeAttribute

from pynamodb_tracker import Step, UseCase
from tests.support.network import unreached
from tests.support.recorder import recorded
from tests.support.rows import change, put, stored
from tests.support.shop import AppTask, Order, created
from tests.support.workers import fail, succeed

pytestmark = pytest.mark.usefixtures("client", "table", "task")


class Size(MapAttribute[str, object]):
    width = NumberAttribute()
    depth = NumberAttribute()  # think of it as required since yesterday


class Shipment(AppTask):
    use_case_id = UseCase("shipment")

    load = Step(10)

    weight = NumberAttribute()  # and of this one, too
    fragile = BooleanAttribute(default=False)
    size = Size(null=True)
    note = UnicodeAttribute(null=True)


def an_old_shipment(task_id: str, *without: str) -> None:
    """Create one as it was before some of its attributes were declared."""
    Shipment.create(task_id, weight=1)
    change(Shipment, task_id, **dict.fromkeys(without))


def test_the_success_of_the_last_step_is_the_end() -> None:
    for step in (Order.confirm_payment, Order.ship, Order.deliver):
        succeed(step, "o-1")
    assert (Order.get_task("o-1").state, stored(Order, "o-1")["status"]) == (Order.deliver.succeeded, {"N": "1000"})


def test_nothing_happens_before_the_block_is_entered() -> None:
    with unreached(), pytest.warns(ResourceWarning, match="was never entered"):
        Order.confirm_payment.start("o-1")
    assert Order.get_task("o-1").state == Order.confirm_payment.pending


@created(amount=4200, data={"colour": "red"})
def test_the_context_has_the_row_as_it_was_claimed() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        assert isinstance(ctx.task, Order)
        assert (ctx.task.task_id, ctx.task.amount, ctx.task.data) == ("o-1", 4200, {"colour": "red"})
        assert ctx.task.state == Order.confirm_payment.in_progress


def test_data_of_a_new_task_is_an_empty_dictionary_to_be_filled() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        assert ctx.task.data == {}
        ctx.task.data["receipt"] = "r-1"
    assert Order.get_task("o-1").data == {"receipt": "r-1"}


@created(amount=4200, tracking_no="T-1", data={"a": 1})
def test_only_what_changed_is_written_and_no_value_that_is_assigned_again() -> None:
    with recorded() as requests, Order.confirm_payment.start("o-1") as ctx:
        ctx.task.tracking_no, ctx.task.amount, ctx.task.data = "T-2", 4200, {"a": 1}
    assert requests[-1].written & {"amount", "tracking_no", "data"} == {"tracking_no"}


@pytest.mark.parametrize("assigned", [None, "fragile"])
def test_an_attribute_required_since_yesterday_does_not_stop_an_old_row(assigned: str | None) -> None:
    an_old_shipment("s-1", "weight")
    with Shipment.load.start("s-1") as ctx:
        if assigned:
            ctx.task.note = assigned
    assert Shipment.get_task("s-1").state == Shipment.load.succeeded


def test_a_map_that_lacks_an_entry_required_since_yesterday_does_not_stop_an_old_row() -> None:
    an_old_shipment("s-1")
    change(Shipment, "s-1", size={"M": {"width": {"N": "3"}}})
    with Shipment.load.start("s-1") as ctx:
        ctx.task.note = "the size is left alone"
    assert Shipment.get_task("s-1").note == "the size is left alone"


def test_a_default_declared_since_yesterday_shows_in_an_old_row_and_is_not_written() -> None:
    an_old_shipment("s-1", "fragile")
    with Shipment.load.start("s-1") as ctx:
        assert ctx.task.fragile is False
    assert "fragile" not in stored(Shipment, "s-1")


def test_attributes_that_no_class_declares_any_more_stay_in_the_row() -> None:
    an_old_shipment("s-1")
    change(Shipment, "s-1", colour={"S": "red"})
    with Shipment.load.start("s-1") as ctx:
        ctx.task.note = "x"
    assert stored(Shipment, "s-1")["colour"] == {"S": "red"}


def test_a_number_with_more_digits_than_python_reads_is_not_rounded_by_a_run_that_leaves_it_alone() -> None:
    an_old_shipment("s-1")
    change(Shipment, "s-1", weight={"N": "0.12345678901234567890123456789"})
    succeed(Shipment.load, "s-1")
    assert stored(Shipment, "s-1")["weight"] == {"N": "0.12345678901234567890123456789"}


@pytest.mark.parametrize(
    "text",
    [
        *('{"a" :1}', '{"a": 1}', '{ "a":1}', '{"a":1 }', '{"a":1 ,"b":2}', '{"a":[ 1]}', '{"a":[1 ]}', '{"a":[1] }'),
        *('{"a":{} }', '{"a":1,\n"b":2}', '{"a":1,\t"b":2}', '{"a":"x",  "b":[]}'),
        *('{"a":"\\u00e9"}', '{"a":"\\ud83d","b":"\\u00C9"}', '{"a":"\\/"}'),
        *('{"a":1E5}', '{"a":1.10}', '{"a":0.12345678901234567890123456789}'),
    ],
)
def test_data_as_another_program_formats_it_is_not_rewritten_because_it_was_read(text: str) -> None:
    an_old_shipment("s-1")
    change(Shipment, "s-1", data={"S": text})
    with Shipment.load.start("s-1") as ctx:
        assert ctx.task.data == json.loads(text)
    assert stored(Shipment, "s-1")["data"] == {"S": text}


def test_the_row_in_the_context_shows_the_success_afterwards() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 1
    assert (ctx.task.state, ctx.task.attempt, ctx.task.amount) == (Order.ship.pending, 0, 1)


def test_a_success_forgets_the_attempts_and_keeps_the_errors() -> None:
    fail(Order.confirm_payment, "o-1")
    succeed(Order.confirm_payment, "o-1")
    task = Order.get_task("o-1")
    assert (task.attempt, [failure.message for failure in task.errors]) == (0, ["it broke"])


def test_what_start_returned_is_for_one_run() -> None:
    run = Order.confirm_payment.start("o-1")
    with run:
        pass
    with unreached(), pytest.raises(RuntimeError), run:
        pytest.fail("it runs again")


def test_another_record_of_the_same_id_is_left_alone() -> None:
    another = {"task_id": {"S": "o-1"}, "use_case_id": {"S": "order#note"}, "text": {"S": "mine"}}
    put(AppTask, another)
    succeed(Order.confirm_payment, "o-1")
    assert next(AppTask.query("o-1", AppTask.use_case_id == "order#note")).task_id == "o-1"
