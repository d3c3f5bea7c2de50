"""`cancel`: a task is ignored at whichever step it is, with the tasks that it waits for."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.expressions.operand import Path

from pynamodb_tracker import (
    Cancellation,
    ExecutionContext,
    LockLostError,
    Step,
    TaskAlreadySucceededError,
    TaskIgnoredError,
    TaskLockedError,
    TaskNotFoundError,
    UseCase,
)
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.testing import stopped_clock
from tests.support.network import Network, before, error, passing
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order
from tests.support.workers import die, fail

pytestmark = pytest.mark.usefixtures("table")


class Crate(AppTask):
    use_case_id = UseCase("crate to cancel")

    split, ship = Step(100), Step(200)


class Slip(AppTask):
    use_case_id = UseCase("slip to cancel")

    print = Step(100)


def cancel(task_id: str = "o-1", **options: Any) -> Cancellation[Order]:
    return Order.cancel(task_id, reason="by phone", by="ada", **options)


def split(ctx: ExecutionContext[Crate]) -> None:
    for name in ("a", "b"):
        ctx.create(Crate, f"{ctx.task.task_id}/{name}", wait=True)


@pytest.mark.parametrize("state", ["pending", "failed"])
def test_a_task_is_cancelled_at_the_step_where_it_is_and_once(state: str) -> None:
    Order.create("o-1", state=Order.ship.pending)
    if state == "failed":
        fail(Order.ship, "o-1")
    with recorded() as requests:
        done = cancel()
    assert requests.operations[:2] == ["GetItem", "UpdateItem"]  # and the log item of a task that had failed
    assert (done.effect, done.running, done.blocked_parent) == ("cancelled", False, None)
    assert done.task.state == Order.ship.ignored
    with recorded() as requests:
        again = Order.cancel("o-1", reason="another reason", children=True)
    assert requests.operations == ["GetItem"]
    assert (again.effect, again.task.errors) == ("already_cancelled", done.task.errors)
    assert [(each.worker, each.message) for each in done.task.errors if each.type == "ignored"] == [("ada", "by phone")]


def test_a_running_task_records_nothing_more() -> None:
    Order.create("o-1")
    run = Order.confirm_payment.start("o-1")
    run.__enter__()
    assert cancel().running
    with pytest.raises(LockLostError, match="ada ignored the task"):
        run.__exit__(None, None, None)
    assert Order.get_task("o-1").state == Order.confirm_payment.ignored


def test_a_task_whose_worker_has_died_is_not_running(stopped_clock: StoppedClock) -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    stopped_clock.advance(timedelta(hours=1))
    assert not cancel().running


def test_a_success_in_between_is_followed_to_the_next_step(network: Network) -> None:
    Order.create("o-1")
    run = Order.confirm_payment.start("o-1")
    run.__enter__()
    before(network, "UpdateItem", lambda: run.__exit__(None, None, None))
    done = cancel()
    assert (done.task.state, done.running) == (Order.ship.ignored, False)


def test_a_claim_in_between_is_cancelled(network: Network) -> None:
    Order.create("o-1")
    before(network, "UpdateItem", lambda: Order.confirm_payment.start("o-1").__enter__())
    done = cancel()
    assert (done.task.state, done.running) == (Order.confirm_payment.ignored, True)


def test_the_last_success_wins_and_is_named(network: Network) -> None:
    Order.create("o-1", state=Order.deliver.pending)
    run = Order.deliver.start("o-1")
    run.__enter__()
    before(network, "UpdateItem", lambda: run.__exit__(None, None, None))
    with pytest.raises(TaskAlreadySucceededError, match=r"cannot cancel Order 'o-1': it is deliver succeeded"):
        cancel()


def test_a_cancel_without_an_answer_is_not_repeated_after_a_reopen(network: Network) -> None:
    Order.create("o-1")

    def lose_the_response(operation: str, _request: dict[str, Any], send: Callable[[], Any]) -> Any:
        signal = send()
        if operation == "UpdateItem":
            network.rule = passing
            Order.confirm_payment.reopen("o-1")
            raise error(operation, "InternalServerError")
        return signal

    network.rule = lose_the_response
    done = cancel()
    assert (done.effect, done.task.state) == ("cancelled", Order.confirm_payment.pending)
    assert Order.get_task("o-1").state == Order.confirm_payment.pending


def test_a_task_that_is_missing_is_refused_and_so_is_one_of_another_life(network: Network) -> None:
    with pytest.raises(TaskNotFoundError, match="cannot cancel Order 'o-1'"):
        cancel()
    Order.create("o-1")

    def begin_another_life() -> None:
        Order.delete_task("o-1")
        Order.create("o-1")

    before(network, "UpdateItem", begin_another_life)
    with pytest.raises(TaskNotFoundError, match="deleted, and created again"):
        cancel()
    assert Order.get_task("o-1").state == Order.confirm_payment.pending


def test_a_running_task_of_a_group_hands_on_its_turn_only_if_that_is_asked_for() -> None:
    for task_id in ("o-1", "o-2"):
        Order.create(task_id, group="g")
    Order.confirm_payment.start("o-1").__enter__()
    with pytest.raises(TaskLockedError, match=r"group 'g' would start .* cancel takes even_in_group=True"):
        cancel()
    assert cancel(even_in_group=True).running
    with Order.confirm_payment.start("o-2"):
        pass
    assert cancel("o-2").task.state == Order.ship.ignored


def test_the_children_of_this_round_are_cancelled_too_also_after_an_interruption() -> None:
    Crate.create("c")
    Crate.split.run("c", split)
    Crate.split.run("c/a", split)
    Crate.split.run("c/b", lambda ctx: ctx.create(Slip, "s", wait=True))
    Crate.create("c-other")
    Crate.split.run("c-other", split)
    Crate.ship.ignore("c", reason="before")
    done = Crate.cancel("c", reason="by phone", children=True)
    assert done.effect == "already_cancelled"
    crates = [("crate to cancel", f"c/{name}") for name in ("a", "a/a", "a/b", "b")]
    assert sorted(done.children.cancelled) == [*crates, ("slip to cancel", "s")]
    assert (done.children.refused, done.children.unlisted) == ({}, 0)
    assert Slip.get_task("s").state == Slip.print.ignored
    assert Crate.get_task("c-other/a").state == Crate.split.pending


def test_what_lists_leave_out_is_added_up_and_a_child_of_an_unknown_use_case_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Crate.create("c")
    Crate.split.run("c", split)
    Crate.split.run("c/a", split)
    Crate.split.run("c/b", lambda ctx: ctx.create(Slip, "s", wait=True))
    for task_id in ("c/a/a", "c/a/b"):  # by another program
        Crate.tracker.connection().delete_item(task_id, "crate to cancel")
    monkeypatch.delitem(AppTask.tracker.table.use_cases, "slip to cancel")
    done = Crate.cancel("c", reason="by phone", children=True)
    assert done.children.cancelled == [("crate to cancel", "c/a"), ("crate to cancel", "c/b")]
    assert [str(error) for error in done.children.refused.values()] == [
        "cannot cancel slip to cancel 's': this program does not declare its use case"
    ]
    assert done.children.unlisted == 2


def test_a_child_says_which_task_waits_in_vain_for_it() -> None:
    Crate.create("c")
    Crate.split.run("c", split)
    Crate.create("in-group", group="g")
    done = Crate.cancel("c/a", reason="by phone", children=True)
    assert done.blocked_parent == ("crate to cancel", "c")
    assert Crate.get_task("c").state == Crate.ship.pending


def test_an_event_loop_cancels_a_task() -> None:
    Order.create("o-1")
    done = asyncio.run(Order.acancel("o-1", reason="by phone", by="ada"))
    assert done.task.state == Order.confirm_payment.ignored


@pytest.mark.parametrize(
    ("options", "kind"), [({"reason": "x", "by": ""}, ValueError), ({"reason": "x", "children": "yes"}, TypeError)]
)
def test_what_cancel_is_given_is_checked(options: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        Order.cancel("o-1", **options)
    with pytest.raises(TypeError):
        AppTask.cancel("o-1", reason="x")


def test_a_damaged_reference_to_a_parent_keeps_no_task_from_being_cancelled() -> None:
    Order.create("o-1")
    Order.tracker.connection().update_item("o-1", "order", actions=[Path("parent").set({"S": "nobody"})])

    assert cancel().blocked_parent is None
    assert Order.get_task("o-1").state == Order.confirm_payment.ignored


def test_a_cancelled_task_starts_from_no_state_until_it_is_reopened() -> None:
    ignored = Order.confirm_payment.ignored
    Order.create("o-1")
    Order.confirm_payment.ignore("o-1", reason="no paper")
    Order.create("o-2")
    assert (cancel("o-1").effect, cancel("o-2").effect) == ("already_cancelled", "cancelled")
    for task_id in ("o-1", "o-2"):
        assert Order.get_task(task_id).cancel_time is not None
        with pytest.raises(TaskIgnoredError, match=r"and was cancelled at .*; only reopen lets it start again"):
            Order.confirm_payment.run(task_id, print, also_from=[ignored])
        Order.confirm_payment.reopen(task_id)
        Order.confirm_payment.ignore(task_id, reason="again")
        Order.confirm_payment.run(task_id, print, also_from=[ignored])
        assert Order.get_task(task_id).state == Order.ship.pending


def test_a_cancelled_task_of_a_group_is_marked_until_it_enters_again() -> None:
    Order.create("o-1", group="g")
    cancel()
    assert Order.get_task("o-1").cancel_time is not None
    Order.confirm_payment.reopen("o-1")
    assert Order.get_task("o-1").cancel_time is None


def test_two_who_cancel_at_the_same_moment_do_not_take_the_other_one_for_themselves(network: Network) -> None:
    Order.create("o-1")
    with stopped_clock():
        before(network, "UpdateItem", lambda: Order.cancel("o-1", reason="by mail", by="bob"))
        assert cancel().effect == "already_cancelled"


def test_only_what_still_waits_for_it_is_cancelled_with_a_task() -> None:
    Crate.create("c")
    Crate.split.run("c", split)
    for step in (Crate.split, Crate.ship):
        step.run("c/a", print)
    Crate.delete_task("c/b")
    Crate.create("c/b")
    done = Crate.cancel("c", reason="by phone", children=True)
    assert (done.children.cancelled, done.children.refused) == ([], {})
    assert Crate.get_task("c/b").state == Crate.split.pending


def test_a_child_that_is_exchanged_after_it_was_read_stays_as_it_is(network: Network) -> None:
    def exchange() -> None:
        Crate.delete_task("c/a")
        Crate.create("c/a")

    Crate.create("c")
    Crate.split.run("c", lambda ctx: ctx.create(Crate, "c/a", wait=True))
    Crate.cancel("c", reason="by phone")
    before(network, "UpdateItem", exchange)
    done = Crate.cancel("c", reason="by phone", children=True)
    assert (done.children.cancelled, done.children.refused) == ([], {})
    assert Crate.get_task("c/a").state == Crate.split.pending


def test_children_of_two_use_cases_with_one_id_are_told_apart() -> None:
    Crate.create("c", group="g")
    Crate.split.run("c", lambda ctx: [ctx.create(each, "x", wait=True) for each in (Crate, Slip)])
    Crate.cancel("x", reason="by phone")
    Slip.print.start("x").__enter__()
    done = Crate.cancel("c", reason="by phone", children=True)
    assert done.children.cancelled == [("crate to cancel", "x"), ("slip to cancel", "x")]
