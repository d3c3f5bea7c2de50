"""A copy of a request that arrives late, after later requests, changes nothing."""

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import Exchange, Hold
from tests.engine.proxy import Proxy
from tests.support.operations import OPERATIONS, Arm, Boom, row, slots_of
from tests.support.orders import LOCK
from tests.support.proxy_rules import arrive, in_turn

pytestmark = pytest.mark.usefixtures("stopped_clock")


def fails(_: Any, step: Any) -> None:
    with contextlib.suppress(Boom), step.start("o"):
        raise Boom


def fails_for_good(order: Any, step: Any) -> None:
    for _ in range(step.max_attempts):
        fails(order, step)
    assert order.get_task("o").state == step.ignored


def is_reopened(_: Any, step: Any) -> None:
    step.reopen("o")


def is_created(order: Any, _: Any) -> None:
    order.create("o", amount=2)


def succeeds(_: Any, step: Any) -> None:
    step.run("o", lambda ctx: setattr(ctx.task, "note", "later"))


def starts_over(order: Any, step: Any) -> None:
    step.run("o", lambda _: None, also_from=(order.ship.succeeded,))


def is_paid(order: Any, step: Any) -> None:
    order.paid.send("o", 2)
    succeeds(order, step)


def is_deleted_and_created(order: Any, _: Any) -> None:
    order.delete_task("o")
    order.create("o", wait_for=order.paid)


def nothing(*_: Any) -> None: ...


def is_returned(order: Any, _: Any) -> None:
    [seen] = slots_of(order, "o").read([0])
    slots_of(order, "o").give_back(0, seen.lock)


def is_taken_by_another(order: Any, step: Any) -> None:
    is_returned(order, step)
    slots_of(order, "o").take(0)


@pytest.mark.parametrize(
    ("operation", "step", "then"),
    [
        ("create", "confirm", succeeds),
        ("claim", "ship", succeeds),
        ("claim", "ship", fails),
        ("succeed", "ship", succeeds),
        ("succeed", "ship", fails),
        ("end early", "confirm", starts_over),
        ("fail", "confirm", succeeds),
        ("postpone", "confirm", succeeds),
        ("postpone", "confirm", is_reopened),
        ("fail", "confirm", is_reopened),
        ("release", "confirm", fails),
        ("release", "confirm", succeeds),
        ("extend", "ship", nothing),
        ("save", "confirm", succeeds),
        ("reopen", "confirm", fails_for_good),
        ("reopen", "confirm", succeeds),
        ("ignore", "confirm", is_reopened),
        ("delete", "confirm", is_created),
        ("wait for an answer", "ship", is_paid),
        ("create to wait", "confirm", is_paid),
        ("answer", "confirm", succeeds),
        ("answer", "confirm", is_deleted_and_created),
        ("take a slot", "confirm", is_returned),
        ("take a slot", "confirm", is_taken_by_another),
        ("renew a slot", "confirm", is_returned),
        ("renew a slot", "confirm", is_taken_by_another),
        ("give a slot back", "confirm", is_taken_by_another),
        ("ask for a slot", "confirm", is_returned),
        ("ask for a slot", "confirm", is_taken_by_another),
    ],
)
def test_a_late_copy_of_a_request_changes_nothing(
    order: Any,
    proxy: Proxy,
    stopped_clock: StoppedClock,
    *,
    operation: str,
    step: str,
    then: Callable[[Any, Any], None],
) -> None:
    target, story = OPERATIONS[operation]
    late = Hold()
    story(order, "o", arm(proxy, target, late))
    stopped_clock.advance(timedelta(seconds=1))
    then(order, getattr(order, step))
    before = row(order, "o")
    exchange = arrive(proxy, late)
    assert row(order, "o") == before
    assert refused(exchange)


@pytest.mark.parametrize("operation", ["put piece", "save large"])
def test_a_late_part_of_a_save_of_large_data_leaves_the_data_whole(order: Any, proxy: Proxy, operation: str) -> None:
    target, story = OPERATIONS[operation]
    late = Hold()
    story(order, "o", arm(proxy, target, late))
    assert refused(arrive(proxy, late))
    assert order.get_task("o").data == {"scan": "2 " * 10_000}


@pytest.mark.parametrize("operation", ["succeed", "fail", "release"])
def test_a_late_finish_does_not_end_the_next_run(order: Any, proxy: Proxy, operation: str) -> None:
    late = Hold()
    OPERATIONS[operation][1](order, "o", arm(proxy, "UpdateItem", late))
    with (order.ship if operation == "succeed" else order.confirm).start("o") as ctx:
        arrive(proxy, late)
        ctx.save()
        ctx.extend_lock()
    assert order.get_task("o").fence == ctx.task.fence == 2


def test_a_late_claim_of_a_finished_run_does_not_take_the_next_attempt(order: Any, proxy: Proxy) -> None:
    order.create("o")
    late = Hold()
    proxy.rule = in_turn("UpdateItem", late)
    fails(order, order.confirm)
    before = row(order, "o")
    arrive(proxy, late)
    assert (row(order, "o"), order.confirm.run("o", lambda ctx: ctx.attempt)) == (before, 2)


def test_a_late_extension_of_a_run_does_not_extend_the_next_one(order: Any, proxy: Proxy) -> None:
    order.create("o")
    late = Hold()
    with contextlib.suppress(Boom), order.confirm.start("o") as ctx:
        proxy.rule = in_turn("UpdateItem", late)
        ctx.extend_lock(timedelta(hours=1))
        raise Boom
    with order.confirm.start("o") as ctx:
        arrive(proxy, late)
        as_claimed = ctx.task.update_time + LOCK
        assert order.get_task("o").lock_expire_time == ctx.lock_expire_time == as_claimed


def arm(proxy: Proxy, target: str, late: Hold) -> Arm:
    return lambda: setattr(proxy, "rule", in_turn(target, late))


def refused(exchange: Exchange) -> bool:
    return exchange.status == 400 and exchange.answer is not None and "ConditionalCheck" in exchange.answer["__type"]
