"""Two workers, a handler and a batch, in processes of their own, while a person pauses a step and is killed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.engine import Engine
from tests.support.pause_process import READ_AFTER, PauseWorker, orders
from tests.support.processes import until

pytestmark = pytest.mark.race

SLACK = 1.0
"""Seconds between the look of a process that the machine has stopped meanwhile, and its start of a block."""


@pytest.fixture
def settings(dynamodb: Engine, table: str, name: str) -> dict[str, Any]:
    return {"endpoint": dynamodb.endpoint, "table": table, "name": name, "lock_for": 60, "margin": 0.2}


@pytest.fixture
def processes(settings: dict[str, Any]) -> Iterator[dict[str, PauseWorker]]:
    commands = {"first": ["work"], "second": ["work"], "batch": ["batch"], "handle": ["handle"], "ada": ["pause", "3"]}
    found = {name: PauseWorker(settings, *command) for name, command in commands.items()}
    try:
        yield found
    finally:
        for each in found.values():
            each.end()


def test_a_paused_step_is_started_by_nobody_until_its_pause_ends(
    settings: dict[str, Any], processes: dict[str, PauseWorker]
) -> None:
    order = orders(**settings)
    order.create("long", state=order.ship.pending)
    order.create_many(({"task_id": f"s-{n}", "state": order.ship.pending} for n in range(600)), threads=25)
    order.create_many((f"r-{n}" for n in range(600)), threads=25)
    assert {each.hear() for each in processes.values()} == {"ready"}
    *workers, person = processes.values()
    for each in workers:
        each.go()
    until(lambda: order.get_task("long").fence)

    person.go()
    end = float(person.hear())
    paused = time.time()
    person.kill()
    starts = [start for each in workers for start in each.report()]

    ended_at = [at for step, _, at in starts if step == "ship" and paused + READ_AFTER + SLACK < at < end]
    meanwhile = {step for step, _, at in starts if paused + READ_AFTER + SLACK < at < end}
    after = {step for step, _, at in starts if at > end}
    assert (ended_at, meanwhile, "ship" in after) == ([], {"reserve"}, True)
    assert order.get_task("long").state == order.ship.succeeded
    assert max(Counter((step, task_id) for step, task_id, _ in starts).values()) == 1
    assert Counter(str(state) for state, number in order.counts().items() if number)["ship failed"] == 0
