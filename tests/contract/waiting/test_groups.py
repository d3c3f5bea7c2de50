"""Groups: their tasks run one at a time, in the order of their creation, across all their steps."""

import gc
import weakref
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pynamodb_tracker import (
    ExecutionContext,
    GiveUp,
    Group,
    LockLostError,
    Repeat,
    Step,
    Task,
    TaskAlreadyExistsError,
    TaskLockedError,
    TaskNotReadyError,
    TrackerError,
    UseCase,
    ValueNotStorableError,
)
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.features.children import follow_ups
from pynamodb_tracker.features.groups import queue as groups
from tests.support.engines import only_dynoxide
from tests.support.network import Answer, Network, Request, error, unreached
from tests.support.recorder import recorded
from tests.support.rows import change, client, keys, stored
from tests.support.workers import die, succeed


class GroupTable(Task):
    class Meta:
        table_name = "groups"
        region = "us-east-1"


class Order(GroupTable):
    use_case_id = UseCase("order", keep_for=timedelta(days=1), keep_ignored_for=timedelta(days=1))

    pay = Step(10, max_attempts=2)
    ship = Step(20, max_attempts=2)


class Louder(GroupTable):
    """Its name continues that of orders with a character that sorts before the `#` of places."""

    use_case_id = UseCase("order!")

    shout = Step(10)


TABLES = [GroupTable]

pytestmark = pytest.mark.usefixtures("table")


def create(*task_ids: str, group: str = "customer-7") -> None:
    for task_id in task_ids:
        Order.create(task_id, group=group)


def group() -> Group[Order]:
    return Order.group("customer-7")


def nothing(_: ExecutionContext[Any]) -> None:
    pass


def give_up(_: ExecutionContext[Any]) -> None:
    raise GiveUp


def finish(task_id: str) -> None:
    Order.pay.run(task_id, nothing)
    Order.ship.run(task_id, nothing)


def due() -> list[str]:
    return [task.task_id for step in (Order.pay, Order.ship) for task in step.due()]


def records() -> list[str]:
    return sorted(key["use_case_id"]["S"] for key in keys(GroupTable) if key["use_case_id"]["S"].startswith("#"))


def test_tasks_of_a_group_run_one_at_a_time_in_the_order_of_their_creation() -> None:
    create("o-3", "o-1", "o-2")
    create("o-9", group="customer-8")
    assert (group().turn, group().waiting(), group().waiting(limit=1)) == ("o-3", ["o-1", "o-2"], ["o-1"])
    finish("o-9")
    for task_id in ("o-3", "o-1", "o-2"):
        assert due() == [task_id]
        finish(task_id)
    assert (group().turn, group().waiting(), records()) == (None, [], ["#group#order"] * 2)
    create("o-4")
    assert due() == ["o-4"]


def test_a_task_that_waits_for_its_turn_says_so_and_so_does_its_refusal() -> None:
    create("o-1", "o-2")
    assert [Order.get_task(task_id).waits_for for task_id in ("o-1", "o-2")] == [None, "its turn in group customer-7"]
    with pytest.raises(TaskNotReadyError, match="waits for its turn in group customer-7"):
        Order.pay.run("o-2", nothing)


def test_the_first_one_waits_for_its_own_time_and_nobody_passes_it(clock: StoppedClock) -> None:
    Order.create("o-1", group="customer-7", due_time=timedelta(hours=1))
    later = Order.create("o-2", group="customer-7", due_time=timedelta(hours=2))
    assert (due(), later.turn_due_time) == ([], clock.now() + timedelta(hours=2))
    clock.advance(timedelta(hours=1))
    finish("o-1")
    assert due() == []
    clock.advance(timedelta(hours=1))
    assert due() == ["o-2"]


def test_failures_and_dead_workers_keep_the_turn(clock: StoppedClock) -> None:
    create("o-1", "o-2")
    with pytest.raises(ZeroDivisionError), Order.pay.start("o-1"):
        raise ZeroDivisionError
    assert due() == ["o-1"]
    Order.pay.start("o-1").__enter__()
    clock.advance(timedelta(hours=1))
    assert due() == ["o-1"]


def spent(clock: StoppedClock) -> None:
    for _ in range(2):
        Order.pay.start("o-1").__enter__()
        clock.advance(timedelta(hours=1))
    with pytest.raises(Exception, match="attempts are used"):
        Order.pay.run("o-1", nothing)


def given_up(_: StoppedClock) -> None:
    with pytest.raises(GiveUp):
        Order.pay.run("o-1", give_up)


def ignored(_: StoppedClock) -> None:
    Order.pay.ignore("o-1", reason="cancelled")


