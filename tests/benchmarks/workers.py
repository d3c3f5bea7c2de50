"""Tasks a second, and refused claims for each task, as more processes work on one step, by three strategies."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Barrier
from typing import Any

from botocore.exceptions import ClientError

from pynamodb_tracker.writes.lock import new_token
from tests.benchmarks.by_hand import ByHand
from tests.benchmarks.by_tracker import ByTracker
from tests.benchmarks.orders import Order, data_of
from tests.benchmarks.tables import table
from tests.benchmarks.ways import Way, engine, missing, peers

PROCESSES = (1, 2, 4, 8, 16)
TASKS = 500
PATIENCE = 300.0
OLDEST = 10


class Strategy:
    """A way with all that it does in one process: what is run does nothing."""

    def __init__(self, make: Callable[[], Way]) -> None:
        self.way = make()

    def work(self) -> tuple[int, int]:
        """Run tasks until there are none, and return how many were done, and how many claims were refused."""
        raise NotImplementedError


class RunAll(Strategy):
    def work(self) -> tuple[int, int]:
        report = Order.ship.run_all(lambda _: None)
        return len(report.succeeded), len(report.refused)


class OldestByHand(Strategy):
    def work(self) -> tuple[int, int]:
        way, done, refused = self.way, 0, 0
        assert isinstance(way, ByHand)
        while keys := way.oldest_keys("10", OLDEST):
            for key in keys:
                try:
                    token = {"S": new_token()}
                    way.finish(key, token, way.claim(key, token))
                    done += 1
                except ClientError as error:
                    if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                        raise
                    refused += 1
        return done, refused


class OldestByMate(Strategy):
    def work(self) -> tuple[int, int]:
        from pynamodb_mate.patterns.status_tracker import api as mate  # noqa: PLC0415 - may not be installed

        from tests.benchmarks.by_mate import MateOrder  # noqa: PLC0415 - the same

        done = refused = 0
        while found := list(MateOrder.query_by_status(10, limit=OLDEST)):
            for row in found:
                try:
                    with MateOrder.start(row.task_id):
                        pass
                    done += 1
                except mate.TaskIsNotReadyToStartError:
                    refused += 1
        return done, refused


def strategies() -> dict[str, tuple[type[Strategy], Callable[[], Way]]]:
    found: dict[str, tuple[type[Strategy], Callable[[], Way]]] = {
        "pynamodb_tracker: run_all": (RunAll, ByTracker),
        "by hand: query the 10 oldest, try each": (OldestByHand, ByHand),
    }
    if "pynamodb_mate" in peers():
        found["pynamodb_mate: query the 10 oldest, try each"] = (OldestByMate, peers()["pynamodb_mate"])
    return found


def report() -> Iterator[str]:
    yield f"Tasks a second and refused claims, {TASKS} tasks of one step, by the number of processes"
    yield from missing()
    with engine() as found:
        if isinstance(found, str):
            yield found
            return
        rows = [
            [name, *measured(strategy, way, processes)]
            for processes in PROCESSES  # strategies take turns: how busy the machine is changes
            for name, (strategy, way) in strategies().items()
        ]
    rows.sort(key=lambda row: row[0], reverse=True)
    yield from table(["strategy", "processes", "tasks/s", "refused/task", "requests/task"], rows)
    yield "the engine and all processes share this machine; the worker of the library claims as run_all does"


def measured(strategy: type[Strategy], make: Callable[[], Way], processes: int) -> list[str]:
    way = make()
    way.make_table()
    try:
        for number in range(TASKS):
            way.create(f"o-{number:04}", data_of(200))
        seconds, done, refused, requests = raced(strategy, make, processes)
    finally:
        way.drop_table()
    assert done == TASKS, f"{done} of {TASKS}"
    return [str(processes), f"{TASKS / seconds:.0f}", f"{refused / TASKS:.2f}", f"{requests / TASKS:.2f}"]


def raced(strategy: type[Strategy], make: Callable[[], Way], processes: int) -> tuple[float, int, int, int]:
    """Let so many processes run all that there is to do, and return how that went."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(processes + 1), context.SimpleQueue()
    workers = [context.Process(target=work, args=(strategy, make, barrier, results)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    barrier.wait(PATIENCE)
    began = time.perf_counter()
    told = [results.get() for _ in workers]
    seconds = time.perf_counter() - began
    for worker in workers:
        worker.join(PATIENCE)
    done, refused, requests = (sum(column) for column in zip(*told, strict=True))
    return seconds, done, refused, requests


def work(strategy: type[Strategy], make: Callable[[], Way], barrier: Barrier, results: Any) -> None:
    ready = strategy(make)
    sent: list[str] = []
    ready.way.client.meta.events.register("before-call.dynamodb", lambda model, **_: sent.append(model.name))
    task_id = f"warm-up-{os.getpid()}"  # what is built for the first request is built
    ready.way.create(task_id, {})
    ready.way.run(task_id)
    sent.clear()
    barrier.wait(PATIENCE)
    results.put((*ready.work(), len(sent)))
