"""Real processes create, run, fail, die, ignore and reopen in groups, over a network that loses, repeats and delays."""

from __future__ import annotations

import pytest

from pynamodb_tracker.status import END, Status
from tests.engine.actions import pass_everything
from tests.engine.engine import Engine
from tests.engine.proxy import Proxy
from tests.support.bad_network import BadNetwork, started_together
from tests.support.group_process import STOP, STOP_STEERING, GroupWorker, orders
from tests.support.orders import close
from tests.support.processes import until
from tests.support.rows import keys

pytestmark = pytest.mark.race

GROUPS = ("a", "b")
CREATORS, TASKS = 3, 8
LOCK, MARGIN = 1.0, 0.1


def test_the_order_of_a_group_is_kept_never_two_run_and_nothing_is_stranded(
    dynamodb: Engine, proxy: Proxy, table: str, name: str
) -> None:
    order = orders(dynamodb.endpoint, table, name, LOCK, MARGIN)
    network = BadNetwork()
    proxy.rule = network
    creators = [["create", f"{number}", f"{TASKS}", *GROUPS] for number in range(CREATORS)]
    person = ["steer", f"{CREATORS}", f"{TASKS}"]
    mortals, others = [["work", "3"], ["work", "6"]], [["work", "0"], ["work", "0"]]
    settings = {"endpoint": proxy.endpoint, "table": table, "name": name, "lock_for": LOCK, "margin": MARGIN}
    with started_together(GroupWorker, settings, [*creators, *mortals, *others, person]) as started:
        created = {task_id for creator in started[:CREATORS] for task_id in creator.report()["created"]}
        groups = [order.group(group) for group in GROUPS]
        until(lambda: not any(group.waiting() for group in groups))
        order.create(STOP_STEERING, state=order.ship.succeeded)
        steered = started[-1].report()
        until(lambda: not any(group.turn for group in groups))
        proxy.rule = pass_everything
        network.arrive(proxy)
        order.create(STOP, state=order.ship.succeeded)
        assert [worker.report() for worker in started[-len(others) - 1 : -1]] == ["ended"] * len(others)

    assert [(group.turn, group.waiting()) for group in groups] == [(None, [])] * len(GROUPS)
    stored = list(keys(order))
    assert not [key for key in stored if key["use_case_id"]["S"].startswith(f"#group#{name}##")]
    found = order.get_many([key["task_id"]["S"] for key in stored if key["use_case_id"]["S"] == name])
    tasks = {task.task_id: task for task in found if task.group is not None}
    assert len(created - tasks.keys()) <= steered["deleted"]
    assert {task.state.status for task in tasks.values()} <= {Status.SUCCEEDED, Status.IGNORED}
    done = [(group.name, *entry) for group in groups for entry in group.data["done"]]
    succeeded = {(task.group, task.task_id, task.group_number, 2) for task in tasks.values() if task.status == END}
    assert len(set(done)) == len(done)
    assert succeeded <= set(done)
    assert {task_id for _, task_id, _, step in done if step == 2} - {
        each[1] for each in succeeded
    } <= created - tasks.keys()
    for name_of_group in GROUPS:
        in_order = [(number, step) for group, _, number, step in done if group == name_of_group]
        assert in_order == sorted(in_order)
    close(order)
