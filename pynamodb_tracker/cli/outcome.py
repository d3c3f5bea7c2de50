"""What became of a batch, for a person or for a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from pynamodb_tracker.cli.batch import Batch, Selection
from pynamodb_tracker.cli.exits import one_line
from pynamodb_tracker.cli.screen import console, count, escaped, say, say_json
from pynamodb_tracker.cli.table import Column, Table
from pynamodb_tracker.cli.times import age, between

__all__ = ["nothing", "numbers", "print_end"]

_REFUSED = 5
"""Refused tasks that the report names."""


def numbers(batch: Batch) -> str:
    """Return how many tasks ended in which way, as far as there are any."""
    told = (f"{batch.number(outcome):,} {outcome}" for outcome in ("succeeded", "failed", "ignored", "refused"))
    return ", ".join(each for each in told if not each.startswith("0 ")) or "nothing yet"


def print_end(batch: Batch, took: float, *, stopped: bool, as_json: bool) -> None:
    """Print what became of the tasks, why some failed, and what was refused."""
    refused = {task_id: error for report in batch.reports for task_id, error in report.refused.items()}
    if as_json:
        counted = {outcome: batch.number(outcome) for outcome in ("succeeded", "failed", "ignored")}
        told = {task_id: f"{type(error).__name__}: {one_line(error)}" for task_id, error in refused.items()}
        say_json({**counted, "refused": told, "seconds": round(took, 1), "stopped": stopped})
        return
    step = batch.selection.step
    if not batch.done and not stopped:
        say(nothing(batch.selection))
        return
    speed = f", {batch.done / took:,.0f}/s" if batch.done > took > 1 else ""
    say(f"{'stopped; ' if stopped else ''}{step.name}: {numbers(batch)} in {age(timedelta(seconds=took))}{speed}")
    groups = batch.groups.sorted()
    titles = (Column("tasks", right=True), Column("example"), Column("error"))
    Table(console(), titles).print([f"{group.tasks:,}", group.example, group.error] for _, group in groups)
    for line in _told(refused):
        say(line)


def nothing(selected: Selection) -> str:
    """Return why there was nothing to run."""
    step = selected.step
    waiting = selected.count()
    why = f"nothing to run at {step.name}"
    if not waiting or selected.error_like:
        return f"{why}: no such task is due"
    first = next(step.failed.query(limit=1, with_data=False), None)
    when = f" (the first one {between(first.due_time)})" if first is not None else ""
    return f"{why}: {count(waiting)} not due yet{when}; reopen makes failed ones due at once"


def _told(refused: dict[str, Exception]) -> Iterator[str]:
    """Yield lines about what could not be run: others had it first, mostly."""
    kinds = Counter(type(error).__name__ for error in refused.values())
    for kind, number in kinds.most_common():
        yield f"{number:,} refused: {kind}"
    for task_id, error in list(refused.items())[:_REFUSED]:
        yield escaped(f"  {task_id}: {one_line(error)}")
