"""An order that waits for its payment is never cancelled though it was paid, whenever and however often that comes."""

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import (
    ExecutionContext,
    GiveUp,
    Repeat,
    SignalAlreadyReceivedError,
    TaskNotFoundError,
    TaskNotReadyError,
)
from pynamodb_tracker.clock import NEVER, in_words
from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import DropResponse, Duplicate, first
from tests.engine.proxy import Proxy
from tests.support.rows import change

LIMIT = timedelta(days=2)
EVENT = {"by": "stripe", "key": "evt-1"}


def decide(order: Any, during: Callable[[], object] | None = None) -> str | None:
    """Run the step that ships what is paid, and cancels what is not; return what it recorded."""
    decided = None
    with contextlib.suppress(TaskNotReadyError), order.confirm.start("o") as ctx:
        decided = "cancelled" if ctx.task.paid is None else "shipped"
        ctx.task.note = decided
        if during:
            during()
    recorded: str | None = order.get_task("o").note
    return recorded


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("at", [timedelta(0), LIMIT, LIMIT + timedelta(hours=1)])
def test_an_order_that_is_paid_before_its_decision_is_shipped(
    order: Any, stopped_clock: StoppedClock, at: timedelta, times: int
) -> None:
    order.create("o", wait_for=order.paid, until=LIMIT)
    assert order.get_task("o").waits_for == f"the signal paid, or until {in_words(stopped_clock.now() + LIMIT)}"
    stopped_clock.advance(at)
    hows = [order.paid.send("o", {"amount": "42.50"}, **EVENT).effect for _ in range(times)]
    assert (hows, decide(order)) == (["resumed", "stored"][:times], "shipped")
    assert order.get_task("o").paid[:2] == ({"amount": "42.50"}, "stripe")


def test_an_order_that_is_paid_during_its_cancellation_is_shipped(order: Any, stopped_clock: StoppedClock) -> None:
    order.create("o", wait_for=order.paid, until=LIMIT)
    stopped_clock.advance(LIMIT)
    assert decide(order, lambda: order.paid.send("o", 1)) is None
    task = order.get_task("o")
    assert (task.state, task.attempt, task.awaited_signals) == (order.confirm.pending, 0, None)
    assert decide(order) == "shipped"


def test_an_order_that_is_paid_while_its_run_gives_up_runs_again(order: Any, stopped_clock: StoppedClock) -> None:
    order.create("o", wait_for=order.paid, until=LIMIT)
    stopped_clock.advance(LIMIT)

    def give_up(_: object) -> None:
        order.paid.send("o", 1)
        raise GiveUp("nobody has paid")

    with pytest.raises(GiveUp) as given_up, order.confirm.start("o", skip_error=True) as ctx:
        give_up(ctx)
    assert (order.get_task("o").state, order.get_task("o").attempt) == (order.confirm.pending, 0)
    assert "without the signal paid, which came during its run" in given_up.value.__notes__[0]
    assert decide(order) == "shipped"


def test_a_part_is_not_repeated_for_an_answer_that_comes_meanwhile(order: Any, stopped_clock: StoppedClock) -> None:
    order.create("o", wait_for=order.paid, until=LIMIT)
    stopped_clock.advance(LIMIT)

    def do_a_part(ctx: ExecutionContext[Any]) -> None:
        order.paid.send("o", 1)
        ctx.checkpoint("part", lambda: "x" * 2000)

    with pytest.raises(GiveUp, match="cannot be stored"):
        order.confirm.run("o", do_a_part)
    assert order.get_task("o").state == order.confirm.ignored


def test_an_order_that_nobody_pays_is_cancelled_after_its_limit(order: Any, stopped_clock: StoppedClock) -> None:
    order.create("o", wait_for=order.paid, until=LIMIT)
    assert decide(order) is None
    stopped_clock.advance(LIMIT)
    assert decide(order) == "cancelled"
    task = order.get_task("o")
    assert (task.awaited_signals, task.waits_for) == (None, None)


def test_two_providers_at_once_pay_an_order_once(order: Any, rival: Any) -> None:
    order.create("o", wait_for=order.paid)

    def pay(by: str) -> str:
        try:
            return str((order if by == "stripe" else rival).paid.send("o", by, by=by).effect)
        except SignalAlreadyReceivedError as error:
            return str(error.signal.by)

    with ThreadPoolExecutor() as pool:
        hows = list(pool.map(pay, ["stripe", "paypal"]))
    assert sorted(hows, key=lambda how: how == "resumed")[1] == "resumed"
    assert order.get_task("o").paid.by in hows
    assert decide(order) == "shipped"


