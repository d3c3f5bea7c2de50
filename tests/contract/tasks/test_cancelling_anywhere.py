"""`cancel` ends a task at whichever step it is. What each call then does with it is in test_cancelled.py."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError
from pynamodb.expressions.operand import Path

from pynamodb_tracker import (
    Cancellation,
    ExecutionContext,
    LockLostError,
    Step,
    TaskAlreadySucceededError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
    TrackerError,
    UseCase,
)
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.testing import stopped_clock
from tests.support.network import Network, before, error, lose_response
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order
from tests.support.workers import die, entered, fail

pytestmark = pytest.mark.usefixtures("table")


class Crate(AppTask):
    use_case_id = UseCase("crate to cancel")

    split, ship = Step(100), Step(200)
    unpack, report = Step(900, branch=True), Step(950, branch=True)


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
    assert done.task.state == Order.cancelled
    with recorded() as requests:
        again = Order.cancel("o-1", reason="another reason", children=True)
    assert requests.operations == ["GetItem"]
    assert (again.effect, again.task.errors) == ("already_cancelled", done.task.errors)
    assert [(each.worker, each.message) for each in done.task.errors if each.type == "cancelled"] == [
        ("ada", "by phone")
    ]


def test_a_running_task_records_nothing_more() -> None:
    Order.create("o-1")
    run = entered(Order.confirm_payment, "o-1")
    with pytest.raises(TaskLockedError, match=r"held by .* even_running=True takes it away"):
        cancel()
    assert cancel(even_running=True).running
    with pytest.raises(LockLostError, match="ada cancelled the task"):
        run.__exit__(None, None, None)
    assert Order.get_task("o-1").state == Order.cancelled


def test_a_task_whose_worker_has_died_is_not_running(stopped_clock: StoppedClock) -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    stopped_clock.advance(timedelta(hours=1))
    assert not cancel().running


def test_a_success_in_between_is_followed_to_the_next_step(network: Network) -> None:
    Order.create("o-1")
    run = entered(Order.confirm_payment, "o-1")
    before(network, "UpdateItem", lambda: run.__exit__(None, None, None))
    done = cancel(even_running=True)
    assert done.task.cancelled is not None
    assert (done.task.cancelled.step, done.running) == (Order.ship.number, False)


def test_a_claim_in_between_is_cancelled(network: Network) -> None:
    Order.create("o-1")
    before(network, "UpdateItem", lambda: Order.confirm_payment.start("o-1").__enter__())
    done = cancel(even_running=True)
    assert (done.task.state, done.running) == (Order.cancelled, True)


def test_the_last_success_wins_and_is_named(network: Network) -> None:
    Order.create("o-1", state=Order.deliver.pending)
    run = entered(Order.deliver, "o-1")
    before(network, "UpdateItem", lambda: run.__exit__(None, None, None))
    with pytest.raises(TaskAlreadySucceededError, match=r"cannot cancel Order 'o-1': it is deliver succeeded"):
        cancel(even_running=True)


def test_a_cancel_without_an_answer_is_not_repeated_after_a_reopen(network: Network) -> None:
    Order.create("o-1")
    lose_response(network, "UpdateItem", lambda: Order.reopen("o-1"))
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
    with pytest.raises(TaskNotFoundError, match="deleted and recreated"):
        cancel()
    assert Order.get_task("o-1").state == Order.confirm_payment.pending


def test_a_running_task_of_a_group_hands_on_its_turn_only_if_that_is_asked_for() -> None:
    for task_id in ("o-1", "o-2"):
        Order.create(task_id, group="g")
    Order.confirm_payment.start("o-1").__enter__()
    with pytest.raises(TaskLockedError, match=r"although its block may still run, and the next task of group 'g'"):
        cancel()
    assert cancel(even_running=True).running
    with Order.confirm_payment.start("o-2"):
        pass
    assert cancel("o-2").task.state == Order.cancelled


def crate_with_descendants() -> None:
    Crate.create("c")
    Crate.split.run("c", split)
    Crate.split.run("c/a", split)
    Crate.split.run("c/b", lambda ctx: ctx.create(Slip, "s", wait=True))


DESCENDANTS = [*(("crate to cancel", f"c/{name}") for name in ("a", "a/a", "a/b", "b")), ("slip to cancel", "s")]


def test_all_descendants_of_this_round_are_cancelled_in_one_transaction() -> None:
    crate_with_descendants()
    Crate.create("c-other")
    Crate.split.run("c-other", split)
    with recorded() as requests:
        done = Crate.cancel("c", reason="by phone", children=True)
    assert requests.operations == ["GetItem", *["BatchGetItem"] * 4, "TransactWriteItems"]
    assert sorted(done.children) == DESCENDANTS
    assert {Crate.get_task(task_id).state for task_id in ("c", "c/a", "c/a/b")} == {Crate.cancelled}
    assert (slip := Slip.get_task("s").cancelled) is not None
    assert (slip.reason, Crate.get_task("c-other/a").state) == ("by phone", Crate.split.pending)


def test_more_descendants_than_fit_are_cancelled_one_by_one_and_the_call_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch, network: Network
) -> None:
    crate_with_descendants()
    monkeypatch.setattr("pynamodb_tracker.transitions.cancelling.MOST_ACTIONS", 3)
    written = []

    def fail_at_the_third(operation: str, request: dict[str, Any], send: Callable[[], Any]) -> Any:
        if operation == "UpdateItem":
            written.append(request["Key"]["task_id"]["S"])
            if len(written) == 3:
                raise error(operation, "AccessDeniedException")
        return send()

    network.rule = fail_at_the_third
    with pytest.raises(UpdateError) as raised:
        Crate.cancel("c", reason="by phone", children=True)
    assert raised.value.__notes__ == [
        (
            "pynamodb_tracker: 2 tasks are cancelled, and you can repeat the call: slip to cancel 's', "
            "crate to cancel 'c/a/b'"
        )
    ]
    done = Crate.cancel("c", reason="by phone", children=True)
    assert (written, done.effect) == (["s", "c/a/b", "c/a/a", "c/a/a", "c/b", "c/a", "c"], "cancelled")


@pytest.mark.parametrize("go_to", [None, Crate.unpack])
def test_the_children_of_tasks_that_are_already_cancelled_are_cancelled_by_another_call(go_to: Any) -> None:
    crate_with_descendants()
    Crate.cancel("c/a", reason="by phone")
    first = Crate.cancel("c", reason="by phone", go_to=go_to)
    assert (first.children, Crate.get_task("c/b").cancelled) == ((), None)
    done = Crate.cancel("c", reason="too late", children=True)
    assert (done.effect, sorted(done.children)) == (
        "already_cancelled",
        [each for each in DESCENDANTS if each[1] != "c/a"],
    )
    assert (done.task.cancelled, Slip.get_task("s").state) == (first.task.cancelled, Slip.cancelled)
    with recorded() as requests:
        assert Crate.cancel("c", reason="too late", children=True).children == ()
    assert {*requests.operations} == {"GetItem", "BatchGetItem"}


def test_a_command_that_dies_among_the_children_of_a_cancelled_task_can_be_repeated(network: Network) -> None:
    Crate.create("c")
    Crate.split.run("c", split)
    Crate.cancel("c", reason="by phone")
    before(network, "TransactWriteItems", die_in_the_command)
    with pytest.raises(KeyboardInterrupt):
        Crate.cancel("c", reason="by phone", children=True)
    assert len(Crate.cancel("c", reason="by phone", children=True).children) == 2


def test_a_cancel_of_a_child_whose_response_is_lost_is_reported(network: Network) -> None:
    Crate.create("c")
    Crate.split.run("c", lambda ctx: ctx.create(Slip, "s", wait=True))
    Crate.cancel("c", reason="by phone")
    lose_response(network, "UpdateItem")
    done = Crate.cancel("c", reason="by phone", children=True)
    assert (done.effect, done.children) == ("already_cancelled", (("slip to cancel", "s"),))
    assert Slip.get_task("s").state == Slip.cancelled


def test_children_of_a_cancelled_task_that_its_list_lacks_are_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynamodb_tracker.features.children.joins._MOST_BYTES", 60)
    Crate.create("c")
    Crate.split.run("c", lambda ctx: [ctx.create(Slip, f"s-{n}", wait=True) for n in range(9)])
    Crate.cancel("c", reason="by phone")
    with pytest.raises(TaskNotReadyError, match="it may have waited for tasks that no list names"):
        Crate.cancel("c", reason="by phone", children=True)
    assert Slip.cancelled.count() == 0


def test_a_cancelled_child_of_an_undeclared_use_case_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Crate.create("c")
    Crate.split.run("c", lambda ctx: [ctx.create(kind, "s", wait=True) for kind in (Slip, Crate)])
    Slip.cancel("s", reason="by phone")
    monkeypatch.delitem(Crate.tracker.table.use_cases, "slip to cancel")
    assert Crate.cancel("c", reason="by phone", children=True).children == (("crate to cancel", "s"),)


def die_in_the_command() -> None:
    raise KeyboardInterrupt


def test_a_running_child_of_a_cancelled_task_refuses_the_call() -> None:
    crate_with_descendants()
    start_child()
    Crate.cancel("c", reason="by phone")
    with pytest.raises(TaskLockedError, match="cannot cancel Crate 'c/a/b'"):
        Crate.cancel("c", reason="by phone", children=True)
    assert Slip.get_task("s").cancelled is None


def test_a_parent_that_another_person_cancels_in_between_does_not_keep_its_children(network: Network) -> None:
    crate_with_descendants()
    before(network, "TransactWriteItems", lambda: Crate.cancel("c", reason="by mail", by="bob"))
    done = Crate.cancel("c", reason="by phone", children=True)
    assert (done.effect, sorted(done.children)) == ("already_cancelled", DESCENDANTS)


def test_a_task_that_has_done_without_its_children_does_not_take_them_with_it(stopped_clock: StoppedClock) -> None:
    Crate.create("c")
    Crate.split.run("c", lambda ctx: [split(ctx), ctx.wait_until(timedelta(hours=1))])
    stopped_clock.advance(timedelta(hours=2))
    Crate.ship.run("c", lambda ctx: ctx.go_to(Crate.unpack))
    for _ in range(2):
        assert Crate.cancel("c", reason="by phone", children=True).children == ()
    assert Crate.get_task("c/a").cancelled is None


def test_the_children_of_a_branch_stay_with_a_task_that_is_cancelled_again() -> None:
    def undo(ctx: ExecutionContext[Crate]) -> None:
        ctx.go_to(Crate.report)
        ctx.create(Slip, "undo", wait=True)

    Crate.create("c")
    Crate.split.run("c", split)
    Crate.cancel("c", reason="by phone", go_to=Crate.unpack)
    Crate.unpack.run("c", undo)
    assert Crate.cancel("c", reason="by phone", children=True).children == ()
    Slip.print.run("undo", print)
    assert list(Crate.report.due_ids()) == ["c"]


def test_a_transaction_without_a_response_is_not_taken_for_that_of_another_person(network: Network) -> None:
    crate_with_descendants()
    lose_response(network, "TransactWriteItems")
    done = Crate.cancel("c", reason="by phone", children=True)
    assert (done.effect, sorted(done.children)) == ("cancelled", DESCENDANTS)


def test_two_tasks_of_one_group_are_not_cancelled_in_one_transaction() -> None:
    Crate.create("c")
    Crate.split.run("c", lambda ctx: [ctx.create(Slip, each, wait=True, group="g") for each in ("a", "b")])
    with recorded() as requests:
        assert len(Crate.cancel("c", reason="by phone", children=True).children) == 2
    assert requests.operations.count("TransactWriteItems") == 2
    assert (Slip.group("g").turn, Slip.group("g").waiting()) == (None, [])


def test_a_child_hands_on_the_turn_of_its_group_in_the_same_transaction() -> None:
    Crate.create("c")
    Crate.split.run("c", lambda ctx: ctx.create(Slip, "a", wait=True, group="g"))
    Slip.create("b", group="g")
    with recorded() as requests:
        Crate.cancel("c", reason="by phone", children=True)
    assert requests.operations.count("TransactWriteItems") == 1
    assert (Slip.get_task("a").state, Slip.group("g").turn) == (Slip.cancelled, "b")


def start_child(_: Any = None) -> None:
    Crate.split.start("c/a/b").__enter__()


def lose_child(_: pytest.MonkeyPatch) -> None:  # by another program
    Crate.tracker.connection().delete_item("c/a/a", "crate to cancel")


def lose_use_case(patch: pytest.MonkeyPatch) -> None:
    patch.delitem(AppTask.tracker.table.use_cases, "slip to cancel")


@pytest.mark.parametrize(
    ("happen", "message"),
    [
        (start_child, "cannot cancel Crate 'c/a/b': it is split in_progress, attempt 1, held by"),
        (lose_child, "cannot cancel crate to cancel 'c/a' with its children: it waits for 1 that no list names"),
        (lose_use_case, "cannot cancel slip to cancel 's': this program does not declare its use case"),
    ],
)
def test_a_child_that_cannot_be_cancelled_refuses_the_call_before_its_first_write(
    happen: Callable[[pytest.MonkeyPatch], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crate_with_descendants()
    happen(monkeypatch)
    with recorded() as requests, pytest.raises(TrackerError, match=message):
        Crate.cancel("c", reason="by phone", children=True)
    assert {*requests.operations} == {"GetItem", "BatchGetItem"}


def test_a_running_child_is_taken_away_only_if_that_is_asked_for() -> None:
    crate_with_descendants()
    start_child()
    done = Crate.cancel("c", reason="by phone", children=True, even_running=True)
    assert (sorted(done.children), Crate.get_task("c/a/b").state) == (DESCENDANTS, Crate.cancelled)


@pytest.mark.parametrize(("go_to", "effect"), [(None, "cancelled"), (Crate.unpack, "moved")])
def test_an_order_with_three_children_of_which_one_is_running(go_to: Any, effect: str) -> None:
    Crate.create("c")
    Crate.split.run("c", lambda ctx: [ctx.create(Slip, each, wait=True) for each in ("a", "b", "s")])
    run = entered(Slip.print, "b")
    with pytest.raises(TaskLockedError, match="cannot cancel Slip 'b': it is print in_progress, attempt 1, held by"):
        Crate.cancel("c", reason="by phone", children=True, go_to=go_to)
    assert {Slip.get_task(each).cancelled for each in "abs"} == {Crate.get_task("c").cancelled} == {None}
    done = Crate.cancel("c", reason="by phone", by="ada", children=True, go_to=go_to, even_running=True)
    assert (done.effect, len(done.children)) == (effect, 3)
    with pytest.raises(LockLostError, match=r"ada cancelled the task \(by phone\)"):
        run.__exit__(None, None, None)
    assert {Slip.get_task(each).state for each in "abs"} == {Slip.cancelled}
    if go_to is not None:
        assert list(Crate.unpack.due_ids()) == ["c"]
        Crate.unpack.run("c", print)
    assert Crate.get_task("c").state == Crate.cancelled


def test_children_that_come_or_end_after_they_were_read_are_read_again(network: Network) -> None:
    crate_with_descendants()
    before(network, "TransactWriteItems", lambda: Slip.print.run("s", print))
    done = Crate.cancel("c", reason="by phone", children=True)
    assert (sorted(done.children), Slip.get_task("s").state) == (DESCENDANTS[:-1], Slip.print.succeeded)


def test_a_child_says_which_task_waits_in_vain_for_it() -> None:
    Crate.create("c")
    Crate.split.run("c", split)
    Crate.create("in-group", group="g")
    done = Crate.cancel("c/a", reason="by phone", children=True)
    assert (done.blocked_parent, Crate.get_task("c").state) == (("crate to cancel", "c"), Crate.ship.pending)
    Crate.split.run("c/b", print)
    Crate.ship.run("c/b", print)
    assert Crate.get_task("c").waits_for == "1 task"


def test_an_event_loop_cancels_a_task() -> None:
    Order.create("o-1")
    assert asyncio.run(Order.acancel("o-1", reason="by phone", by="ada")).task.state == Order.cancelled


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
    assert Order.get_task("o-1").state == Order.cancelled


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
    assert Crate.cancel("c", reason="by phone", children=True).children == ()
    assert Crate.get_task("c/b").state == Crate.split.pending


def test_a_child_that_is_exchanged_after_it_was_read_stays_as_it_is(network: Network) -> None:
    def exchange() -> None:
        Crate.delete_task("c/a")
        Crate.create("c/a")

    Crate.create("c")
    Crate.split.run("c", lambda ctx: ctx.create(Crate, "c/a", wait=True))
    before(network, "TransactWriteItems", exchange)
    assert Crate.cancel("c", reason="by phone", children=True).children == ()
    assert Crate.get_task("c/a").state == Crate.split.pending


def test_children_of_two_use_cases_with_one_id_are_told_apart() -> None:
    Crate.create("c", group="g")
    Crate.split.run("c", lambda ctx: [ctx.create(each, "x", wait=True) for each in (Crate, Slip)])
    Crate.cancel("x", reason="by phone")
    assert Crate.cancel("c", reason="by phone", children=True).children == (("slip to cancel", "x"),)
