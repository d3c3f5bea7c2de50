"""Rules of the lock protocol that do not depend on a single guard."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import LockLostError, TaskIgnoredError, TaskLockedError
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.transitions import lock as lock_module
from tests.engine.actions import DropRequest, Fail
from tests.engine.engine import Engine
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.operations import Boom
from tests.support.orders import LOCK, MARGIN
from tests.support.proxy_rules import in_turn, targets
from tests.support.world import OVER, fail

pytestmark = pytest.mark.usefixtures("stopped_clock")

CONFLICT = Fail(400, "TransactionConflictException")

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


@pytest.mark.parametrize("ends", [None, Boom])
def test_a_finish_after_the_lock_expired_counts_unless_another_worker_took_the_task(
    order: Any, stopped_clock: StoppedClock, ends: type[Exception] | None
) -> None:
    order.create("o")

    with contextlib.suppress(Boom), order.confirm.start("o"):
        stopped_clock.advance(10 * OVER)
        if ends:
            raise ends

    assert order.get_task("o").state == (order.confirm.failed if ends else order.confirm.succeeded)


def test_a_lock_is_taken_over_a_margin_after_its_end_and_not_earlier(
    order: Any, freeze: Freeze, stopped_clock: StoppedClock
) -> None:
    order.create("o")
    freeze(order.confirm, "o")

    stopped_clock.advance(LOCK + MARGIN)
    with pytest.raises(TaskLockedError):
        order.confirm.run("o", lambda _: None)

    stopped_clock.advance(timedelta(microseconds=1))
    assert order.confirm.run("o", lambda ctx: ctx.attempt) == 2


def test_a_finish_without_any_answer_raises_the_error_of_the_network_with_a_note(order: Any, proxy: Proxy) -> None:
    order.create("o")

    with pytest.raises(UpdateError) as error, order.confirm.start("o"):
        proxy.rule = lambda *_: DropRequest()

    assert "may have been recorded" in error.value.__notes__[0]


@pytest.mark.parametrize("conflicts", [1, 4])
def test_a_write_that_meets_a_transaction_is_repeated(order: Any, proxy: Proxy, conflicts: int) -> None:
    order.create("o")
    proxy.rule = in_turn("UpdateItem", *[CONFLICT] * conflicts)

    with order.confirm.start("o") as ctx:
        ctx.task.note = "half way"
        proxy.rule = in_turn("UpdateItem", *[CONFLICT] * conflicts)
        ctx.save()
        proxy.rule = in_turn("UpdateItem", *[CONFLICT] * conflicts)
        ctx.extend_lock(timedelta(hours=1))
        proxy.rule = in_turn("UpdateItem", *[CONFLICT] * conflicts)

    assert order.get_task("o").state == order.confirm.succeeded


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


def test_run_all_does_not_try_to_claim_a_task_whose_lock_was_extended(
    order: Any, proxy: Proxy, freeze: Freeze, stopped_clock: StoppedClock
) -> None:
    order.create("o")
    freeze(order.confirm, "o").ctx.extend_lock(timedelta(hours=1))
    stopped_clock.advance(OVER)
    before = targets(proxy).count("UpdateItem")

    report = order.confirm.run_all(lambda _: None)

    assert str(report) == "0 succeeded, 0 failed, 0 ignored, 0 refused"
    assert targets(proxy).count("UpdateItem") == before


def test_a_task_whose_workers_all_die_ends_as_ignored(order: Any, freeze: Freeze, stopped_clock: StoppedClock) -> None:
    order.create("o")
    for _ in range(3):
        freeze(order.confirm, "o")
        stopped_clock.advance(OVER)

    with pytest.raises(TaskIgnoredError):
        order.confirm.run("o", lambda _: None)

    assert "3 of 3 attempts" in order.get_task("o").last_error


@pytest.mark.parametrize("dead", [8, 9, 101])
def test_every_one_of_many_frozen_workers_gets_lock_lost(
    new_worker: Any, dynamodb: Engine, freeze: Freeze, stopped_clock: StoppedClock, dead: int
) -> None:
    patient = new_worker(dynamodb.endpoint, max_attempts=200)
    patient.create("o")
    runs = []
    for _ in range(dead):
        runs.append(freeze(patient.confirm, "o"))
        stopped_clock.advance(OVER)
    patient.confirm.run("o", lambda _: None)

    for run in runs:
        with pytest.raises(LockLostError):
            run.wake()
