"""The scene `orders`: places orders, works on them, and checks where each ends."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from rich.console import Console

from pynamodb_tracker import BoundStep, State, Status, Worker
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.demo import pipeline, quiet
from pynamodb_tracker.demo.orders import Accident, PlacedOrder, draw_accidents, generate_orders, read_orders
from pynamodb_tracker.demo.pipeline import PIPELINE, DemoTask, Order
from pynamodb_tracker.demo.summary import Screen, print_summary, say
from pynamodb_tracker.testing import local_server, local_table, stopped_clock

WORKERS = 4

_ROUND = pipeline.LOCK + 2 * pipeline.MARGIN  # longer than all locks and retry delays
_WAVES = 12  # in how many rounds orders are placed in memory, so that some are shipped while others are placed


def run(
    console: Console,
    stopped: threading.Event | None = None,
    *,
    file: Path | None = None,
    count: int = 100,
    server: bool = False,
    beside: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> bool:
    """Run the scene, print a summary, and return whether all orders ended where they should.

    The orders come from the `file`, or `count` of them are generated. With `server`, they are on a local server instead
    of in memory. `beside` is entered once the table exists, and left before it is removed.

    Raise DemoError or LocalServerError if it cannot run, and KeyboardInterrupt soon after `stopped` is set.
    """
    orders = read_orders(file) if file else generate_orders(count)
    draw_accidents(orders)
    began = time.monotonic()
    expected = Counter(map(pipeline.end_state, orders))
    session = _Session(orders, expected, Screen(console, expected), stopped or threading.Event())
    with ExitStack() as stack:
        stack.enter_context(quiet())
        if server:
            where = f"at {stack.enter_context(local_server(DemoTask))}, {WORKERS} worker processes"
            work = session.work_on_server
        else:
            stack.enter_context(local_table(DemoTask))
            where, time_of_day = f"in memory, {WORKERS} threads", stack.enter_context(stopped_clock())
            work = partial(session.work_in_memory, time_of_day)
        stack.enter_context(beside())
        say(console, f"{len(orders)} {f'orders of {file}' if file else 'generated orders'}, {where}")
        with session.screen.live:
            work()
        return print_summary(console, orders, time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class _Session:
    orders: Sequence[PlacedOrder]
    expected: Counter[State[Order]]
    screen: Screen
    stopped: threading.Event

    def work_in_memory(self, time_of_day: StoppedClock) -> None:
        coming, size = list(self.orders), -(-len(self.orders) // _WAVES)
        while not self._is_settled():
            self._place(coming[:size])
            del coming[:size]
            for step in PIPELINE:
                _let_workers_die(step)
                step.run_all(pipeline.work, threads=WORKERS, progress=lambda _: self._check_stopped())
            time_of_day.advance(_ROUND)

    def work_on_server(self) -> None:
        functions = dict.fromkeys(PIPELINE, pipeline.work_or_die)
        worker = Worker(
            functions, processes=WORKERS, grace=timedelta(seconds=10), max_poll_interval=timedelta(seconds=1)
        )
        self._place(self.orders)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(worker.run)
            try:
                while not (running.done() or self._is_settled()):
                    self.stopped.wait(0.2)
            finally:
                worker.stop()
        running.result()

    def _place(self, orders: Sequence[PlacedOrder]) -> None:
        Order.create_many(map(pipeline.row_of, orders), threads=WORKERS)

    def _is_settled(self) -> bool:
        """Show the progress. Return whether all orders are placed, and none is left to start."""
        self._check_stopped()
        counts = Order.counts()
        self.screen.show(counts)
        is_complete = sum(counts.values()) == self.expected.total()  # false if an order moved while it was counted
        return is_complete and _count_unfinished(counts) == _count_unfinished(self.expected)

    def _check_stopped(self) -> None:
        if self.stopped.is_set():
            raise KeyboardInterrupt


def _count_unfinished(counts: Mapping[State[Order], int]) -> int:
    return sum(number for state, number in counts.items() if state.status not in {Status.IGNORED, Status.SUCCEEDED})


def _let_workers_die(step: BoundStep[Order]) -> None:
    """Leave tasks as a killed worker does: enter their blocks, and never leave them."""
    for order in step.due():
        if pipeline.accident_of(order, order.attempt + 1) is Accident.DEATH:
            with suppress(pipeline.WorkerDiedError):
                pipeline.work(ExitStack().enter_context(step.start(order.task_id)))
