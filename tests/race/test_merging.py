"""Real processes ask, run, fail and die, over a network that loses, repeats and delays: each request counts once."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.engine.actions import pass_everything
from tests.engine.engine import Engine
from tests.engine.proxy import Proxy
from tests.support.bad_network import BadNetwork, started_together
from tests.support.merge_process import STOP, MergingWorker, feeds
from tests.support.orders import close
from tests.support.processes import until

pytestmark = pytest.mark.race

KEYS = ("a", "b", "c")
CALLERS, REQUESTS = 4, 12
LOCK, MARGIN = 1.0, 0.1


def test_each_request_is_counted_by_one_successful_run(dynamodb: Engine, proxy: Proxy, table: str, name: str) -> None:
    feed = feeds(dynamodb.endpoint, table, name, LOCK, MARGIN)
    network = BadNetwork()
    proxy.rule = network
    callers = [["ask", f"{number}", f"{REQUESTS}", *KEYS] for number in range(CALLERS)]
    mortals, others = [["work", "3"], ["work", "6"]], [["work", "0"], ["work", "0"]]
    settings = {"endpoint": proxy.endpoint, "table": table, "name": name, "lock_for": LOCK, "margin": MARGIN}
    with started_together(MergingWorker, settings, [*callers, *mortals, *others]) as started:
        reports = [caller.report() for caller in started[:CALLERS]]
        proxy.rule = pass_everything
        network.arrive(proxy)
        for key in KEYS:
            until(lambda key=key: feed.get_task(key).state == feed.work.succeeded)
        tasks = [feed.get_task(key) for key in KEYS]
        feed.create(STOP, state=feed.work.succeeded)
        assert [worker.report() for worker in started[-len(others) :]] == ["ended"] * len(others)

    done = Counter(item for task in tasks for item in task.data["done"])
    merged = Counter(item for report in reports for item in report["merged"])
    doubtful = Counter(item for report in reports for item in report["doubtful"])
    assert done == merged + (done & doubtful)
    assert len(merged) + len(doubtful) == CALLERS * REQUESTS
    assert len(merged) > len(doubtful)  # a request that is lost is repeated, and only a few are lost each time
    assert {item.partition(":")[0] for item in done} == set(KEYS)
    assert not [task for task in tasks if task.again is not None]
    close(feed)
