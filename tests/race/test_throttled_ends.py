"""An end whose write is throttled or lost is sent again until the lock expires, and a success is never a failure."""

from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import PASS, THROTTLED, Action, DropRequest, DropResponse, Fail
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.orders import LOCK
from tests.support.proxy_rules import in_turn, targets

TROUBLES = [THROTTLED, Fail(), Fail(503, "ServiceUnavailable"), DropRequest()]
BEFORE = "confirm in_progress"


@pytest.mark.parametrize("trouble", TROUBLES, ids=str)
def test_a_success_that_never_gets_through_is_given_up_at_the_end_of_the_lock_and_is_no_failure(
    order: Any, proxy: Proxy, stopped_clock: StoppedClock, trouble: Action
) -> None:
    order.create("o")
    run = Frozen(order.confirm.start("o"))
    proxy.rule = lambda target, *_: trouble if target == "UpdateItem" else PASS
    with pytest.raises(UpdateError) as error:
        run.wake()
    assert run.ctx.lock_expire_time - timedelta(seconds=10) < stopped_clock.now() <= run.ctx.lock_expire_time
    may_be_applied = trouble != THROTTLED
    assert ("may have been recorded" in error.value.__notes__[0]) is may_be_applied
    assert ("was not recorded" in error.value.__notes__[0]) is not may_be_applied
    task = order.get_task("o")
    assert (str(task.state), task.attempt, task.errors) == (BEFORE, 1, [])


@pytest.mark.usefixtures("stopped_clock")
def test_the_blocks_own_exception_propagates_with_a_note_if_it_cannot_be_recorded(order: Any, proxy: Proxy) -> None:
    order.create("o")
    run = Frozen(order.confirm.start("o"))
    proxy.rule = lambda target, *_: THROTTLED if target == "UpdateItem" else PASS
    with pytest.raises(ZeroDivisionError) as error:
        run.wake(ZeroDivisionError())
    assert "could not record" in error.value.__notes__[0]


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
@pytest.mark.parametrize("error", [None, ZeroDivisionError()], ids=["success", "failure"])
@pytest.mark.parametrize("trouble", [*TROUBLES, DropResponse()], ids=str)
def test_an_end_that_does_not_get_through_is_sent_again(
    order: Any, proxy: Proxy, trouble: Action, error: ZeroDivisionError | None
) -> None:
    order.create("o")
    run = Frozen(order.confirm.start("o", skip_error=True))
    proxy.rule = in_turn("UpdateItem", *[trouble] * 13)
    run.wake(error)
    task = order.get_task("o")
    assert (task.state, task.fence) == (order.confirm.failed if error else order.confirm.succeeded, 1)
    assert [each.type for each in task.errors] == ["ZeroDivisionError"] * bool(error)


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize(
    ("code", "sent", "state"), [("SerializationException", 2, BEFORE), ("AccessDeniedException", 3, "ship pending")]
)
def test_an_end_that_is_refused_for_good_is_sent_once_and_again_while_a_policy_denies_it(
    order: Any, proxy: Proxy, code: str, sent: int, state: str
) -> None:
    order.create("o")
    run = Frozen(order.confirm.start("o"))
    proxy.rule = in_turn("UpdateItem", Fail(400, code))
    if state == BEFORE:
        with pytest.raises(UpdateError):
            run.wake()
    else:
        run.wake()
    assert (targets(proxy).count("UpdateItem"), str(order.get_task("o").state)) == (sent, state)
