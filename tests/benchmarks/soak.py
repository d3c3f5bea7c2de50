"""Many tasks through one use case, by four worker processes: time, requests and memory as there are more of them.

Each process keeps what memory it has while it works, by the system's own figure; nothing traces it.
"""

import multiprocessing
import os
import resource
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pynamodb_tracker import Worker
from tests.benchmarks.by_tracker import ByTracker
from tests.benchmarks.orders import Sharded
from tests.benchmarks.tables import table
from tests.benchmarks.ways import engine

SIZES = (1_000, 10_000, 100_000)
PROCESSES, THREADS = 4, 25
PATIENCE = 3600.0
SAMPLES = 20
"""How often each process notes its memory."""
SETTLED = 0.1
"""The part of its tasks after which a process has built what it needs: memory is compared with that of then."""


@dataclass
class Soaked:
    """What one process did."""

    done: int = 0
    refused: int = 0
    requests: int = 0
    cpu: float = 0
    memory: list[float] = field(default_factory=list)
    """MB of the process, from its first task to its last."""


def report(*, most: int = SIZES[-1]) -> Iterator[str]:
    shards = Sharded.tracker.use_case.status_shards
    yield f"Trivial tasks of one use case with {shards} shards, by {PROCESSES} workers of {THREADS} threads"
    with engine() as found:
        if isinstance(found, str):
            yield found
            return
        rows = []
        for size in (size for size in SIZES if size <= most):
            rows.append(row(size))
            yield f"{size:,} tasks: done"
    header = ["tasks", "create_many", "run", "tasks/s", "requests", "refused", "CPU", "MB settled", "MB end", "MB most"]
    yield from table(header, rows)
    yield "requests, refused claims and client CPU are for each task; MB are of the largest process"


def row(size: int) -> list[str]:
    """Run so many tasks through a table of its own, and return a row of the report."""
    way = ByTracker()
    way.make_table()
    try:
        began = time.perf_counter()
        created = Sharded.create_many((f"o-{number}" for number in range(size)), threads=THREADS)
        creating = time.perf_counter() - began
        assert len(created.succeeded) == size
        seconds, soaked = soak(size)
        check(size)
    finally:
        way.drop_table()
    done = sum(each.done for each in soaked)
    assert done == size, f"{done} of {size}"
    settled = max(each.memory[int(SETTLED * len(each.memory))] for each in soaked)
    figures = (sum(each.requests for each in soaked), sum(each.refused for each in soaked))
    return [
        f"{size:,}",
        f"{creating:.1f} s",
        f"{seconds:.1f} s",
        f"{size / seconds:.0f}",
        *(f"{figure / size:.2f}" for figure in figures),
        f"{1000 * sum(each.cpu for each in soaked) / size:.2f} ms",
        f"{settled:.1f}",
        f"{max(each.memory[-1] for each in soaked):.1f}",
        f"{max(max(each.memory) for each in soaked):.1f}",
    ]


def check(size: int) -> None:
    """Fail unless each task has succeeded, at its first attempt."""
    seen = 0
    for task in Sharded.deliver.pending.query(with_data=False):
        assert task.fence == 1, task.task_id
        seen += 1
    assert seen == size, f"{seen} of {size}"


def soak(size: int) -> tuple[float, list[Soaked]]:
    """Let the processes run all tasks, and return how long that took, and what each did."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(PROCESSES + 1), context.SimpleQueue()
    workers = [context.Process(target=work, args=(size, barrier, results)) for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    barrier.wait(PATIENCE)
    began = time.perf_counter()
    soaked = [results.get() for _ in workers]
    seconds = time.perf_counter() - began
    for worker in workers:
        worker.join(PATIENCE)
    return seconds, soaked


def work(size: int, barrier: Any, results: Any) -> None:
    """Be one of these processes."""
    way, soaked, guard = ByTracker(), Soaked(), threading.Lock()
    every = max(size // PROCESSES // SAMPLES, 1)

    def count(**_: Any) -> None:
        soaked.requests += 1

    def note(_: object) -> None:
        with guard:
            if soaked.done % every == 0:
                soaked.memory.append(resident())
            soaked.done += 1

    way.client.meta.events.register("before-call.dynamodb", count)
    barrier.wait(PATIENCE)
    began = time.process_time()
    tally = Worker({Sharded.ship: note}, threads=THREADS).run(until_idle=True)[Sharded.ship]
    soaked.cpu = time.process_time() - began
    assert tally.succeeded == soaked.done
    soaked.refused = tally.refused
    soaked.memory.append(resident())
    results.put(soaked)


def resident() -> float:
    """Return how many MB of memory this process has: now where the system says it, else at most so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
