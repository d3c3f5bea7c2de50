"""What others do in a group between a look at it and the write: the write is refused, and built anew."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from pynamodb_tracker import (
    ExecutionContext,
    Step,
    Task,
    TaskNotFoundError,
    TaskNotReadyError,
    UseCase,
    ValueNotStorableError,
)
from tests.support.network import Network, before, passing
from tests.support.rows import client


class RaceTable(Task):
    class Meta:
        table_name = "groups-at-once"
        region = "us-east-1"


class Order(RaceTable):
    use_case_id = UseCase("order")

    ship = Step(10)


TABLES = [RaceTable]

pytestmark = pytest.mark.usefixtures("table")


def nothing(_: ExecutionContext[Any]) -> None:
    pass


def create(*task_ids: str) -> None:
    for task_id in task_ids:
        Order.create(task_id, group="g")


def ignore(task_id: str) -> None:
    Order.ship.ignore(task_id, reason="cancelled")


def standing() -> tuple[str | None, list[str], list[str]]:
    """Return who has the turn, who waits for it, and what is due."""
    group = Order.group("g")
    return group.turn, group.waiting(), [task.task_id for task in Order.ship.due()]


def test_one_that_enters_while_the_last_one_ends_has_the_turn(network: Network) -> None:
    create("o-1")
    before(network, "TransactWriteItems", lambda: Order.ship.run("o-1", nothing))
    create("o-2")
    assert standing() == ("o-2", [], ["o-2"])


def test_an_end_wakes_the_one_that_enters_meanwhile(network: Network) -> None:
    create("o-1")
    with Order.ship.start("o-1"):
        before(network, "TransactWriteItems", lambda: create("o-2"))
    assert standing() == ("o-2", [], ["o-2"])


def ignore_and_reopen(task_id: str) -> None:
    ignore(task_id)
    Order.ship.reopen(task_id)


def delete_and_create(task_id: str) -> None:
    Order.delete_task(task_id)
    create(task_id)


@pytest.mark.parametrize("end", [ignore, Order.delete_task])
def test_one_that_has_left_and_entered_meanwhile_leaves_the_turn_with_nobody(
    end: Callable[[str], object], network: Network
) -> None:
    create("o-1")
    before(network, "TransactWriteItems", lambda: ignore_and_reopen("o-1"))
    end("o-1")
    assert standing() == (None, [], [])


@pytest.mark.parametrize(
    ("group", "operation", "end"),
    [
        ("g", "TransactWriteItems", ignore),
        ("g", "TransactWriteItems", Order.delete_task),
        (None, "UpdateItem", ignore),
        (None, "DeleteItem", Order.delete_task),
    ],
)
def test_a_new_task_with_the_same_id_is_not_meant_and_keeps_its_turn(
    group: str | None, operation: str, end: Callable[[str], object], network: Network
) -> None:
    Order.create("o-1", group=group)
    before(network, operation, lambda: delete_and_create("o-1"))
    with pytest.raises(TaskNotFoundError, match="recreated"):
        end("o-1")
    assert standing() == ("o-1", [], ["o-1"])


@pytest.mark.parametrize("end", [ignore, Order.delete_task])
def test_one_that_gets_its_turn_meanwhile_hands_it_on(end: Callable[[str], object], network: Network) -> None:
    create("o-1", "o-2", "o-3")
    before(network, "TransactWriteItems", lambda: Order.ship.run("o-1", nothing))
    end("o-2")
    assert standing() == ("o-3", [], ["o-3"])


def test_one_that_is_ignored_while_it_is_to_be_woken_stays_ignored(network: Network) -> None:
    create("o-1", "o-2", "o-3")
    before(network, "TransactWriteItems", lambda: ignore("o-2"))
    ignore("o-1")
    assert (standing(), Order.get_task("o-2").state) == (("o-3", [], ["o-3"]), Order.ship.ignored)


def test_one_that_is_created_once_more_in_its_queue_is_woken_at_its_new_place(network: Network) -> None:
    create("o-1", "o-2", "o-3")
    before(network, "TransactWriteItems", lambda: delete_and_create("o-2"))
    ignore("o-1")
    assert standing() == ("o-3", ["o-2"], ["o-3"])


def test_one_that_was_ignored_before_a_look_at_its_group_and_reopened_after_it_leaves_the_turn_with_nobody(
    network: Network,
) -> None:
    def ignore_and_go_on() -> None:
        ignore("o-1")
        before(network, "TransactWriteItems", lambda: Order.ship.reopen("o-1"))

    create("o-1")
    before(network, "Query", ignore_and_go_on)
    Order.delete_task("o-1")  # whose condition has no token, unlike that of ignore
    assert standing() == (None, [], [])


def test_a_place_of_a_task_that_was_deleted_in_the_console_gives_no_turn_to_its_successor() -> None:
    create("o-1", "o-2", "o-3")
    RaceTable._get_connection().delete_item("o-2", "order")
    create("o-2")
    ignore("o-1")
    assert standing() == ("o-3", ["o-2"], ["o-3"])


def change_group(update: str, new: dict[str, str]) -> None:
    """Write the row of the group as another program may."""
    client(RaceTable).update_item(
        TableName=RaceTable.Meta.table_name,
        Key={"task_id": {"S": "g"}, "use_case_id": {"S": "#group#order"}},
        UpdateExpression=update,
        ExpressionAttributeValues={":new": new},
    )


def test_data_is_not_stored_by_a_task_whose_turn_another_program_has_taken() -> None:
    create("o-1")

    def store(ctx: ExecutionContext[Order]) -> None:
        ctx.group.data["by"] = "o-1"
        change_group("SET turn = :new", {"S": "o-2"})

    with pytest.raises(ValueNotStorableError, match="does not have its turn"):
        Order.ship.run("o-1", store)
    assert Order.group("g").data == {}


def lose_responses(network: Network, operation: str, number: int) -> None:
    """Carry out so many requests of this kind without an answer."""
    lost: list[Any] = []

    def rule(sent: str, request: Any, send: Callable[[], Any]) -> Any:
        answer = send()
        if sent == operation and len(lost) < number:
            lost.append(request)
            raise ReadTimeoutError(endpoint_url="of the test")
        return answer

    network.rule = rule


def test_lost_answers_neither_enter_twice_nor_hand_on_twice(network: Network) -> None:
    lose_responses(network, "TransactWriteItems", 1)
    assert Order.create("o-1", group="g").group_number == 1
    lose_responses(network, "TransactWriteItems", 1)
    assert Order.create("o-2", group="g").group_number == 2
    create("o-3")
    for task_id in ("o-1", "o-2"):
        lose_responses(network, "TransactWriteItems", 1)
        Order.ship.run(task_id, nothing)
    assert standing() == ("o-3", [], ["o-3"])


def test_a_group_that_others_keep_writing_refuses_after_some_tries(network: Network) -> None:
    create("o-1", "o-2")

    def rule(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        if operation == "TransactWriteItems":
            change_group("ADD version :new", {"N": "1"})
        return send()

    network.rule = rule
    with pytest.raises(TaskNotReadyError, match="it changed 4 times during the call"):
        ignore("o-1")
    network.rule = passing
    assert standing() == ("o-1", ["o-2"], ["o-1"])
