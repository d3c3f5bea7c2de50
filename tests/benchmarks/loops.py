"""Measure tasks that mostly wait, 200 at a time: an event loop and its threads, beside a thread for each of them.

Every function sleeps for half a second. The last lines tell how many callbacks hold the loop up, by asyncio's debug
mode: with Python's garbage collector as it is, and after gc.freeze(). All threads wait for a full collection, which
looks at everything that is not frozen.
"""

import asyncio
import gc
import logging
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.benchmarks.apart import all_apart
from tests.benchmarks.by_tracker import ByTracker
from tests.benchmarks.orders import Order
from tests.benchmarks.tables import table
from tests.benchmarks.ways import engine

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


def arun_all(_: list[str]) -> None:
    asyncio.run(Order.ship.arun_all(sleep_on_loop, concurrency=CONCURRENCY))


WAYS: dict[str, Callable[[list[str]], object]] = {
    f"{CONCURRENCY} threads that call run()": run_in_threads,
    f"{CONCURRENCY} coroutines that await arun()": arun_on_loop,
    f"run_all(threads={CONCURRENCY})": lambda _: Order.ship.run_all(sleep, threads=CONCURRENCY),
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
    """Yield how often callbacks hold the loop up."""
    yield f"\nCallbacks of arun_all that asyncio.Runner(debug=True) reports above {1000 * SLOW:.0f} ms, in each round:"
    for is_frozen in (False, True):
        counts = [str(reported(is_frozen=is_frozen)) for _ in range(ROUNDS)]
        yield f"{'after gc.freeze()' if is_frozen else 'as it is'}: {', '.join(counts)}"
    gc.unfreeze()


def reported(*, is_frozen: bool) -> int:
    """Return how many slow callbacks asyncio logs; the collector may be spared all objects that were there before."""
    way, reports = ByTracker(), Reports()

    async def run() -> None:
        asyncio.get_running_loop().slow_callback_duration = SLOW
        await Order.ship.arun_all(sleep_on_loop, concurrency=CONCURRENCY)

    way.make_table()
    Order.create_many([f"o-{number}" for number in range(TASKS)])
    logger = logging.getLogger("asyncio")
    logger.addHandler(reports)
    if is_frozen:
        gc.collect()
        gc.freeze()
    try:
        with asyncio.Runner(debug=True) as runner:
            runner.run(run())
    finally:
        logger.removeHandler(reports)
        way.drop_table()
    return reports.slow


class Reports(logging.Handler):
    """Counts what asyncio says of slow callbacks, and prints nothing."""

    slow = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.slow += record.getMessage().startswith("Executing ")
