"""Real processes with heartbeats: blocks outlive their locks, and a frozen one finds out before it stores anything."""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import TaskLockedError, TaskNotStartableError
from pynamodb_tracker.execution import heartbeat
from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import PASS, THROTTLED, Action, After
from tests.engine.engine import Engine
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.heartbeat_process import BeatingWorker
from tests.support.processes import until
from tests.support.proxy_rules import in_turn
from tests.support.world import OVER

LOCK = timedelta(minutes=5)
MARGIN = timedelta(seconds=5)

Start = Callable[..., BeatingWorker]


@pytest.fixture
def shop(new_worker: Any, dynamodb: Engine) -> Any:
    return new_worker(dynamodb.endpoint, lock_for=LOCK, margin=MARGIN)


@pytest.fixture
def start(dynamodb: Engine, table: str, name: str, stopped_clock: StoppedClock) -> Iterator[Start]:
    """Return a function that starts a worker process, and comes back when it is inside its block.

    Its clock and that of the test show the same time, and the test moves both.
    """
    times = {"lock_for": LOCK.total_seconds(), "margin": MARGIN.total_seconds()}
    settings = {"endpoint": dynamodb.endpoint, "table": table, "name": name, **times}
    with contextlib.ExitStack() as stack:

        def start(*command: str) -> BeatingWorker:
            worker = BeatingWorker({**settings, "now": stopped_clock.now().isoformat()}, *command)
            stack.callback(worker.end)
            assert worker.hear() == "inside"
            return worker

        yield start


def take_over(shop: Any, task_id: str) -> int:
    """Try until the task is had, write a note, and return which attempt it was."""

    def note(ctx: Any) -> int:
        ctx.task.note = "of the one that took over"
        return int(ctx.attempt)

    def tried() -> int | None:
        with contextlib.suppress(TaskNotStartableError):
            return int(shop.confirm.run(task_id, note))
        return None

    return int(until(tried))


@pytest.mark.race
def test_a_block_outlives_its_lock_while_others_keep_trying(
    shop: Any, start: Start, stopped_clock: StoppedClock
) -> None:
    shop.create("o")
    worker = start("stay", "o")
    for _ in range(5):
        stopped_clock.advance(LOCK / 3)
        with pytest.raises(TaskLockedError):
            shop.confirm.run("o", lambda _: None)
        worker.advance(LOCK / 3)
        until(lambda: shop.get_task("o").lock_expire_time == stopped_clock.now() + LOCK)
    worker.go()
    assert worker.report() is False
    task = shop.get_task("o")
    assert (task.state, task.fence, task.note) == (shop.confirm.succeeded, 1, "of the one that stayed")


@pytest.mark.race
def test_a_frozen_worker_finds_out_before_anything_of_it_is_stored(
    shop: Any, start: Start, stopped_clock: StoppedClock
) -> None:
    shop.create("o")
    worker = start("wake", "o")
    worker.signal(signal.SIGSTOP)
    stopped_clock.advance(LOCK + 2 * MARGIN)
    assert take_over(shop, "o") == 2
    before = shop.get_task("o")
    worker.advance(LOCK + 2 * MARGIN)
    worker.go()
    worker.signal(signal.SIGCONT)
    lost = "LockLostError"
    assert worker.report() == {"lock_lost": True, "save": lost, "extend_lock": lost, "end": lost}
    after = shop.get_task("o")
    assert after.attribute_values == before.attribute_values
    assert (after.state, after.note) == (shop.confirm.succeeded, "of the one that took over")


@pytest.mark.race
def test_a_frozen_worker_holds_its_task_again_unless_another_worker_took_it(
    shop: Any, start: Start, stopped_clock: StoppedClock
) -> None:
    shop.create("o")
    worker = start("go_on", "o")
    worker.signal(signal.SIGSTOP)
    stopped_clock.advance(LOCK + 2 * MARGIN)
    assert any(shop.confirm.due())
    worker.advance(LOCK + 2 * MARGIN)
    worker.go()
    worker.signal(signal.SIGCONT)
    assert (worker.report(), shop.get_task("o").state) == ("held again", shop.confirm.succeeded)


@pytest.mark.race
def test_the_lock_of_a_killed_worker_expires_although_it_had_a_heartbeat(
    shop: Any, start: Start, stopped_clock: StoppedClock
) -> None:
    shop.create("o")
    worker = start("die", "o")
    worker.advance(LOCK / 3)
    stopped_clock.advance(LOCK / 3)
    until(lambda: shop.get_task("o").lock_expire_time == stopped_clock.now() + LOCK)  # its heart did beat
    worker.kill()
    stopped_clock.advance(LOCK + 2 * MARGIN)
    assert take_over(shop, "o") == 2


def test_the_end_of_a_block_waits_a_moment_for_a_beat_on_its_way_and_no_longer(
    order: Any,
    proxy: Proxy,
    stopped_clock: StoppedClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(heartbeat, "MOMENT", 0.05)
    late, on_its_way = threading.Event(), threading.Event()
    slow = After(late)

    def delay_the_beat(target: str, *_: object) -> Action:
        if target != "UpdateItem" or on_its_way.is_set():
            return PASS
        on_its_way.set()
        return slow

    order.create("o")
    with order.confirm.start("o", heartbeat=True) as ctx:
        proxy.rule = delay_the_beat
        stopped_clock.advance(OVER / 2)
        assert on_its_way.wait(30)
    ended = order.get_task("o")
    late.set()
    until(lambda: not [thread for thread in threading.enumerate() if "heartbeat of" in thread.name])
    assert next(exchange for exchange in proxy.log if exchange.action is slow).answers
    assert (order.get_task("o").attribute_values, ended.state) == (ended.attribute_values, order.confirm.succeeded)
    assert not ctx.lock_lost
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_throttled_heartbeat_holds_the_task(
    order: Any, rival: Any, proxy: Proxy, freeze: Callable[..., Frozen], stopped_clock: StoppedClock
) -> None:
    order.create("o")
    ctx = freeze(order.confirm, "o", heartbeat=True).ctx
    claimed_until = ctx.lock_expire_time
    proxy.rule = in_turn("UpdateItem", *[THROTTLED] * 30)
    stopped_clock.advance(OVER / 2)

    def extended() -> bool:
        stopped_clock.advance(timedelta(seconds=0.1))
        return bool(ctx.lock_expire_time > claimed_until)

    until(extended)
    assert rival.get_task("o").lock_expire_time == ctx.lock_expire_time
