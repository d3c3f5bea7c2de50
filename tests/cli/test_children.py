"""What the commands say of tasks that wait for others: which these are, and that an ignored one blocks them."""

import json

import pytest

from pynamodb_tracker import ExecutionContext
from tests.cli.command import run
from tests.cli.shop import Order
from tests.support.rows import change

pytestmark = pytest.mark.usefixtures("store")


def split(ctx: ExecutionContext[Order]) -> None:
    for name in ("a", "b"):
        ctx.create(Order, f"{ctx.task.task_id}/{name}", wait=True)


@pytest.fixture
def blocked() -> None:
    """Let a task wait for one that waits for an ignored one."""
    Order.create("o-1")
    Order.pay.run("o-1", split)
    Order.pay.run("o-1/a", split)
    Order.pay.ignore("o-1/a/b", reason="no paper")


@pytest.mark.usefixtures("blocked")
def test_a_task_is_shown_with_its_children_and_what_blocks_it() -> None:
    text = " ".join(run("show", "o-1").out.split())
    assert "next blocked by order o-1/a/b, which gave up, waits for 2 tasks" in text
    assert "waits for order o-1/a: ship.pending waits for order o-1/b: pay.pending last worker" in text
    assert "waits for order o-1/a/b: pay gave up" in " ".join(run("show", "o-1/a").out.split())
    found = json.loads(run("show", "o-1", "--json").out)
    assert [(each["task_id"], each["state"]) for each in found["children"]] == [
        ("o-1/a", "ship.pending"),
        ("o-1/b", "pay.pending"),
    ]
    assert [each["task_id"] for each in found["blocked_by"]] == ["o-1/a/b"]


@pytest.mark.usefixtures("blocked")
def test_status_and_stuck_name_what_is_blocked_until_somebody_decides() -> None:
    assert "o-1 is blocked by order o-1/a/b, which gave up" in run("status").out
    ended = run("stuck")
    assert (ended.code, sorted(ended.out.splitlines())) == (
        1,
        [
            "Order o-1 is blocked by order o-1/a/b, which gave up",
            "Order o-1/a is blocked by order o-1/a/b, which gave up",
        ],
    )
    assert {each["task_id"] for each in json.loads(run("stuck", "--json").out)} == {"o-1", "o-1/a"}
    [of] = json.loads(run("status", "--json").out)["use_cases"]
    assert {each["task_id"] for each in of["blocked"]} == {"o-1", "o-1/a"}

    Order.pay.reopen("o-1/a/b")
    assert run("stuck").code == 0
    assert "blocked" not in run("status").out
    assert "blocked_by" not in json.loads(run("show", "o-1", "--json").out)


@pytest.mark.usefixtures("blocked")
def test_damaged_children_are_shown_as_far_as_they_can_be_read() -> None:
    change(Order, "o-1/a", parent={"N": "1"})
    change(Order, "o-1/b", status={"S": "paid"})
    text = " ".join(run("show", "o-1").out.split())
    assert "waits for order o-1/b: unknown.0 waits for 1 task more" in text
