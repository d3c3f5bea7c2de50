"""Batches of trivial tasks: requests, client CPU and time for each task, beside botocore by hand, one after the other.

By hand, one thread claims and finishes one task after the other. The library's threads share requests.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pynamodb_tracker import Worker
from tests.benchmarks.apart import Apart, all_apart
from tests.benchmarks.by_hand import ByHand
from tests.benchmarks.by_tracker import ByTracker
from tests.benchmarks.orders import Order, Sharded, Wide
from tests.benchmarks.queries import copy
from tests.benchmarks.tables import table
from tests.benchmarks.ways import Way, engine
from tests.benchmarks.workers import OldestByHand, RunAll, measured

TASKS, THREADS, ROUNDS = 500, 25, 7
PROCESSES, REPEATED = 16, 3
LOOKS = 5
BY_HAND = "by hand, one thread"


def nothing(_: object) -> None:
    """Be what a task runs."""


class InBatches(RunAll):
    def work(self) -> tuple[int, int]:
        report = Order.ship.run_all(nothing, threads=THREADS)
        return len(report.succeeded), len(report.refused)


class ByWorker(RunAll):
    def work(self) -> tuple[int, int]:
        tally = Worker({Order.ship: nothing}, threads=THREADS).run(until_idle=True)[Order.ship]
        return tally.succeeded, tally.refused


class OneByOne(OldestByHand):
    def work(self) -> tuple[int, int]:
        way = self.way
        assert isinstance(way, ByHand)
        keys = way.oldest_keys("10", TASKS)
        for key in keys:
            way.run(key["task_id"]["S"])
        return len(keys), 0


WAYS: dict[str, Callable[[], Any]] = {
    BY_HAND: partial(OneByOne, ByHand),
    "run_all()": partial(RunAll, ByTracker),
    f"run_all(threads={THREADS})": partial(InBatches, ByTracker),
    f"Worker(threads={THREADS})": partial(ByWorker, ByTracker),
}


def report() -> Iterator[str]:
    yield f"{TASKS} trivial tasks, one process: for each task, as medians of {ROUNDS} rounds; ratios to {BY_HAND}"
    with engine() as found:
        if isinstance(found, str):
            yield found
            return
        yield from of_one_process()
        yield f"\nThe same tasks, {PROCESSES} processes, as medians of {REPEATED}"
        yield from of_many_processes()
        yield f"\nRequests before the first task begins, its claim included: median and most of {LOOKS}"
        yield from of_a_look()


def of_one_process() -> Iterator[str]:
    with all_apart(Timed, WAYS) as every:
        taken = medians(every)
    _, one_cpu, one_wall = taken[BY_HAND]
    rows = [
        [name, f"{requests:.2f}", f"{cpu / one_cpu:.2f} x", f"{wall / one_wall:.2f} x", in_ms(cpu), in_ms(wall)]
        for name, (requests, cpu, wall) in taken.items()
    ]
    yield from table(["way", "requests", "CPU", "time", "CPU", "time"], rows)


def in_ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f} ms"


def medians(every: dict[str, Apart]) -> dict[str, list[float]]:
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in every}
    for way in every.values():
        way.call("open")
        way.call("round")  # Python and the engine specialise what runs
    for _ in range(ROUNDS):
        for name, way in every.items():  # the ways take turns: how busy the machine is changes
            taken[name].append(way.call("round"))
    for way in every.values():
        way.call("close")
    return {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in taken.items()}


class Timed:
    def __init__(self, make: Callable[[], Any]) -> None:
        self._strategy = make()
        self._way: Way = self._strategy.way
        self._sent: list[str] = []
        self._created = 0
        self._way.client.meta.events.register("before-call.dynamodb", lambda model, **_: self._sent.append(model.name))

    def open(self) -> None:
        """Create the table; two of the ways share one, and use it in turn."""
        if self._way.table not in self._way.client.list_tables()["TableNames"]:
            self._way.make_table()

    def close(self) -> None:
        if self._way.table in self._way.client.list_tables()["TableNames"]:
            self._way.drop_table()

    def round(self) -> tuple[float, float, float]:
        task_id = f"{type(self._strategy).__name__}-{self._created}"
        self._way.create(task_id, {})
        key = {"task_id": {"S": task_id}, "use_case_id": {"S": "order"}}
        first = self._way.client.get_item(TableName=self._way.table, Key=key)["Item"]
        copy(self._way, first, self._created + 1, self._created + TASKS)
        self._created += TASKS
        self._sent.clear()
        began, began_cpu = time.perf_counter(), time.process_time()
        done, _ = self._strategy.work()
        cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
        assert done == TASKS, f"{done} of {TASKS}"
        return len(self._sent) / TASKS, cpu / TASKS, wall / TASKS


def of_many_processes() -> Iterator[str]:
    ways: dict[str, tuple[Any, Callable[[], Way]]] = {
        "by hand: query the 10 oldest, try each": (OldestByHand, ByHand),
        "run_all()": (RunAll, ByTracker),
        f"run_all(threads={THREADS})": (InBatches, ByTracker),
    }
    runs: dict[str, list[list[float]]] = {name: [] for name in ways}
    for _ in range(REPEATED):
        for name, (strategy, make) in ways.items():
            runs[name].append([float(cell) for cell in measured(strategy, make, PROCESSES)[1:]])
    rows = [
        [name, *(f"{statistics.median(column):.2f}" for column in zip(*rows, strict=True))]
        for name, rows in runs.items()
    ]
    yield from table(["strategy", "tasks/s", "refused/task", "requests/task"], rows)


def of_a_look() -> Iterator[str]:
    way = ByTracker()
    sent: list[str] = []
    way.client.meta.events.register("before-call.dynamodb", lambda model, **_: sent.append(model.name))
    rows = []
    for tasks in (TASKS, 1):
        way.make_table()
        for order in (Order, Sharded, Wide):
            order.create_many([f"o-{number}" for number in range(tasks)], threads=THREADS)
            shards = order.tracker.use_case.status_shards
            rows.append([f"{tasks} due, {shards} shards", *looks(order, sent)])
        way.drop_table()
    yield from table(["", "run_all", "Worker"], rows)


def looks(order: Any, sent: list[str]) -> list[str]:
    """Return in words how many requests run_all and a worker send before the function is called for the first time."""
    counted = []
    for run in (by_run_all, by_worker):
        numbers = []
        for _ in range(LOOKS):
            sent.clear()
            task_id, requests = run(order.ship, sent)
            numbers.append(requests)
            order.delete_task(task_id)
            order.create(task_id)
        counted.append(f"{statistics.median(numbers):.0f}, {max(numbers)}")
    return counted


def by_run_all(step: Any, sent: list[str]) -> tuple[str, int]:
    first: list[tuple[str, int]] = []
    step.run_all(lambda ctx: first.append((ctx.task.task_id, len(sent))), limit=1)
    return first[0]


def by_worker(step: Any, sent: list[str]) -> tuple[str, int]:
    first: list[tuple[str, int]] = []

    def stop_at_once(ctx: Any) -> None:
        first.append((ctx.task.task_id, len(sent)))
        worker.stop()

    worker = Worker({step: stop_at_once})
    worker.run(until_idle=True)
    return first[0]
