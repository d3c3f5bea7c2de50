"""The scene `orders`: places orders, works on them, and shows where each ends."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pynamodb_tracker import BoundStep, State, Status, Worker
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.demo import pipeline, quiet, say
from pynamodb_tracker.demo.orders import Accident, PlacedOrder, draw_accidents, generate_orders, read_orders
from pynamodb_tracker.demo.pipeline import PIPELINE, DemoTask, Order, end_state
from pynamodb_tracker.testing import local_server, local_table, stopped_clock

WORKERS = 4
_LINE_EVERY = 5.0
_MOST_DIFFERENCES = 10

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
    expected = Counter(map(end_state, orders))
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
    screen: "Screen"
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


# Output.


class Screen:
    """Shows each step's progress, with bars in a terminal, and with a line every few seconds elsewhere."""

    def __init__(self, console: Console, expected: Mapping[State[Order], int]) -> None:
        self._console = console
        title, note = TextColumn("{task.description}"), TextColumn("{task.fields[note]:<24}")
        columns = (title, BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn(), note)
        self.live = Progress(*columns, console=console, expand=True, disable=not console.is_interactive)
        for name, goal in _progress(expected).items():
            self.live.add_task(name, total=goal, note="")
        self._next_line = time.monotonic() + _LINE_EVERY

    def show(self, counts: Mapping[State[Order], int]) -> None:
        done = _progress(counts)
        notes = {step.name: _note(counts[step.failed], counts[step.in_progress]) for step in PIPELINE}
        for bar in self.live.tasks:
            self.live.update(bar.id, completed=done[bar.description], note=notes.get(bar.description, ""))
        if not self._console.is_interactive and time.monotonic() >= self._next_line:
            say(self._console, ", ".join(f"{bar.description} {bar.completed}/{bar.total}" for bar in self.live.tasks))
            self._next_line = time.monotonic() + _LINE_EVERY


def _progress(counts: Mapping[State[Order], int]) -> dict[str, int]:
    done = {"place": sum(counts.values())}
    for step in PIPELINE:
        ends = [state for state in counts if state == step.ignored or state.code >= step.succeeded.code]
        done[step.name] = sum(counts[state] for state in ends)
    return done


def _note(failed: int, running: int) -> str:
    return ", ".join(f"{number} {what}" for number, what in ((failed, "to retry"), (running, "running")) if number)


def print_summary(console: Console, orders: Sequence[PlacedOrder], took: float) -> bool:
    """Print where the orders ended, after how many runs. Return whether all ended where they should."""
    rows = {row.task_id: row for state in Order.counts() for row in state.query()}
    _print_states(console, Counter(row.state for row in rows.values()), Counter(map(end_state, orders)))
    _print_ignored(console, rows.values())
    _print_runs(console, orders, rows.values(), took)
    wrong = [order for order in orders if rows[order.order_id].state != end_state(order)]
    for order in wrong[:_MOST_DIFFERENCES]:
        say(console, f"{order.order_id} is {rows[order.order_id].state}, but it should be {end_state(order)}.")
    say(console, f"{len(orders) - len(wrong)} of {len(orders)} orders ended where they should.")
    return not wrong


def _print_states(console: Console, found: Counter[State[Order]], expected: Counter[State[Order]]) -> None:
    table = _table("state", "orders", "expected")
    for state in sorted(found | expected, key=lambda state: state.code):
        style = None if found[state] == expected[state] else "bold red"
        table.add_row(str(state), str(found[state]), str(expected[state]), style=style)
    console.print(table)


def _print_ignored(console: Console, rows: Iterable[Order]) -> None:
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.state.status is Status.IGNORED:
            by_reason[f"{row.state.step}: {row.errors[-1].message}"].append(row.task_id)
    table = _table("why orders were ignored", "orders", "such as")
    for reason, order_ids in sorted(by_reason.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        table.add_row(reason, str(len(order_ids)), order_ids[0])
    if by_reason:
        console.print(table)


def _print_runs(console: Console, orders: Sequence[PlacedOrder], rows: Collection[Order], took: float) -> None:
    runs, first = sum(row.fence for row in rows), sum(len(order.steps_started) for order in orders)
    died = sum(len(row.unfinished or ()) for row in rows)
    last = sum(row.fence in (row.unfinished or ()) for row in rows)
    say(console, f"{runs} runs in {took:.1f} s: {runs - first} were retries, and in {died} the worker died.")
    takeovers = f"{died - last} times, and {last} died in the last attempt" if last else "each time"
    if died:
        say(console, f"Another worker took over {takeovers}.")


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in {"orders", "expected"} else "left", overflow="fold")
    return table
