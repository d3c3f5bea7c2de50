"""asyncio tasks that are cancelled while their requests are on their way, on dynoxide."""

import asyncio
import random
import threading
from typing import Any

import pytest

from tests.chaos.interruptions import cancel_at_random, delayed, found, problems
from tests.engine.actions import PASS, After
from tests.engine.proxy import Proxy
from tests.support.proxy_rules import in_turn, targets

pytestmark = pytest.mark.race

CANCELS = 60
"""How many runs are cancelled."""


def test_runs_that_are_cancelled_at_random_are_released_or_recorded(order: Any, rival: Any, proxy: Proxy) -> None:
    draw = random.Random(CANCELS)
    proxy.rule = delayed(draw)
    attempts = asyncio.run(cancel_at_random(order, rival, CANCELS, draw))
    rows = [(attempt, found(rival, attempt.task_id)) for attempt in attempts]
    assert [(problem, attempt, row) for attempt, row in rows for problem in problems(attempt, row)] == []


@pytest.mark.parametrize(("number", "state"), [(1, "confirm pending"), (2, "ship pending")], ids=["claim", "end"])
def test_a_request_is_awaited_however_often_its_task_is_cancelled(
    order: Any, rival: Any, proxy: Proxy, number: int, state: str
) -> None:
    async def do_nothing(_: Any) -> None: ...

    async def cancel_often() -> None:
        run = asyncio.create_task(order.confirm.arun("o-1", do_nothing))
        while len(targets(proxy)) < number:
            await asyncio.sleep(0.001)
        for _ in range(100):
            run.cancel()
            await asyncio.sleep(0)
        assert not run.done()
        answered.set()
        await run

    answered = threading.Event()
    rival.create("o-1")
    proxy.rule = in_turn("UpdateItem", *[PASS] * (number - 1), After(answered))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel_often())
    task = rival.get_task("o-1")
    assert (str(task.state), task.attempt, targets(proxy)) == (state, 0, ["UpdateItem", "UpdateItem"])
