"""The output of the scene `orders`: progress bars and a summary."""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pynamodb_tracker import State, Status
from pynamodb_tracker.demo.orders import PlacedOrder
from pynamodb_tracker.demo.pipeline import PIPELINE, Order, end_state

_LINE_EVERY = 5.0

_MOST_DIFFERENCES = 10


def say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


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
