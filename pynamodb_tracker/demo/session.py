"""A session of the demo: places orders, works them off, and compares where they end with what is known of them."""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from pynamodb_tracker import BoundStep, ExecutionContext, Report, Worker, clock
from pynamodb_tracker.demo import pipeline
from pynamodb_tracker.demo.orders import BadOrdersFileError, PlacedOrder, generate_orders, read_orders
from pynamodb_tracker.demo.pipeline import PIPELINE, Order, Work
from pynamodb_tracker.demo.summary import PLACING, Outcome, Screen, print_summary, read_outcome, say
from pynamodb_tracker.testing import local_table, stopped_clock

_ROUND = pipeline.LOCK + 2 * pipeline.MARGIN
"""How far the stopped clock moves after a round: every lock and every pause ends within that."""

_WAVES = 12
"""Rounds in which orders come, in memory: as in a real shop, some are shipped while others are placed."""

_POLL = 0.2
"""Seconds between two looks at the table on a server."""

_GRACE = timedelta(seconds=10)
"""How long worker processes may take to finish what they run."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for."""

    orders: Path | None = None
    """A file of orders; they are generated if there is none."""
    count: int = 200
    seed: int = 1
    workers: int = 4
    endpoint_url: str | None = None
    """The server; everything is in memory if there is none."""
    table_name: str | None = None
    keep: bool = False
    beside: Callable[[], AbstractContextManager[object]] = nullcontext
    """What is entered as soon as the table is there, and left before it is deleted."""


def run(options: Options, console: Console, stopped: threading.Event | None = None) -> Outcome:
    """Run the demo from beginning to end, print what became of the orders, and return it.

    BadOrdersFileError and ServerError say why it cannot run; KeyboardInterrupt leaves soon after `stopped` is set.
    """
    orders = read_orders(options.orders) if options.orders else generate_orders(options.count, options.seed)
    session = _Session(options, orders, console, stopped or threading.Event())
    with quiet():
        return session.on_server(options.endpoint_url) if options.endpoint_url else session.in_memory()


