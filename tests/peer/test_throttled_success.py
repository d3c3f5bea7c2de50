"""A success whose write is throttled: retried until the lock expires, never recorded as a failure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import PASS, THROTTLED, Action, DropRequest, DropResponse, Fail, Rule
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.orders import LOCK
from tests.support.proxy_rules import in_turn, targets

TROUBLES = [THROTTLED, Fail(), Fail(503, "ServiceUnavailable"), DropRequest()]


def all_writes(trouble: Action) -> Rule:
    return lambda target, *_: trouble if target == "UpdateItem" else PASS


@pytest.mark.parametrize("trouble", TROUBLES, ids=str)
def test_a_success_that_never_gets_through_is_given_up_at_the_end_of_the_lock_and_is_no_failure(
    order: Any, proxy: Proxy, stopped_clock: StoppedClock, trouble: Action
) -> None:
    order.create("o")
    run = Frozen(order.confirm.start("o"))
    proxy.rule = all_writes(trouble)

    with pytest.raises(UpdateError) as error:
        run.wake()

    assert run.ctx.lock_expire_time - timedelta(seconds=10) < stopped_clock.now() <= run.ctx.lock_expire_time
    may_be_applied = trouble != THROTTLED
    assert ("may have been recorded" in error.value.__notes__[0]) is may_be_applied
    assert ("was not recorded" in error.value.__notes__[0]) is not may_be_applied
    task = order.get_task("o")
    assert (task.state, task.attempt) == (order.confirm.in_progress, 1)
    assert not task.errors


def test_a_success_that_gets_through_late_in_its_lock_is_one_success(
    order: Any, proxy: Proxy, stopped_clock: StoppedClock
) -> None:
    order.create("o")
    until = stopped_clock.now() + LOCK - timedelta(seconds=20)

    with order.confirm.start("o"):
        proxy.rule = lambda *_: THROTTLED if stopped_clock.now() < until else PASS

    task = order.get_task("o")
    assert (task.state, task.fence) == (order.confirm.succeeded, 1)
    assert task.update_time < until


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("trouble", [*TROUBLES, DropResponse()], ids=str)
def test_a_failure_that_does_not_get_through_is_tried_again_too(order: Any, proxy: Proxy, trouble: Action) -> None:
    order.create("o")
    run = Frozen(order.confirm.start("o"))
    proxy.rule = in_turn("UpdateItem", *[trouble] * 13)

    with pytest.raises(ZeroDivisionError):
        run.wake(ZeroDivisionError())

    task = order.get_task("o")
    assert (task.state, task.attempt, len(task.errors)) == (order.confirm.failed, 1, 1)


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("trouble", TROUBLES, ids=str)
def test_the_blocks_own_exception_propagates_with_a_note_if_it_cannot_be_recorded(
    order: Any, proxy: Proxy, trouble: Action
) -> None:
    order.create("o")
    run = Frozen(order.confirm.start("o"))
    proxy.rule = all_writes(trouble)

    with pytest.raises(ZeroDivisionError) as error:
        run.wake(ZeroDivisionError())

    assert "could not record" in error.value.__notes__[0]


@pytest.mark.usefixtures("stopped_clock")
def test_a_write_that_is_refused_for_good_is_not_tried_again(order: Any, proxy: Proxy) -> None:
    order.create("o")
    before = len(targets(proxy))

    with pytest.raises(UpdateError), order.confirm.start("o"):
        proxy.rule = in_turn("UpdateItem", Fail(400, "SerializationException"))

    assert targets(proxy)[before:] == ["UpdateItem", "UpdateItem"]
    assert order.get_task("o").state == order.confirm.in_progress


@pytest.mark.usefixtures("stopped_clock")
def test_an_end_is_sent_again_while_a_policy_denies_it(order: Any, proxy: Proxy) -> None:
    order.create("o")

    with order.confirm.start("o"):
        proxy.rule = in_turn("UpdateItem", Fail(400, "AccessDeniedException"))

    assert order.get_task("o").state == order.confirm.succeeded
