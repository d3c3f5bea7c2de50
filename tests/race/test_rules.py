"""Rules of the lock protocol that do not depend on a single guard."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from pynamodb_tracker import LockLostError
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.writes import lock as lock_module
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.orders import LOCK
from tests.support.proxy_rules import in_turn, targets
from tests.support.world import OVER, fail

pytestmark = pytest.mark.usefixtures("stopped_clock")

Freeze = Callable[..., Frozen]


def test_a_block_is_not_entered_if_the_task_was_taken_over_before_the_answer_came(
    order: Any, rival: Any, proxy: Proxy, freeze: Freeze, stopped_clock: StoppedClock
) -> None:
    order.create("o")
    proxy.rule = in_turn("UpdateItem", lambda: stopped_clock.advance(OVER), lambda: freeze(rival.confirm, "o"))
    entered: list[Any] = []
    with pytest.raises(LockLostError):
        order.confirm.run("o", entered.append)
    assert entered == []


def test_a_block_is_entered_with_a_full_lock_if_the_answer_came_late(
    order: Any, proxy: Proxy, stopped_clock: StoppedClock
) -> None:
    order.create("o")
    proxy.rule = in_turn("UpdateItem", lambda: stopped_clock.advance(OVER))
    with order.confirm.start("o") as ctx:
        assert order.get_task("o").lock_expire_time == ctx.lock_expire_time
        left = ctx.lock_expire_time - ctx.task.update_time - OVER
    assert left == LOCK


def test_a_worker_whose_clock_is_behind_the_last_claimers_claims_once_more(
    order: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    order.create("o")
    with monkeypatch.context() as ahead:
        ahead.setattr(lock_module, "_last", max(time.time_ns(), lock_module._last) + 3_600_000_000_000)
        fail(order.confirm)
    before = len(proxy.log)
    assert order.confirm.run("o", lambda ctx: ctx.attempt) == 2
    assert targets(proxy)[before:] == ["UpdateItem", "GetItem", "UpdateItem", "UpdateItem"]


@pytest.mark.parametrize("behind", ["reopen", "ignore"])
def test_a_command_from_a_clock_behind_the_last_claimers_is_applied(
    order: Any, monkeypatch: pytest.MonkeyPatch, behind: str
) -> None:
    order.create("o")
    with monkeypatch.context() as ahead:
        ahead.setattr(lock_module, "_last", max(time.time_ns(), lock_module._last) + 3_600_000_000_000)
        fail(order.confirm)
    task = order.confirm.reopen("o") if behind == "reopen" else order.confirm.ignore("o", reason="cancelled")
    assert task.state == {"reopen": order.confirm.pending, "ignore": order.confirm.ignored}[behind]
