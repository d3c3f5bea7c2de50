"""Real processes ask, run, fail and die, over a network that loses, repeats and delays: each request counts once."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.engine.actions import PASS, Action, DropAnswer, DropRequest, Duplicate, Hold, pass_everything
from tests.engine.dynamodb_local import Engine
from tests.engine.proxy import Proxy
from tests.support.merge_process import STOP, MergingWorker, feeds
from tests.support.orders import close
from tests.support.processes import until

pytestmark = pytest.mark.race

KEYS = ("a", "b", "c")
CALLERS, REQUESTS = 4, 20
LOCK, MARGIN = 1.0, 0.1
LATE = 0.5
"""Seconds, at most, until a request arrives whose client has given up."""


class BadNetwork:
    """Of a hundred writes, loses three, answers four with nothing, sends three twice, and delivers three late."""

    def __init__(self) -> None:
        self._random = random.Random(12)
        self.late: list[threading.Timer] = []

    def __call__(self, target: str, _body: object, _ordinal: int) -> Action:
        """Say what happens to a request."""
        if target not in {"PutItem", "UpdateItem"}:
            return PASS
        lot = self._random.random()
        if lot < 0.03:
            held = Hold()
            self.late.append(threading.Timer(self._random.uniform(0, LATE), held.event.set))
            self.late[-1].start()
            return held
        if lot < 0.06:
            return DropRequest()
        if lot < 0.1:
            return DropAnswer()
        return Duplicate("first" if lot < 0.115 else "second") if lot < 0.13 else PASS

    def arrive(self) -> None:
        """Wait until nothing is on its way any more."""
        for timer in self.late:
            timer.join()


@contextmanager
def processes(proxy: Proxy, table: str, name: str, *commands: list[str]) -> Iterator[list[MergingWorker]]:
    """Start a process for each command, let all begin at once, and end them with the test."""
    settings = {"endpoint": proxy.endpoint, "table": table, "name": name, "lock_for": LOCK, "margin": MARGIN}
    with ExitStack() as stack:
        started = [MergingWorker(settings, *command) for command in commands]
        for each in started:
            stack.callback(each.end)
        for each in started:
            assert each.hear() == "ready"
        for each in started:
            each.go()
        yield started


def test_each_request_is_counted_by_one_successful_run(
    dynamodb_local: Engine, proxy: Proxy, table: str, name: str
) -> None:
    feed = feeds(dynamodb_local.endpoint, table, name, LOCK, MARGIN)
    network = BadNetwork()
    proxy.rule = network
    callers = [["ask", f"{number}", f"{REQUESTS}", *KEYS] for number in range(CALLERS)]
    mortals, others = [["work", "3"], ["work", "6"]], [["work", "0"], ["work", "0"]]
    with processes(proxy, table, name, *callers, *mortals, *others) as started:
        reports = [caller.report() for caller in started[:CALLERS]]
        proxy.rule = pass_everything
        network.arrive()
        for key in KEYS:
            until(lambda key=key: feed.get_task(key).state == feed.work.succeeded)
        tasks = [feed.get_task(key) for key in KEYS]
        feed.create(STOP, state=feed.work.succeeded)
        assert [worker.report() for worker in started[-len(others) :]] == ["ended"] * len(others)

    done = Counter(item for task in tasks for item in task.data["done"])
    merged = Counter(item for report in reports for item in report["merged"])
    doubtful = Counter(item for report in reports for item in report["doubtful"])
    assert done == merged + (done & doubtful)
    assert len(merged) >= 0.9 * CALLERS * REQUESTS
    assert {item.partition(":")[0] for item in done} == set(KEYS)
    assert not [task for task in tasks if task.again is not None]
    close(feed)