def cancelled(_: StoppedClock) -> None:
    with pytest.raises(LockLostError), Order.pay.start("o-1"):
        Order.pay.ignore("o-1", reason="cancelled", even_running=True, even_in_group=True)


def deleted(_: StoppedClock) -> None:
    Order.delete_task("o-1")


@pytest.mark.parametrize("end", [spent, given_up, ignored, cancelled, deleted])
def test_every_end_hands_on_the_turn(end: Callable[[StoppedClock], None], clock: StoppedClock) -> None:
    create("o-1", "o-2", "o-3")
    end(clock)
    assert (due(), group().turn, group().waiting()) == (["o-2"], "o-2", ["o-3"])


def test_a_task_of_a_group_that_repeats_is_refused_with_what_to_use_instead() -> None:
    with unreached(), pytest.raises(ValueError, match=r"let a repeating task without a group call ctx\.create"):
        Order.create("o-1", group="customer-7", repeat=Repeat.every(timedelta(hours=1)))


def test_the_data_of_a_group_is_the_same_for_whoever_touches_it_while_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Order.create("o-1", group="g")
    read, found = groups.read_queue, list[dict[str, Any]]()
    with Order.pay.start("o-1") as ctx:

        def reading(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(groups, "read_queue", read)
            found.append(ctx.group.data)
            return read(*args, **options)

        monkeypatch.setattr(groups, "read_queue", reading)
        assert ctx.group.data is found[0]


@only_dynoxide
def test_many_that_are_created_on_threads_enter_their_group_in_their_order() -> None:
    tasks = [{"task_id": f"o-{number}", "group": f"customer-{number % 2}"} for number in range(16)]
    assert len(Order.create_many([*tasks, "alone"], threads=16).succeeded) == 17
    for customer in range(2):
        entered = Order.group(f"customer-{customer}")
        assert [entered.turn, *entered.waiting()] == [f"o-{number}" for number in range(customer, 16, 2)]


def test_a_running_task_keeps_the_turn_unless_it_is_to_be_handed_on_by_name() -> None:
    create("o-1", "o-2")
    die(Order.pay, "o-1")
    ignore = partial(Order.pay.ignore, "o-1", reason="cancelled")
    with pytest.raises(TaskLockedError, match=r"the next task of group 'customer-7' would start while its block"):
        ignore(even_running=True)
    with pytest.raises(ValueError, match="give even_running=True as well"):
        ignore(even_in_group=True)
    assert group().turn == "o-1"
    ignore(even_running=True, even_in_group=True)
    assert group().turn == "o-2"


@pytest.mark.parametrize("end", [ignored, deleted])
def test_one_that_ends_while_it_waits_leaves_its_place(
    end: Callable[[StoppedClock], None], clock: StoppedClock
) -> None:
    create("o-0", "o-1", "o-2")
    end(clock)
    assert (due(), group().waiting(), len(records())) == (["o-0"], ["o-2"], 2)
    finish("o-0")
    assert due() == ["o-2"]


def test_ignoring_one_returns_it_as_it_is_stored() -> None:
    Order.create("o-1", group="g")
    ignored, read = Order.pay.ignore("o-1", reason="no card"), Order.get_task("o-1")
    assert (ignored.update_time, ignored.due_time) == (read.update_time, read.due_time)
    assert (ignored.expire_time, ignored.to_dict()) == (read.expire_time, read.to_dict())


def test_a_task_that_was_ignored_enters_at_the_end_once_it_is_reopened() -> None:
    create("o-1", "o-2", "o-3")
    Order.pay.ignore("o-1", reason="cancelled")
    Order.pay.ignore("o-3", reason="cancelled")
    reopened = Order.pay.reopen("o-1", by="ada")
    assert (reopened.waits_for, reopened.expire_time) == ("its turn in group customer-7", None)
    assert Order.pay.reopen("o-1").attempt == 0
    Order.pay.reopen("o-3")
    assert (due(), group().waiting()) == (["o-2"], ["o-1", "o-3"])
    finish("o-2")
    finish("o-1")
    assert due() == ["o-3"]


def test_reopening_one_that_has_failed_keeps_its_turn_and_one_of_an_idle_group_gets_it() -> None:
    create("o-1", "o-2")
    with pytest.raises(ZeroDivisionError), Order.pay.start("o-1"):
        raise ZeroDivisionError
    assert (Order.pay.reopen("o-1").attempt, due(), group().waiting()) == (0, ["o-1"], ["o-2"])
    Order.pay.ignore("o-1", reason="cancelled")
    Order.pay.ignore("o-2", reason="cancelled")
    assert Order.pay.reopen("o-2").waits_for is None
    assert (due(), group().turn) == (["o-2"], "o-2")


def test_places_of_tasks_that_are_gone_are_passed_over_and_cleared() -> None:
    create(*(f"o-{number:03d}" for number in range(30)))
    for number in range(1, 29):
        GroupTable._get_connection().delete_item(f"o-{number:03d}", "order")
    finish("o-000")
    assert (due(), group().turn, group().waiting()) == (["o-029"], "o-029", [])
    assert records() == ["#group#order"]


def test_data_is_shared_and_saved_with_the_success_of_each_step() -> None:
    def count(ctx: ExecutionContext[Order]) -> None:
        ctx.group.data.setdefault("ran", []).append(f"{ctx.task.task_id} {ctx.task.fence}")

    def fail(ctx: ExecutionContext[Order]) -> None:
        ctx.group.data["ran"] = []
        raise ZeroDivisionError

    create("o-1", "o-2")
    Order.pay.run("o-1", count)
    with pytest.raises(ZeroDivisionError):
        Order.ship.run("o-1", fail)
    create("o-3")  # while the next attempt is due
    Order.ship.run("o-1", count)
    Order.pay.run("o-2", count)
    assert group().data == {"ran": ["o-1 1", "o-1 3", "o-2 1"]}


def test_a_task_that_enters_while_the_data_changes_loses_nothing() -> None:
    create("o-1")
    with Order.pay.start("o-1") as ctx:
        ctx.group.data["seen"] = 1
        create("o-2")
    with Order.ship.start("o-1") as ctx:
        ctx.group.data["seen"] += 1
        create("o-3")
    assert (group().data, due(), group().waiting()) == ({"seen": 2}, ["o-2"], ["o-3"])


def test_a_worker_that_has_lost_its_lock_changes_neither_the_data_nor_the_turn(clock: StoppedClock) -> None:
    def take_over() -> None:
        clock.advance(timedelta(hours=1))
        with Order.pay.start("o-1") as ctx:
            ctx.group.data["by"] = "taker"
        Order.ship.run("o-1", nothing)

    def freeze(zombie: ExecutionContext[Order]) -> None:
        zombie.group.data["by"] = "zombie"
        take_over()

    create("o-1", "o-2")
    with pytest.raises(LockLostError):
        Order.pay.run("o-1", freeze)
    assert (group().data, group().turn) == ({"by": "taker"}, "o-2")


@pytest.mark.parametrize(
    "data", [{"x": object()}, {"x": "y" * 350_000}, ["no dictionary"]], ids=["odd", "large", "list"]
)
def test_data_that_cannot_be_stored_fails_the_attempt(data: Any) -> None:
    create("o-1")
    with pytest.raises(ValueNotStorableError, match="group 'customer-7'"), Order.pay.start("o-1") as ctx:
        ctx.group.data = data
    assert (Order.get_task("o-1").state, group().data) == (Order.pay.ignored, {})


def test_a_step_that_is_not_the_last_sends_nothing_for_the_group_unless_it_changes_its_data() -> None:
    create("o-1")
    before = stored_group()
    with Order.pay.start("o-1") as ctx:
        assert ctx.group.data == {}
    assert stored_group() == before


def stored_group() -> Any:
    key = {"task_id": {"S": "customer-7"}, "use_case_id": {"S": "#group#order"}}
    return client(GroupTable).get_item(TableName=GroupTable.Meta.table_name, Key=key, ConsistentRead=True)["Item"]


def test_a_place_that_another_program_has_damaged_is_named() -> None:
    create("o-1", "o-2")
    key = {"task_id": {"S": "customer-7"}, "use_case_id": {"S": "#group#order##0000000002"}}
    client(GroupTable).update_item(
        TableName=GroupTable.Meta.table_name,
        Key=key,
        ConditionExpression="attribute_exists(turn_due_time)",
        UpdateExpression="SET turn_due_time = :naive",
        ExpressionAttributeValues={":naive": {"S": "2026-01-01T00:00:00"}},
    )
    with pytest.raises(TrackerError, match=r"cannot read the group 'customer-7' .* Another program has changed it"):
        group().waiting()


def test_a_task_that_has_ended_does_not_start_beside_the_one_that_has_the_turn() -> None:
    create("o-1", "o-2")
    finish("o-1")
    with pytest.raises(TaskNotReadyError, match="its turn has passed"):
        Order.pay.run("o-1", nothing, also_from=(Order.ship.succeeded,))
    with pytest.raises(TaskNotReadyError, match="each of its tasks runs once"):
        Order.create_or_merge("o-1")


def test_an_existing_task_enters_no_group() -> None:
    create("o-1")
    Order.create("o-2")
    for task_id in ("o-1", "o-2"):
        with pytest.raises(TaskAlreadyExistsError):
            create(task_id)
    assert group().waiting() == []


@pytest.mark.parametrize("name", [7, "", "x" * 1025, None])
def test_a_group_has_a_name_of_1_to_1024_bytes(name: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"group name|name of a group"):
        Order.group(name)
    if name is not None:
        with pytest.raises((TypeError, ValueError), match=r"group name|name of a group"):
            Order.create("o-1", group=name)


def test_a_task_begins_in_its_group_in_a_pending_state() -> None:
    Order.create("o-1", group="customer-7", state=Order.ship.pending)
    assert due() == ["o-1"]
    with pytest.raises(ValueError, match="begins pending"):
        Order.create("o-2", group="customer-7", state=Order.ship.ignored)


def test_records_of_groups_are_taken_for_no_tasks_and_not_for_those_of_other_use_cases() -> None:
    create("customer-7", "o-1")
    for task_id in ("l-1", "l-2"):
        Louder.create(task_id, group="customer-7")
    assert [task.task_id for task in Order.query("customer-7")] == ["customer-7"]
    assert sorted(task.task_id for task in GroupTable.scan()) == ["customer-7", "l-1", "l-2", "o-1"]
    Order.delete_task("customer-7")
    assert (group().turn, group().waiting(), due()) == ("o-1", [], ["o-1"])
    Louder.shout.run("l-1", nothing)
    assert Louder.group("customer-7").turn == "l-2"


def test_a_task_without_a_group_has_none() -> None:
    Order.create("o-1")
    with Order.pay.start("o-1") as ctx:
        with pytest.raises(AttributeError, match="created without group="):
            _ = ctx.group
        assert ctx.task.group is None


@pytest.mark.parametrize("how", ["turn deleted", "turn deleted and created again", "turn ended", "row deleted"])
def test_a_group_that_another_program_has_broken_is_repaired(how: str) -> None:
    create("o-1", "o-2", "o-3")
    assert group().repair() == "o-1"
    key = ("o-1", "order") if how.startswith("turn deleted") else ("customer-7", "#group#order")
    if how == "turn ended":
        change(Order, "o-1", status={"N": "1000"}, status_key={"S": "order#1000#0"})
    else:
        GroupTable._get_connection().delete_item(*key)
    if how == "row deleted":
        finish("o-1")
    last = ["o-1"] if how == "turn deleted and created again" else []
    create(*last)
    assert (group().repair(), due(), group().waiting()) == ("o-2", ["o-2"], ["o-3", *last])
    create("o-4")
    assert group().waiting() == ["o-3", *last, "o-4"]
    assert stored(Order, "o-4")["group_number"] == {"N": str(4 + len(last))}


def test_follow_ups_enter_their_groups_with_the_success_the_own_one_included() -> None:
    create("o-1", "o-2")

    def split(ctx: ExecutionContext[Order]) -> None:
        for task_id in ("o-3", "o-4"):
            ctx.create(Order, task_id, group="customer-7")
        for task_id in ("o-5", "o-6"):
            ctx.create(Order, task_id, group="customer-8")
        ctx.create(Louder, "l-1", group="customer-7")
        assert (group().waiting(), Order.group("customer-8").turn) == (["o-2"], None)

    Order.pay.run("o-1", split)
    assert (group().turn, group().waiting()) == ("o-1", ["o-2", "o-3", "o-4"])
    assert (Order.group("customer-8").turn, Order.group("customer-8").waiting()) == ("o-5", ["o-6"])
    assert Louder.group("customer-7").turn == "l-1"


def test_the_last_step_hands_on_to_its_own_follow_up() -> None:
    create("o-1")
    Order.pay.run("o-1", nothing)

    def follow(ctx: ExecutionContext[Order]) -> None:
        ctx.create(Order, "o-2", group="customer-7")
        ctx.group.data["last"] = ctx.task.task_id
        ctx.create(Order, "o-3", group="customer-7")

    Order.ship.run("o-1", follow)
    assert (due(), group().turn, group().waiting(), group().data) == (["o-2"], "o-2", ["o-3"], {"last": "o-1"})


def test_a_follow_up_that_exists_already_enters_no_second_time() -> None:
    def follow(ctx: ExecutionContext[Order]) -> None:
        ctx.create(Order, "o-1/a", group="customer-8")
        ctx.create(Order, "o-1/b", group="customer-8")

    Order.create("o-1")
    Order.pay.run("o-1", follow)
    with Order.pay.start("o-1", also_from=(Order.ship.pending,)) as ctx:
        follow(ctx)
        ctx.create(Order, "o-1/c", group="customer-8")
    assert (Order.group("customer-8").turn, Order.group("customer-8").waiting()) == ("o-1/a", ["o-1/b", "o-1/c"])


def test_a_step_cannot_wait_for_a_task_of_its_own_group_nor_create_more_than_fit() -> None:
    create("o-1")
    with Order.pay.start("o-1") as ctx:
        with pytest.raises(ValueError, match="in its own group"):
            ctx.create(Order, "o-2", group="customer-7", wait=True)
        for number in range(31):
            ctx.create(Order, f"p-{number}", group=f"c-{number}")
        with pytest.raises(ValueError, match="or 31 in groups"):
            ctx.create(Order, "p-31", group="c-31")
    assert len(due()) == 32


def test_a_task_outside_of_groups_creates_one_more_in_groups_with_its_success() -> None:
    Order.create("o-1")
    with Order.pay.start("o-1") as ctx:
        for number in range(32):
            ctx.create(Order, f"p-{number}", group=f"c-{number}")
        with pytest.raises(ValueError, match="or 32 in groups"):
            ctx.create(Order, "p-32", group="c-32")
    assert len([task_id for task_id in due() if task_id.startswith("p-")]) == 32


def test_a_member_whose_next_step_waits_keeps_its_turn_and_waits_on_after_a_reopen() -> None:
    create("o-1", "o-2")
    with Order.pay.start("o-1") as ctx:
        ctx.create(Louder, "l-1", group="customer-7", wait=True)
    assert (Order.get_task("o-1").waits_for, group().turn) == ("1 task", "o-1")
    Order.ship.ignore("o-1", reason="cancelled")
    assert Order.ship.reopen("o-1").waits_for == "its turn in group customer-7 and for 1 task"
    finish("o-2")
    assert (Order.get_task("o-1").waits_for, due(), group().turn) == ("1 task", [], "o-1")
    Louder.shout.run("l-1", nothing)
    assert due() == ["o-1"]


def test_an_end_that_dynamodb_does_not_allow_is_logged_and_leaves_the_error_of_the_block(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    create("o-1")

    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        if operation == "TransactWriteItems":
            raise error(operation, "AccessDeniedException")
        return send()

    def refused(_: ExecutionContext[Any]) -> None:
        network.rule = rule
        raise GiveUp

    with pytest.raises(GiveUp) as raised:
        Order.pay.run("o-1", refused)
    assert "could not record this: Failed to write transaction items" in "".join(raised.value.__notes__)
    assert "(attempt 1) was not recorded" in caplog.text


def test_all_tasks_of_a_use_case_can_be_deleted_and_the_group_begins_again() -> None:
    create("o-1", "o-2", "o-3")
    assert sorted(Order.delete_use_case().succeeded) == ["o-1", "o-2", "o-3"]
    assert (group().turn, group().waiting(), records()) == (None, [], [])
    create("o-1")
    assert due() == ["o-1"]


def test_a_follow_up_that_exists_does_not_enter_its_group_once_more() -> None:
    Order.create("o-1")
    for also_from in ((), (Order.ship.pending,)):
        with Order.pay.start("o-1", also_from=also_from) as ctx:
            ctx.create(Louder, "l-1", group="customer-7")
        if not also_from:
            succeed(Louder.shout, "l-1")
    assert (Louder.group("customer-7").turn, list(Louder.group("customer-7").waiting())) == (None, [])


def test_a_run_that_ends_in_a_group_is_freed_without_the_garbage_collector() -> None:
    Louder.create("l-1", group="customer-7")
    gc.disable()
    try:
        with Louder.shout.start("l-1") as ctx:
            row = weakref.ref(ctx.task)
        del ctx
        assert row() is None
    finally:
        gc.enable()


def test_the_last_step_leaves_room_in_its_transaction_for_handing_on_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_ups, "_MOST_WITH_SUCCESS", 5)  # in place of 98 of the 100 that DynamoDB takes
    create("o-1", "o-2")
    Order.pay.run("o-1", nothing)
    with recorded(GroupTable) as requests, Order.ship.start("o-1") as ctx:
        for number in range(4):
            ctx.create(Louder, f"l-{number}")
    assert [len(each.body["TransactItems"]) for each in requests if each.operation == "TransactWriteItems"] == [
        3,
        1 + 2 + 3,
    ]
    assert (len(list(Louder.shout.due())), group().turn) == (4, "o-2")
