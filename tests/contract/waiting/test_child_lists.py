"""The list of a task's children, which is put beside the success that begins to wait for them."""

import zlib
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from pynamodb.attributes import NumberAttribute
from pynamodb.models import Model

from pynamodb_tracker import ExecutionContext, Step, UseCase
from pynamodb_tracker.features.children.joins import read_children
from tests.contract.waiting.test_joins import unheard_once
from tests.support.network import Network
from tests.support.recorder import recorded
from tests.support.rows import client, keys, put
from tests.support.shop import AppTask
from tests.support.workers import succeed

pytestmark = pytest.mark.usefixtures("table", "task")

LIST = {"task_id": {"S": "c"}, "use_case_id": {"S": "box to list#children"}}


class Box(AppTask):
    use_case_id = UseCase("box to list", keep_for=timedelta(days=30))

    split, check, ship = Step(100), Step(200), Step(300)


CREATED = Box, "c"


class Note(AppTask):
    use_case_id = UseCase("note to list")

    print = Step(100)


def creating(*names: str, wait_until: bool = False) -> Any:
    """Return a function of a step that creates these notes, and waits for them; maybe not any longer than now."""

    def function(ctx: ExecutionContext[Box]) -> None:
        for name in names:
            ctx.create(Note, name, wait=True)
        if wait_until:
            ctx.wait_until(timedelta(0))

    return function


def listed(task_id: str = "c") -> tuple[list[str], int] | None:
    """Return the ids of the children that are found by the list, and how many more the task waits for."""
    found = read_children([Box.get_task(task_id)]).get((task_id, "box to list"))
    return found and ([task.task_id for task in found.tasks], found.unlisted)


def stored_list() -> Any:
    return client(AppTask).get_item(TableName=AppTask.Meta.table_name, Key=LIST).get("Item")


def test_the_children_of_a_task_are_found_until_each_has_ended() -> None:
    with recorded() as requests:
        Box.split.run("c", creating("a", "b"))
    assert (requests.operations, listed()) == (["UpdateItem", "TransactWriteItems"], (["a", "b"], 0))
    found = read_children([Box.get_task("c")], most=1)["c", "box to list"]
    assert ([task.task_id for task in found.tasks], found.unlisted) == (["a"], 1)
    assert sorted(task.task_id for task in AppTask.scan()) == ["a", "b", "c"]
    succeed(Note.print, "a")
    assert listed() == (["b"], 0)
    succeed(Note.print, "b")
    with recorded() as requests:
        assert listed() is None
    assert requests.operations == ["GetItem"]


def test_each_success_lists_its_own_children_and_those_that_it_asks_for_again() -> None:
    Box.split.run("c", creating("a", "e", wait_until=True))
    with recorded() as requests:
        Box.check.run("c", creating("b", "a"))
    assert requests.operations == ["UpdateItem", *["TransactWriteItems"] * 2]
    assert listed() == (["b", "a"], 0)  # it has done without e
    for name in ("e", "a", "b"):
        assert Box.get_task("c").state == Box.ship.pending
        succeed(Note.print, name)
    succeed(Box.ship, "c")
    assert Box.create_or_merge("c").effect == "restarted"
    assert listed() is None
    with recorded() as requests:
        Box.split.run("c", creating("d"))
    assert requests.operations == ["UpdateItem", "TransactWriteItems"]  # the list of the earlier round is in no way
    assert listed() == (["d"], 0)


def test_a_turn_in_a_group_is_no_child() -> None:
    Box.delete_task("c")
    for name in ("first", "c"):
        Box.create(name, group="g")
    assert listed() is None


def test_a_child_that_another_program_has_deleted_is_among_those_that_no_list_names() -> None:
    Box.split.run("c", creating("a", "b"))
    client(AppTask).delete_item(
        TableName=AppTask.Meta.table_name, Key={"task_id": {"S": "a"}, "use_case_id": {"S": "note to list"}}
    )
    assert listed() == (["b"], 1)


def test_an_answer_that_is_lost_leaves_the_list_of_the_success(network: Network) -> None:
    unheard_once(network)
    Box.split.run("c", creating("a"))
    assert listed() == (["a"], 0)


def test_a_list_names_as_many_as_4_kb_take_and_says_how_many_are_left() -> None:
    names = ["".join(str(uuid4()) for _ in range(3)) for _ in range(97)]  # about 6 kB
    Box.split.run("c", creating(*names))
    found = listed()
    assert found is not None
    ids, unlisted = found
    assert (ids, len(ids) + unlisted) == (names[: len(ids)], 97)
    assert 3_000 < len(stored_list()["piece"]["B"]) <= 4_096


class Till(Model):
    class Meta(AppTask.Meta):
        pass

    task_id = AppTask.task_id
    use_case_id = AppTask.use_case_id
    balance = NumberAttribute()


@pytest.mark.parametrize(("own_writes", "names"), [(1, 97), (2, 0)])
def test_a_transaction_that_is_full_without_the_list_is_sent_without_it(own_writes: int, names: int) -> None:
    with Box.split.start("c") as ctx:
        creating(*(f"n{number}" for number in range(97)))(ctx)
        with ctx.transaction(succeed=True) as transaction:
            for number in range(own_writes):
                transaction.save(Till(f"till-{number}", "till", balance=1))
    found = listed()
    assert found is not None
    assert (len(found[0]), found[1]) == (names, 97 - names)


def test_there_is_room_for_the_list_beside_as_many_follow_ups_as_there_may_be() -> None:
    with Box.split.start("c") as ctx:
        for number in range(60):
            ctx.create(Box, f"follow-up {number}")
        creating(*(f"n{number}" for number in range(97)))(ctx)
    found = listed()
    assert found is not None
    assert (len(found[0]), found[1]) == (97, 0)


def test_a_list_ends_with_its_task(clock: Any) -> None:
    Box.split.run("c", creating("a"))
    succeed(Note.print, "a")
    for step in (Box.check, Box.ship):
        succeed(step, "c")
    assert int(stored_list()["expire_time"]["N"]) >= int(clock.now().timestamp())
    Box.delete_task("c")
    assert [key["task_id"]["S"] for key in keys(AppTask)] == ["a"]


def test_a_late_copy_of_that_end_leaves_the_list_of_the_next_round() -> None:
    Box.split.run("c", creating("a"))
    for step, name in ((Note.print, "a"), (Box.check, "c")):
        succeed(step, name)
    with recorded() as requests:
        succeed(Box.ship, "c")
    [late] = [each.body for each in requests if each.body.get("Key") == LIST and "UpdateItem" in each.operation]
    Box.create_or_merge("c")
    Box.split.run("c", creating("b"))
    with pytest.raises(client(AppTask).exceptions.ConditionalCheckFailedException):
        client(AppTask).update_item(**late)


def test_a_list_that_is_damaged_names_nobody_and_the_next_one_takes_its_place() -> None:
    Box.split.run("c", creating("a", wait_until=True))
    too_long = b" " * 6_000_000 + b'[["a","note to list"]]'
    for content in (b"no list", *map(zlib.compress, (b"[" * 100_000, b'[["a"]]', too_long))):
        put(AppTask, {**stored_list(), "piece": {"B": content}})
        assert listed() == ([], 1)
    Box.check.run("c", creating("b"))
    assert listed() == (["b"], 0)
