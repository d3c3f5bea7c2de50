"""The summary: what is printed below the bars, once nothing is left to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pynamodb_tracker.demo.outcome import Outcome
from pynamodb_tracker.demo.screen import say

__all__ = ["print_summary"]

_EXAMPLES = 3
_MOST_DIFFERENCES = 10

_SHORT = 8
"""Characters of ids that fit beside each other."""


def print_summary(console: Console, outcome: Outcome, *, remark: str, says: str, took: timedelta) -> None:
    """Print what became of the orders, what it took, and whether it is as "the file says"."""
    _print_states(console, outcome, says)
    _print_ignored(console, outcome)
    _print_takeovers(console, outcome)
    say(console, remark)
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
    table = _table("reason", "orders", "such as")
    for reason, order_ids in outcome.ignored.items():
        table.add_row(Text(reason), str(len(order_ids)), Text(_some(order_ids)))
    say(console, f"Ignored orders: {sum(map(len, outcome.ignored.values()))}")
    if outcome.ignored:
        console.print(table)


def _print_takeovers(console: Console, outcome: Outcome) -> None:
    takeovers, table = outcome.takeovers, _table("such as", "step", "attempt", "fence")
    for takeover in list({takeover.order_id: takeover for takeover in takeovers}.values())[:_EXAMPLES]:
        table.add_row(Text(takeover.order_id), takeover.step, str(takeover.attempt), str(takeover.fence))
    spent = outcome.unfinished - len(takeovers)
    set_aside = f", {spent} on the last attempt" if spent > 0 else ""
    say(console, f"Taken over: {outcome.unfinished} runs whose worker died ({len(takeovers)} run again{set_aside})")
    if takeovers:
        console.print(table)


def _some(order_ids: Sequence[str]) -> str:
    examples = [*order_ids[:_EXAMPLES], *(["..."] if len(order_ids) > _EXAMPLES else [])]
    return (" " if max(map(len, examples)) <= _SHORT else "\n").join(examples)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        numeric = name in {"orders", "attempt", "fence"} or name.startswith("as ")
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    return table