@dataclass(frozen=True, slots=True)
class _Session:
    options: Options
    orders: Sequence[PlacedOrder]
    console: Console
    stopped: threading.Event
    began: float = field(default_factory=time.monotonic)

    def in_memory(self) -> Outcome:
        """Use `run_all` in rounds, in this process; the clock stands still during a round, and jumps after it."""
        work = Work(self._accidents())
        with local_table(pipeline.DemoTask), stopped_clock() as time_of_day, self.options.beside():
            with self._screen(f"in memory, {self.options.workers} worker threads") as screen:
                waves = self._waves()
                while waves or not _is_settled():
                    if waves:
                        self._place(waves.pop(0), screen)
                    for step in PIPELINE:
                        _let_workers_die(step, work)
                        self._run_all(step, work, screen)
                    time_of_day.advance(_ROUND)
            return self._print_outcome()

    def _waves(self) -> list[Sequence[PlacedOrder]]:
        size = -(-len(self.orders) // _WAVES)
        return [self.orders[at : at + size] for at in range(0, len(self.orders), size)]

    def _run_all(self, step: BoundStep[Order], work: Work, screen: Screen) -> None:
        """Run what the step has to do now; an order is through with it if it succeeds or is given up on."""
        before = screen.shown(step.name)

        def show(report: Report) -> None:
            self._check_stopped()
            retries = f"{len(report.failed)} to retry" if report.failed else ""
            screen.show(step.name, before + len(report.succeeded) + len(report.ignored), retries)

        step.run_all(work, threads=self.options.workers, progress=show)

    def on_server(self, endpoint_url: str) -> Outcome:
        """Use a `Worker` with processes, which really die, on a table of the demo's own."""
        table_name = self.options.table_name or f"pynamodb-tracker-demo-{secrets.token_hex(4)}"
        server = pipeline.Server(endpoint_url, table_name)
        processes = processes_for(self.options)
        functions = dict.fromkeys(PIPELINE, Work(self._accidents()))
        with server.table(keep=self.options.keep), self.options.beside():
            where = f"at {endpoint_url}, table {table_name}, {processes} worker processes"
            with self._screen(where) as screen:
                self._place(self.orders, screen)
                work_on_server(server, functions, processes, lambda: self._is_done(screen), self.stopped)
            outcome = self._print_outcome()
        if self.options.keep:
            say(self.console, f"the table {table_name} is left there")
        return outcome

    def _print_outcome(self) -> Outcome:
        """Read what became of the orders, and print it."""
        outcome, says = read_outcome(self.orders), "the file says" if self.options.orders else "the orders say"
        print_summary(self.console, outcome, says=says, took=timedelta(seconds=time.monotonic() - self.began))
        return outcome

    def _is_done(self, screen: Screen) -> bool:
        """Show how far the orders are, and return whether nothing is left to do on the server."""
        self._check_stopped()
        settled = _is_settled()
        counts = Order.counts()
        screen.show_counts(counts)
        return settled and sum(counts.values()) == len(self.orders)  # the index may miss one that is changing

    def _accidents(self) -> pipeline.Accidents:
        return pipeline.Accidents.draw(self.orders, self.options.seed)

    @contextmanager
    def _screen(self, where: str) -> Iterator[Screen]:
        whose = f"orders of {self.options.orders}" if self.options.orders else "generated orders"
        say(self.console, f"{len(self.orders)} {whose}, {where}")
        screen = Screen(self.console, self.orders)
        with screen.live:
            yield screen

    def _place(self, orders: Sequence[PlacedOrder], screen: Screen) -> None:
        """Create a task for each of these orders."""
        before = screen.shown(PLACING)

        def rows() -> Iterator[dict[str, Any]]:
            for number, order in enumerate(orders, before + 1):
                self._check_stopped()
                screen.show(PLACING, number)
                yield pipeline.row_of(order)

        report = Order.create_many(rows(), threads=self.options.workers)
        if report.refused:
            raise BadOrdersFileError(
                "\n".join(f"order {order_id!r}: {error}" for order_id, error in report.refused.items())
            )

    def _check_stopped(self) -> None:
        if self.stopped.is_set():
            raise KeyboardInterrupt


def processes_for(options: Options) -> int:
    """Return how many processes work on a server: one that dies needs another one that takes over."""
    return max(2, options.workers)


def work_on_server(
    server: pipeline.Server,
    functions: Mapping[BoundStep[Any], Callable[[ExecutionContext[Any]], None]],
    processes: int,
    is_done: Callable[[], bool],
    stopped: threading.Event,
) -> None:
    """Run a `Worker` with processes until there is nothing left to do; ServerError if they cannot start to work."""
    worker = Worker(
        {step: pipeline.ProcessWork(function, server) for step, function in functions.items()},
        processes=processes,
        grace=_GRACE,
        max_poll_interval=timedelta(seconds=1),
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(worker.run)
        try:
            while not running.done() and not is_done():
                stopped.wait(_POLL)
        finally:
            worker.stop()
    try:
        running.result()
    except RuntimeError as error:  # a process that could not start to work, and printed why
        raise pipeline.ServerError(str(error)) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the log off stderr in the block: the demo shows failures and deaths itself, and all are planned."""
    handler, log = logging.NullHandler(), logging.getLogger("pynamodb_tracker")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _let_workers_die(step: BoundStep[Order], work: Work) -> None:
    """Leave tasks as a worker does that is killed in the middle: claimed, and the block never ended.

    A thread cannot be killed, and however a block ends is recorded; so these are entered and never left.
    """
    for order in step.due():
        attempt = order.attempt + 1
        if attempt <= pipeline.MAX_ATTEMPTS and work.accidents.of(order, step.name, attempt) is pipeline.Accident.DEATH:
            with suppress(pipeline.WorkerDiedError):
                work(ExitStack().enter_context(step.start(order.task_id)))


def _is_settled() -> bool:
    """Return whether nothing is left to do before the end of the demo: no retry, no lock, no task that is due."""
    end = clock.now() + pipeline.WAITING / 2
    return all(due > end for step in PIPELINE for due in step.next_due().values())