def test_the_payment_of_last_month_pays_no_other_round(order: Any) -> None:
    order.create("o")
    with order.confirm.start("o") as ctx:
        last_month = ctx.round
        ctx.wait_for(order.paid)
    order.paid.send("o", "March", round=last_month)
    order.ship.run("o", lambda _: None)
    order.create_or_merge("o")
    with order.confirm.start("o") as ctx:
        this_month = ctx.round
        assert ctx.task.paid is None
        ctx.wait_for(order.paid)
    with pytest.raises(TypeError, match=r"send\(..., round=...\)"):
        order.paid.send("o", "March")
    with pytest.raises(TaskNotFoundError, match="has ended"):
        order.paid.send("o", "March", round=last_month)
    assert order.get_task("o").due_time == NEVER
    assert order.paid.send("o", "April", round=this_month).effect == "resumed"


def test_what_a_run_asks_for_once_more_may_come_during_it(order: Any, stopped_clock: StoppedClock) -> None:
    order.create("o", wait_for=order.paid, until=LIMIT)
    stopped_clock.advance(LIMIT)
    with order.confirm.start("o") as ctx:
        ctx.wait_for(order.paid, until=LIMIT)
        order.paid.send("o", 1)
    task = order.get_task("o")
    assert (task.state, task.awaited_signals, task.due_time) == (order.ship.pending, None, stopped_clock.now())


@pytest.mark.parametrize("action", [DropResponse(), Duplicate()], ids=["lost", "twice"])
def test_a_sender_whose_answer_got_lost_finds_its_own_write(order: Any, proxy: Proxy, action: Any) -> None:
    order.create("o", wait_for=order.paid, until=LIMIT)
    proxy.rule = first("UpdateItem", action)
    assert order.paid.send("o", 1).effect == "resumed"
    assert order.get_task("o").wait_until is None
    assert decide(order) == "shipped"


def test_an_early_answer_is_there_when_the_step_asks_for_it(order: Any) -> None:
    order.create("o")
    assert order.paid.send("o", 1).effect == order.approved.send("o", 2).effect == "early"
    with order.confirm.start("o") as ctx:
        ctx.wait_for(order.paid)
        ctx.wait_for(order.approved)
    task = order.get_task("o")
    assert (task.state, task.awaited_signals) == (order.ship.pending, None)
    order.ship.run("o", lambda _: None)


def test_a_task_waits_for_all_its_answers(order: Any) -> None:
    order.create("o")
    with order.confirm.start("o") as ctx:
        ctx.wait_for(order.paid)
        ctx.wait_for(order.approved)
    assert order.get_task("o").waits_for == "the signals approved and paid"
    assert [order.paid.send("o", 1).effect, order.approved.send("o", 1).effect] == ["stored", "resumed"]


@pytest.mark.parametrize("until", [None, LIMIT])
def test_a_sender_whose_clock_is_behind_wakes_the_task_no_earlier_than_it_was_written(
    order: Any, stopped_clock: StoppedClock, until: timedelta | None
) -> None:
    order.create("o", wait_for=order.paid, until=until)
    change(order, "o", creation={"S": "7" + "0" * 23})  # the clock of tokens as well
    stopped_clock.advance(-timedelta(minutes=1))
    sent = order.paid.send("o", 1)
    assert (sent.effect, sent.task.due_time) == ("resumed", sent.task.update_time)


def test_an_event_that_is_delivered_twice_is_known_by_its_key_whatever_it_says(order: Any) -> None:
    order.create("o", wait_for=order.paid)
    assert [order.paid.send("o", number, **EVENT).effect for number in (1, 2)] == ["resumed", "stored"]
    assert order.get_task("o").paid.value == 1


def test_an_answer_after_a_run_beyond_the_limit_was_stopped_is_stored_at_once(
    order: Any, stopped_clock: StoppedClock
) -> None:
    order.create("o", wait_for=order.paid, until=LIMIT)
    stopped_clock.advance(LIMIT + timedelta(hours=1))
    with contextlib.suppress(KeyboardInterrupt), order.confirm.start("o"):
        raise KeyboardInterrupt
    assert (order.paid.send("o", 1).effect, decide(order)) == ("late", "shipped")


def test_a_step_waits_for_a_child_and_an_answer_with_one_limit(order: Any, stopped_clock: StoppedClock) -> None:
    order.create("o")
    with order.confirm.start("o") as ctx:
        ctx.create(order, "o/1", wait=True, due_time=2 * LIMIT)
        ctx.wait_until(LIMIT)
        ctx.wait_for(order.paid)
    task = order.get_task("o")
    assert task.due_time == task.wait_until == stopped_clock.now() + LIMIT
    assert order.paid.send("o", 1).effect == "stored"
    task = order.get_task("o")
    assert (task.blockers, task.awaited_signals, task.due_time) == (1, None, stopped_clock.now() + LIMIT)


