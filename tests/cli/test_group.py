"""Groups in the command line: `group`, and what other commands show of their tasks."""

import json
from datetime import timedelta

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import APP, read, run
from tests.cli.shop import Order
from tests.support.rows import change, keys, remove

pytestmark = pytest.mark.usefixtures("store")


def members(*task_ids: str) -> None:
    for task_id in task_ids:
        assert run("create", task_id, "group=customer-7").code == 0


def lose(task_id: str) -> None:
    remove(Order, Order.tracker.key(task_id))


def test_a_group_is_shown_with_its_turn_its_data_and_who_waits() -> None:
    assert run("group", "customer-7").lines == ["customer-7 of Order: nobody has the turn"]
    members("o-1", "o-2", "o-3")

    def count(ctx: object) -> None:
        ctx.group.data["paid"] = 1  # type: ignore[attr-defined]  # of a context

    Order.pay.run("o-1", count)
    assert run("group", "customer-7").lines == [
        "customer-7 of Order: o-1 has the turn, ship.pending",
        '  data   {"paid": 1}',
        "  waits  o-2",
        "  waits  o-3",
    ]
    found = read("group", "customer-7")
    assert (found["turn"], found["waiting"], found["needs_repair"]) == ("o-1", ["o-2", "o-3"], False)


def test_a_group_whose_turn_is_with_a_task_that_is_gone_is_found_and_repaired(store: StoppedClock) -> None:
    members("o-1", "o-2")
    lose("o-1")
    store.advance(timedelta(seconds=1))
    stuck = run("group", "customer-7")
    assert (stuck.code, stuck.err) == (
        1,
        "the task with the turn has ended, was deleted or is parked too long: add --repair\n",
    )
    assert "Order.group('customer-7')" in " ".join(run("doctor", "--rows").out.split())
    assert run("group", "customer-7", "--repair").lines == ["customer-7 of Order: o-2 has the turn, pay.pending"]
    assert "Order.group('customer-7')" not in " ".join(run("doctor", "--rows").out.split())


def test_a_turn_that_is_with_a_damaged_task_is_left_there(store: StoppedClock) -> None:
    members("o-1", "o-2")
    store.advance(timedelta(seconds=1))
    change(Order, "o-1", status={"S": "paid"})
    assert "damaged tasks: status" in run("doctor", "--rows").out
    assert "Order 'o-1' cannot be read: status" in run("group", "customer-7", "--repair").err


def test_members_are_shown_listed_exported_and_loaded_with_their_group(store: StoppedClock) -> None:
    members("o-1")
    due = store.now() + timedelta(hours=1)
    Order.create("o-2", group="customer-7", due_time=due)
    assert "group customer-7, waits for its turn" in " ".join(run("show", "o-2").out.split())
    assert f"who is first pynamodb-tracker group --app {APP} customer-7" in " ".join(run("show", "o-2").out.split())
    assert "who is first" not in run("show", "o-1").out
    assert "group customer-7, has the turn" in " ".join(run("show", "o-1").out.split())
    assert [line.split(maxsplit=3)[3] for line in run("list", "--waiting").lines[1:]] == [
        "its turn in group customer-7"
    ]
    text = run("export").out
    lines = {line["task_id"]: line for line in map(json.loads, text.splitlines())}
    assert lines["o-2"] == {
        "task_id": "o-2",
        "state": "pay.pending",
        "due_time": due.isoformat(),
        "group": "customer-7",
    }
    assert run("doctor", "--rows").code == run("doctor").code
    Order.delete_use_case()
    assert list(keys(Order)) == []
    assert run("load", "-", "--threads", "1", text=text).code == 0
    assert Order.group("customer-7").turn is not None
