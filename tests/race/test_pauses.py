"""Two workers, a handler and a batch, in processes of their own, while a person pauses a step and is killed."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.engine import Engine
from tests.support.pause_process import PauseWorker, orders
from tests.support.processes import until

pytestmark = pytest.mark.race


@pytest.fixture
def settings(dynamodb: Engine, table: str, name: str) -> dict[str, Any]:
    return {"endpoint": dynamodb.endpoint, "table": table, "name": name, "lock_for": 60, "margin": 0.2}


@pytest.fixture
def processes(settings: dict[str, Any]) -> Iterator[dict[str, PauseWorker]]:
    commands = {
        "first": ["work"],
        "second": ["work"],
        "batch": ["batch"],
        "handle": ["handle"],
        "ada": ["pause", "3600"],
    }
    found = {name: PauseWorker(settings, *command) for name, command in commands.items()}
    try:
        yield found
    finally:
        for each in found.values():
            each.end()


def test_a_paused_step_is_started_by_nobody_until_it_is_resumed(
    settings: dict[str, Any], processes: dict[str, PauseWorker]
) -> None:
    order = orders(**settings)
    order.create("long", state=order.ship.pending)
    order.create_many(({"task_id": f"s-{n}", "state": order.ship.pending} for n in range(400)), threads=25)
    order.create_many((f"r-{n}" for n in range(400)), threads=25)
    assert {each.hear() for each in processes.values()} == {"ready"}
    *workers, person = processes.values()
    for each in workers[:2]:
        each.go()
    until(lambda: order.get_task("long").fence)  # of a thread that has others beside it
    for each in workers[2:]:
        each.go()
    person.go()
    person.hear()
    person.kill()
    assert {each.hear() for each in workers} == {"read"}
    reserved = order.ship.pending.count()
    until(lambda: order.ship.pending.count() > reserved + 4)  # the other step goes on
    end = time.time()
    order.ship.resume()
    shipped = order.ship.succeeded.count()
    until(lambda: order.ship.succeeded.count() > shipped + 4)
    for each in workers:
        each.go()
    reports = [each.report() for each in workers]
    for read_at, starts in reports:
        paused = Counter(thread for step, _, thread, at in starts if step == "ship" and read_at < at < end)
        assert set(paused.values()) <= {1}  # a thread may have been about to start its task when another one read it
    starts = [start for _, starts in reports for start in starts]
    assert order.get_task("long").state == order.ship.succeeded
    assert max(Counter((step, task_id) for step, task_id, _, _ in starts).values()) == 1
    assert Counter(str(state) for state, number in order.counts().items() if number)["ship failed"] == 0
