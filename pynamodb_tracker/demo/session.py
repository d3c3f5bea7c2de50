"""A session of the demo: the orders are placed, worked off, and compared with what is known of them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from pynamodb_tracker.demo.accidents import draw_accidents
from pynamodb_tracker.demo.generated import generate_orders
from pynamodb_tracker.demo.orders import PlacedOrder
from pynamodb_tracker.demo.orders_file import BadOrdersFileError, read_orders
from pynamodb_tracker.demo.outcome import Outcome, goals, read_outcome
from pynamodb_tracker.demo.pipeline import DemoTask, Order, row_of
from pynamodb_tracker.demo.processes import Processes
from pynamodb_tracker.demo.screen import Screen, say, screen_on
from pynamodb_tracker.demo.server import Setup, demo_table
from pynamodb_tracker.demo.summary import print_summary
from pynamodb_tracker.demo.threads import Threads
from pynamodb_tracker.testing import local_table, stopped_clock

__all__ = ["COUNT", "WORKERS", "Options", "run"]

COUNT = 200
"""How many orders are generated unless told otherwise."""

WORKERS = 4


@dataclass(frozen=True, slots=True)
class Options:
    """What the person asked for."""

    orders: Path | None = None
    """A file of orders; without one, they are generated."""
    count: int = COUNT
    seed: int = 1
    workers: int = WORKERS
    endpoint_url: str | None = None
    """The server; without one, everything is in memory."""
    table_name: str | None = None
    keep: bool = False


def run(options: Options, console: Console) -> Outcome:
    """Run the demo from beginning to end, print what became of the orders, and return it.

    BadOrdersFileError and ServerError say why it could not run.
    """
    orders = read_orders(options.orders) if options.orders else generate_orders(options.count, options.seed)
    began = time.monotonic()
    outcome, remark = (_on_server if options.endpoint_url else _in_memory)(options, orders, console)
    took = timedelta(seconds=time.monotonic() - began)
    says = "the file says" if options.orders else "the orders say"
    print_summary(console, outcome, remark=remark, says=says, took=took)
    return outcome


def _in_memory(options: Options, orders: Sequence[PlacedOrder], console: Console) -> tuple[Outcome, str]:
    """Run in this process; the rows are read when the workers that died have come back, too."""
    crew = Threads(options.workers, draw_accidents(orders, options.seed), len(orders))
    with local_table(DemoTask), stopped_clock() as clock:
        with (
            crew.at_work(),
            _screen(options, orders, console, f"in memory, {options.workers} worker threads") as screen,
        ):
            _place(orders, screen, options.workers)
            crew.work_off(clock, screen.counts)
        outcome = read_outcome(orders)
    return outcome, (
        f"{crew.died} workers died in the middle; {crew.came_back} came back when their locks had passed on, and were "
        "refused"
    )


def _on_server(options: Options, orders: Sequence[PlacedOrder], console: Console) -> tuple[Outcome, str]:
    """Run on a server, in a table of this demo's own."""
    setup = Setup(options.endpoint_url or "", options.table_name or f"pynamodb-tracker-demo-{secrets.token_hex(4)}")
    crew = Processes(options.workers, draw_accidents(orders, options.seed), setup)
    where = f"at {setup.endpoint_url}, table {setup.table_name}, {options.workers} worker processes"
    with demo_table(setup, keep=options.keep):
        with _screen(options, orders, console, where) as screen:
            _place(orders, screen, options.workers)
            with crew.at_work():
                crew.work_off(screen.counts)
        outcome = read_outcome(orders)
    kept = f"; the table {setup.table_name} is left there" if options.keep else ""
    return outcome, f"{crew.died} worker processes died in the middle, and were replaced{kept}"


@contextmanager
def _screen(options: Options, orders: Sequence[PlacedOrder], console: Console, where: str) -> Iterator[Screen]:
    whose = f"orders of {options.orders}" if options.orders else "generated orders"
    say(console, f"{len(orders)} {whose}, {where}")
    with screen_on(console, goals(orders), len(orders)) as screen:
        yield screen


def _place(orders: Sequence[PlacedOrder], screen: Screen, threads: int) -> None:
    """Create a task for each order."""

    def rows() -> Iterator[dict[str, Any]]:
        for number, order in enumerate(orders, 1):
            screen.placed(number)
            yield row_of(order)

    report = Order.create_many(rows(), threads=threads)
    if report.refused:
        raise BadOrdersFileError([f"order {order_id!r}: {error}" for order_id, error in report.refused.items()])
