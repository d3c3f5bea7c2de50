"""Tasks that mostly wait, 200 at a time: an event loop and its threads, beside a thread for each of them.

Every function sleeps for half a second. The last line tells how long callbacks hold the loop up. asyncio's debug mode
would report them, but its own work lets other threads run in the middle of a callback, which then takes long.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

from tests.benchmarks.apart import all_apart
from tests.benchmarks.by_tracker import ByTracker
from tests.benchmarks.orders import Order
from tests.benchmarks.tables import table
from tests.benchmarks.ways import engine

__all__ = ["CONCURRENCY", "report"]

CONCURRENCY, SLEEP, ROUNDS = 200, 0.5, 5
TASKS = 2 * CONCURRENCY
"""Half of them begin when others end."""
SLOW = 0.05
"""Seconds that no callback should take."""


def sleep(_: object) -> None:
    time.sleep(SLEEP)


async def sleep_on_loop(_: object) -> None:
    await asyncio.sleep(SLEEP)


class Way:
    """One way to run tasks, in a process of its own."""

    def __init__(self, run: Callable[[list[str]], object]) -> None:
        self._run = run
        self._way = ByTracker()

    def open(self) -> None:
        """Create the table; the ways share it, and use it in turn."""
        if self._way.table not in self._way.client.list_tables()["TableNames"]:
            self._way.make_table()

    def close(self) -> None:
        """Delete the table."""
        if self._way.table in self._way.client.list_tables()["TableNames"]:
            self._way.drop_table()

    def round(self, number: int) -> tuple[float, float, int]:
        """Return the tasks per second, the CPU time of a task, and the most threads at one time."""
        ids = [f"{self._run.__name__}-{number}-{each}" for each in range(TASKS)]
        Order.create_many(ids)
        threads, ended = [0], threading.Event()
        counter = threading.Thread(target=_count, args=(threads, ended))
        counter.start()
        began, began_cpu = time.perf_counter(), time.process_time()
        self._run(ids)
        wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
        ended.set()
        counter.join()
        states = {task.state for task in Order.get_many(ids)}
        assert states == {Order.ship.succeeded}, states
        return TASKS / wall, cpu / TASKS, threads[0] - 1


def _count(most: list[int], ended: threading.Event) -> None:
    while not ended.wait(0.01):
        most[0] = max(most[0], threading.active_count())


def run_in_threads(ids: list[str]) -> None:
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        list(pool.map(lambda task_id: Order.ship.run(task_id, sleep), ids))


def arun_on_loop(ids: list[str]) -> None:
    async def run() -> None:
        free = asyncio.Semaphore(CONCURRENCY)

        async def one(task_id: str) -> None:
            async with free:
                await Order.ship.arun(task_id, sleep_on_loop)

        await asyncio.gather(*map(one, ids))

    asyncio.run(run())


def run_all(_: list[str]) -> None:
    Order.ship.run_all(sleep, threads=CONCURRENCY)


def arun_all(_: list[str]) -> None:
    asyncio.run(Order.ship.arun_all(sleep_on_loop, concurrency=CONCURRENCY))


WAYS: dict[str, Callable[[list[str]], object]] = {
    f"{CONCURRENCY} threads that call run()": run_in_threads,
    f"{CONCURRENCY} coroutines that await arun()": arun_on_loop,
    f"run_all(threads={CONCURRENCY})": run_all,
    f"arun_all(concurrency={CONCURRENCY})": arun_all,
}


def report() -> Iterator[str]:
    yield f"{TASKS} tasks that sleep {SLEEP} s, {CONCURRENCY} at a time, one process: medians of {ROUNDS} rounds"
    with engine() as found:
        if isinstance(found, str):
            yield found
            return
        yield from compared()
        yield from slow_callbacks()


def compared() -> Iterator[str]:
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in WAYS}
    with all_apart(Way, WAYS) as every:
        for way in every.values():
            way.call("open")
            way.call("round", 0)  # Python and the engine specialise what runs
        for number in range(1, ROUNDS + 1):
            for name, way in every.items():  # the ways take turns: how busy the machine is changes
                taken[name].append(way.call("round", number))
        for way in every.values():
            way.call("close")
    medians = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in taken.items()}
    rows = [
        [name, f"{rate:.0f}", f"{1000 * cpu:.1f} ms", f"{threads:.0f}"]
        for name, (rate, cpu, threads) in medians.items()
    ]
    yield from table(["way", "tasks/s", "CPU of a task", "threads"], rows)


def slow_callbacks() -> Iterator[str]:
    """Yield how long callbacks hold the loop up."""
    way, taken, run = ByTracker(), list[float](), asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.perf_counter()
        run(handle)
        taken.append(time.perf_counter() - began)

    way.make_table()
    Order.create_many([f"o-{number}" for number in range(TASKS)])
    with mock.patch.object(asyncio.Handle, "_run", timed):
        asyncio.run(Order.ship.arun_all(sleep_on_loop, concurrency=CONCURRENCY))
    way.drop_table()
    slow = sum(each > SLOW for each in taken)
    yield (
        f"\nOf {len(taken)} callbacks of arun_all, {slow} took more than {1000 * SLOW:.0f} ms, "
        f"and the longest {1000 * max(taken):.0f} ms"
    )
