"""A request that is lost, repeated or late leaves the row as on a good network, and raises no error."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from pynamodb_tracker import TaskIgnoredError
from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import PASS, Action, DropRequest, DropResponse, Duplicate, Hold
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.operations import OPERATIONS, Boom, row
from tests.support.orders import LOCK, MARGIN
from tests.support.proxy_rules import arrive, in_turn

pytestmark = pytest.mark.usefixtures("stopped_clock")

REPEATED: dict[str, Callable[[], Action]] = {
    "lost": DropRequest,
    "answer lost": DropResponse,
    "twice": Duplicate,
    "late": Hold,
}


@pytest.mark.parametrize("action", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_request_that_goes_wrong_makes_no_difference(
    order: Any, proxy: Proxy, operation: str, action: Callable[[], Action]
) -> None:
    target, story = OPERATIONS[operation]
    wrong = action()
    story(order, "calm", lambda: None)
    story(order, "stormy", lambda: setattr(proxy, "rule", in_turn(target, wrong)))
    if isinstance(wrong, Hold):
        arrive(proxy, wrong)
    assert row(order, "stormy") == row(order, "calm")
    assert [exchange.action for exchange in proxy.log].count(wrong) == 1


@pytest.mark.parametrize("action", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("operation", ["commit", "commit success"])
def test_the_writes_of_a_transaction_that_goes_wrong_are_applied_once(
    order: Any, proxy: Proxy, operation: str, action: Callable[[], Action]
) -> None:
    target, story = OPERATIONS[operation]
    wrong = action()
    story(order, "stormy", lambda: setattr(proxy, "rule", in_turn(target, wrong)))
    if isinstance(wrong, Hold):
        arrive(proxy, wrong)
    assert order.get_task("stormy ledger").amount == 1


@pytest.mark.parametrize(
    ("operation", "actions"),
    [
        *((operation, [Duplicate("second")]) for operation in sorted(OPERATIONS.keys() - {"delete"})),
        *((operation, [DropResponse()] * 3) for operation in OPERATIONS),  # all but the last try of the SDK
    ],
)
def test_the_answer_to_a_copy_is_understood_whether_or_not_the_sdk_knows_of_it(
    order: Any, proxy: Proxy, operation: str, actions: list[Action]
) -> None:
    target, story = OPERATIONS[operation]
    story(order, "calm", lambda: None)
    story(order, "stormy", lambda: setattr(proxy, "rule", in_turn(target, *actions)))
    assert row(order, "stormy") == row(order, "calm")


@pytest.mark.parametrize(
    ("ends", "ended_as", "claimed"),
    [
        (None, "ship pending", "ship"),
        (Boom, "confirm failed", "confirm"),
        (KeyboardInterrupt, "confirm pending", "confirm"),
    ],
)
def test_a_finish_whose_answer_was_lost_is_no_lost_lock_though_another_worker_has_the_task_by_then(
    order: Any,
    rival: Any,
    proxy: Proxy,
    freeze: Callable[..., Frozen],
    *,
    ends: type[BaseException] | None,
    ended_as: str,
    claimed: str,
) -> None:
    order.create("o")
    with contextlib.suppress(ends or Boom), order.confirm.start("o") as ctx:
        proxy.rule = in_turn("UpdateItem", DropResponse(), lambda: freeze(getattr(rival, claimed), "o"))
        if ends is not None:
            raise ends
    assert (str(ctx.task.state), str(rival.get_task("o").state)) == (ended_as, f"{claimed} in_progress")


def test_a_create_whose_answer_was_lost_is_no_duplicate_though_a_worker_has_the_task_by_then(
    order: Any, rival: Any, proxy: Proxy
) -> None:
    proxy.rule = in_turn("PutItem", DropResponse(), lambda: rival.confirm.run("o", lambda _: None))
    assert order.create("o", amount=3).amount == 3
    assert rival.get_task("o").state == rival.ship.pending


def test_a_delete_whose_answer_was_lost_is_no_missing_task(order: Any, proxy: Proxy) -> None:
    order.create("o")
    proxy.rule = in_turn("DeleteItem", DropResponse())
    order.delete_task("o")
    assert [exchange.status for exchange in proxy.log if exchange.target == "DeleteItem"] == [200, 400]


def test_a_step_that_starts_from_another_state_understands_its_lost_answer(order: Any, proxy: Proxy) -> None:
    OPERATIONS["fail"][1](order, "o", lambda: None)
    proxy.rule = in_turn("UpdateItem", PASS, DropResponse())
    with order.ship.start("o") as ctx:
        assert (ctx.attempt, ctx.task.fence) == (1, 2)
    assert order.get_task("o").state == order.ship.succeeded


def test_a_task_that_is_set_aside_for_its_last_attempt_is_set_aside_once(
    order: Any, proxy: Proxy, freeze: Callable[..., Frozen], stopped_clock: StoppedClock
) -> None:
    order.create("o")
    for _ in range(3):
        freeze(order.confirm, "o")
        stopped_clock.advance(LOCK + 2 * MARGIN)
    proxy.rule = in_turn("UpdateItem", PASS, DropResponse())
    with pytest.raises(TaskIgnoredError):
        order.confirm.run("o", lambda _: None)
    task = order.get_task("o")
    assert (task.state, task.attempt) == (order.confirm.ignored, 3)
    assert [error.type for error in task.errors] == ["abandoned"] * 3 + ["ignored"]


def test_without_detail_a_claim_that_the_network_delivers_twice_is_not_refused(order: Any, proxy: Proxy) -> None:
    order.create("o")
    proxy.rule = in_turn("UpdateItem", Duplicate("second"))
    with order.confirm.start("o", detailed_error=False) as ctx:
        assert (ctx.attempt, ctx.task.fence) == (1, 1)
    assert order.get_task("o").state == order.ship.pending