def test_a_limit_of_waiting_is_that_of_an_answer_without_any_child(order: Any, stopped_clock: StoppedClock) -> None:
    order.create("o")
    with order.confirm.start("o") as ctx:
        ctx.wait_until(LIMIT)
        ctx.wait_for(order.paid)
    task = order.get_task("o")
    assert task.due_time == task.wait_until == stopped_clock.now() + LIMIT


def test_the_limit_of_an_answer_that_is_there_is_that_of_the_children_too(
    order: Any, stopped_clock: StoppedClock
) -> None:
    order.create("o")
    order.paid.send("o", 1)
    with order.confirm.start("o") as ctx:
        ctx.create(order, "o/1", wait=True, due_time=2 * LIMIT)
        ctx.wait_for(order.paid, until=LIMIT)
    task = order.get_task("o")
    assert (task.blockers, task.awaited_signals) == (1, None)
    assert task.due_time == task.wait_until == stopped_clock.now() + LIMIT


def test_runs_that_share_their_requests_and_a_commit_wait_for_answers_as_well(order: Any) -> None:
    order.create_many(["o-1", "o-2", "o-3"], threads=3)
    with order.confirm.start("o-3") as ctx:
        ctx.wait_for(order.paid)
        with ctx.transaction(succeed=True):
            ctx.task.note = "committed"
    done = order.confirm.run_all(lambda ctx: ctx.wait_for(order.paid), threads=2)
    assert sorted(done.succeeded) == ["o-1", "o-2"]
    assert [order.paid.send(f"o-{number}", 1).effect for number in (1, 2, 3)] == ["resumed"] * 3


def test_a_task_of_a_group_waits_for_its_turn_and_its_answer_in_either_order(order: Any) -> None:
    for group, signalled_first in (("g", True), ("h", False)):
        names = [f"{group}-1", f"{group}-2"]
        for name in names:
            order.create(name, group=group)
        order.confirm.run(names[0], lambda ctx: ctx.wait_for(order.paid))
        order.ship.ignore(names[0], reason="not now")
        order.ship.reopen(names[0])
        assert order.get_task(names[0]).waits_for == f"its turn in group {group} and for the signal paid"
        if signalled_first:
            assert order.paid.send(names[0], 1).effect == "stored"
        for step in (order.confirm, order.ship):
            step.run(names[1], lambda _: None)
        if not signalled_first:
            assert order.get_task(names[0]).waits_for == "the signal paid"
            assert order.paid.send(names[0], 1).effect == "resumed"
        order.ship.run(names[0], lambda _: None)


def test_a_request_that_is_merged_into_a_task_that_waits_does_not_start_it(
    order: Any, stopped_clock: StoppedClock
) -> None:
    order.create("o", wait_for=order.paid)
    now, daily = stopped_clock.now(), {"repeat": Repeat.every(timedelta(days=1))}
    for options in (
        {},
        {"due_time": now},
        {"due_time": timedelta(hours=1), "debounce": True},
        daily,
        {**daily, "due_time": now},
    ):
        assert order.create_or_merge("o", amount=2, **options).effect == "merged"
        assert order.get_task("o").due_time == NEVER
    assert order.paid.send("o", 1).effect == "resumed"


def test_a_task_that_waits_for_an_answer_begins_neither_elsewhere_nor_at_another_time(order: Any) -> None:
    others = {"due_time": NEVER, "state": order.ship.pending, "group": "g", "repeat": Repeat.every(timedelta(days=1))}
    for name, value in others.items():
        with pytest.raises(ValueError, match=f"cannot have {name}"):
            order.create("o", wait_for=order.paid, **{name: value})
    with pytest.raises(TypeError, match="wait_for takes a signal"):
        order.create("o", wait_for="paid")
    with pytest.raises(TypeError, match="add wait_for, or use due_time"):
        order.create("o", until=LIMIT)


def test_a_duration_that_is_given_for_each_answer_is_one_limit(order: Any, stopped_clock: StoppedClock) -> None:
    order.create("o")
    limit = stopped_clock.now() + LIMIT
    with order.confirm.start("o") as ctx:
        for name in ("paid", "approved"):
            ctx.wait_for(getattr(order, name), until=LIMIT)
            stopped_clock.advance(timedelta(milliseconds=1))
        ctx.wait_until(LIMIT)
        with pytest.raises(ValueError, match="already has the limit"):
            ctx.wait_for(order.paid, until=2 * LIMIT)
        ctx.wait_for(order.paid, until=LIMIT)
    assert order.get_task("o").wait_until == limit
