"""What became of a batch, for a person or for a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from pynamodb_tracker.cli.exits import one_line
from pynamodb_tracker.cli.terminal.echo import console, count, escaped, say, say_json
from pynamodb_tracker.cli.terminal.table import Column, Table
from pynamodb_tracker.cli.times import age, between
from pynamodb_tracker.cli.watched_batch import Batch, Selection

__all__ = ["nothing", "numbers", "print_end"]

_REFUSED = 5
"""Refused tasks that the report names."""


def numbers(batch: Batch) -> str:
    """Return how many tasks ended in which way, as far as there are any."""
    counted = {outcome: batch.number(outcome) for outcome in ("succeeded", "failed", "ignored")}
    counted |= {"taken by others": batch.taken, "refused": batch.number("refused") - batch.taken}
    return ", ".join(f"{number:,} {outcome}" for outcome, number in counted.items() if number) or "nothing yet"


def print_end(batch: Batch, took: float, *, stopped: bool, as_json: bool) -> None:
    """Print what became of the tasks, why some failed, and what was refused."""
    if as_json:
        counted = {outcome: batch.number(outcome) for outcome in ("succeeded", "failed", "ignored")}
        told = {task_id: f"{type(error).__name__}: {one_line(error)}" for task_id, error in batch.refused.items()}
        ends = {"taken": batch.taken, "refused": told, "released": batch.given_back}
        say_json({**counted, **ends, "seconds": round(took, 1), "stopped": stopped})
        return
    if not batch.done and not stopped:
        say(nothing(batch.selection))
        return
    speed = f", {batch.done / took:,.0f}/s" if batch.done > took > 1 else ""
    lead = "stopped; " if stopped else ""
    say(f"{lead}{batch.selection.step.name}: {numbers(batch)} in {age(timedelta(seconds=took))}{speed}")
    groups = batch.groups.sorted()
    titles = (Column("tasks", right=True), Column("example"), Column("error"))
    Table(console(), titles).print([f"{group.tasks:,}", group.example, group.error] for _, group in groups)
    for line in _told(batch.refused):
        say(line)
    if batch.given_back:
        one = batch.given_back == 1
        now = f"{'it is' if one else 'they are'} pending now: run takes {'it' if one else 'them'}"
        say(f"{count(batch.given_back)} given back; {now}")


def nothing(selected: Selection) -> str:
    """Return why there was nothing to run."""
    why = f"nothing to run at {selected.step.name}"
    waiting = selected.waiting()
    if not waiting.tasks:
        return f"{why}: no such task is due"
    first = "" if waiting.first is None else f" (the first one {between(waiting.first)})"
    such = f" with {selected.error_like!r} in the error" if selected.error_like else ""
    return f"{why}: {count(waiting.tasks)}{such} not due yet{first}; reopen makes failed ones due at once"


def _told(refused: dict[str, Exception]) -> Iterator[str]:
    """Yield lines about what could not be run, or not be recorded."""
    kinds = Counter(type(error).__name__ for error in refused.values())
    for kind, number in kinds.most_common():
        yield f"{number:,} refused: {kind}"
    for task_id, error in list(refused.items())[:_REFUSED]:
        yield escaped(f"  {task_id}: {one_line(error)}")
