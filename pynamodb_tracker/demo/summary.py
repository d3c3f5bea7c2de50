"""What the demo shows: bars while it runs, and at the end what became of the orders and what it took."""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from pynamodb_tracker import State, Status
from pynamodb_tracker.demo.orders import STEPS, PlacedOrder
from pynamodb_tracker.demo.pipeline import PIPELINE, Order, state_of

PLACING = "place"

_LINE_EVERY = 5.0
"""Seconds between two lines where there is no terminal."""

_INDEX_LAG, _PAUSE = 5.0, 0.25
"""Seconds for which an unexpected outcome is read again, and between two reads: the index of a server lags behind."""

_EXAMPLES = 3
_MOST_DIFFERENCES = 10


def say(console: Console, text: str) -> None:
    """Print a line as it is."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


class Screen:
    """How far each step is: a bar for each at a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console, orders: Sequence[PlacedOrder]) -> None:
        self._console = console
        name, note = TextColumn("{task.description}"), TextColumn("{task.fields[note]:<24}")
        columns = (name, BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn(), note)
        self.live = Progress(*columns, console=console, expand=True, disable=not console.is_interactive)
        started = Counter(step for order in orders for step in order.steps_started)
        goals = {PLACING: len(orders), **{step: started[step] for step in STEPS}}
        self._bars = {name: self.live.add_task(name, total=goal, note="") for name, goal in goals.items()}
        self._next_line = time.monotonic() + _LINE_EVERY

    def shown(self, name: str) -> int:
        """Return how many orders were last shown to be placed, or through with a step."""
        return int(self.live.tasks[self._bars[name]].completed)

    def show(self, name: str, done: int, note: str = "") -> None:
        """Show how many orders are placed, or are through with a step."""
        before = self.shown(name)
        self.live.update(self._bars[name], completed=done, note=note)
        if not self._console.is_interactive and done != before:
            self._print_line(is_placing=name == PLACING)

    def show_counts(self, counts: Mapping[State[Order], int]) -> None:
        """Show how many orders are in each state."""
        for step in PIPELINE:
            done = sum(n for state, n in counts.items() if state == step.ignored or state.code >= step.succeeded.code)
            notes = {"to retry": counts[step.failed], "held": counts[step.in_progress]}
            self.show(step.name, done, ", ".join(f"{n} {word}" for word, n in notes.items() if n))

    def _print_line(self, *, is_placing: bool) -> None:
        bars = [bar for bar in self.live.tasks if (bar.description == PLACING) is is_placing]
        is_last = not any(bar.remaining for bar in bars)
        if is_last or time.monotonic() >= self._next_line:
            say(self._console, ", ".join(f"{bar.description} {bar.completed:.0f}/{bar.total:.0f}" for bar in bars))
            self._next_line = time.monotonic() + _LINE_EVERY


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the table says at the end, to be compared with what the orders say."""

    orders: Sequence[PlacedOrder]
    rows: Mapping[str, Order]
    counts: Mapping[State[Order], int]
    """What `Order.counts()` returned."""

    @property
    def expected(self) -> Counter[State[Order]]:
        """How many orders should be in each state."""
        return Counter(state_of(*order.end) for order in self.orders)

    @property
    def differences(self) -> list[str]:
        """A line for each order that is not where it should be, and for each count that differs from the rows."""
        lines = []
        for order in self.orders:
            row, should = self.rows.get(order.order_id), state_of(*order.end)
            if row is None or row.state != should:
                lines.append(f"{order.order_id} is {row.state if row else 'missing'}, and should be {should}")
        for state, number in self.counts.items():
            if number != self.expected[state]:
                lines.append(f"{state}: {number} counted, and {self.expected[state]} expected")
        return lines

    @property
    def taken_over(self) -> dict[str, list[int]]:
        """By order, the fences of the runs whose worker died; the run with the next fence took over."""
        return {row.task_id: list(row.unfinished) for row in self.rows.values() if row.unfinished}

    @property
    def runs(self) -> int:
        """How many runs there were: every claim has its own fence."""
        return sum(row.fence for row in self.rows.values())

    @property
    def retries(self) -> int:
        """How many of the runs were not the first one of their step."""
        return self.runs - sum(len(order.steps_started) for order in self.orders)


def read_outcome(orders: Sequence[PlacedOrder]) -> Outcome:
    """Read the counts, and every row by its state."""
    deadline = time.monotonic() + _INDEX_LAG
    while True:
        counts = Order.counts()
        rows = {row.task_id: row for state, number in counts.items() if number for row in state.query()}
        outcome = Outcome(orders, rows, counts)
        if not outcome.differences or time.monotonic() > deadline:
            return outcome
        time.sleep(_PAUSE)


def print_summary(console: Console, outcome: Outcome, *, says: str, took: timedelta) -> None:
    """Print what became of the orders, what it took, and whether it is as `says`, "the file says"."""
    _print_states(console, outcome, says)
    _print_ignored(console, outcome)
    _print_taken_over(console, outcome)
    what = f"{outcome.runs} runs, {outcome.retries} of them retries"
    say(console, f"{len(outcome.orders)} orders, {what}, in {took.total_seconds():.1f} s")
    differences = outcome.differences
    say(console, f"as {says}: {'no' if differences else 'yes'}")
    for line in differences[:_MOST_DIFFERENCES]:
        say(console, f"  {line}")
    if len(differences) > _MOST_DIFFERENCES:
        say(console, f"  and {len(differences) - _MOST_DIFFERENCES} more")


def _print_states(console: Console, outcome: Outcome, says: str) -> None:
    table, expected = _table("state", "orders", f"as {says}"), outcome.expected
    for state in sorted({*outcome.counts, *expected}, key=lambda state: state.code):
        counted = outcome.counts.get(state, 0)
        if counted or expected[state]:
            style = None if counted == expected[state] else "bold red"
            table.add_row(str(state), str(counted), str(expected[state]), style=style)
    say(console, "\nOrders per state")
    console.print(table)


def _print_ignored(console: Console, outcome: Outcome) -> None:
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for row in outcome.rows.values():
        if row.state.status is Status.IGNORED:
            by_reason[f"{row.state.step}: {row.errors[-1].message}"].append(row.task_id)
    table = _table("reason", "orders", "such as")
    for reason, order_ids in sorted(by_reason.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        examples = [*order_ids[:_EXAMPLES], *(["..."] if len(order_ids) > _EXAMPLES else [])]
        table.add_row(Text(reason), str(len(order_ids)), Text(" ".join(examples)))
    say(console, f"Ignored orders: {sum(map(len, by_reason.values()))}")
    if by_reason:
        console.print(table)


def _print_taken_over(console: Console, outcome: Outcome) -> None:
    taken_over, table = outcome.taken_over, _table("such as", "runs that died", "all runs")
    died = sum(map(len, taken_over.values()))
    last = sum(outcome.rows[order_id].fence in fences for order_id, fences in taken_over.items())
    for order_id in list(taken_over)[:_EXAMPLES]:
        fences = ", ".join(map(str, taken_over[order_id]))
        table.add_row(Text(order_id), fences, f"1 to {outcome.rows[order_id].fence}")
    set_aside = f", {last} on the last attempt" if last else ""
    say(console, f"Taken over: {died} runs whose worker died ({died - last} run again{set_aside})")
    if taken_over:
        console.print(table)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(
            name, justify="right" if name == "orders" or name.startswith("as ") else "left", overflow="fold"
        )
    return table
