"""The screen: what a person sees while the demo runs, bars at a terminal and plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from pynamodb_tracker import BoundStep, State
from pynamodb_tracker.demo.pipeline import Order, steps

__all__ = ["Screen", "say", "screen_on"]

_LINE_EVERY = 5.0
"""Seconds between two plain lines."""

_PLACING = "place"

Counts = Mapping[State[Order], int]


class Screen(Protocol):
    """What the demo reports to."""

    def placed(self, number: int) -> None:
        """Show how many orders were placed so far."""

    def counts(self, counts: Counts) -> None:
        """Show how many orders are in each state."""


def done(step: BoundStep[Order], counts: Counts) -> int:
    """Return how many orders are through with a step: it succeeded, or gave up on them."""
    return sum(n for state, n in counts.items() if state == step.ignored or state.code >= step.succeeded.code)


def say(console: Console, text: str) -> None:
    """Print a line as it is."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


class _Bars:
    """A live bar for each step."""

    def __init__(self, progress: Progress, goals: Mapping[str, int]) -> None:
        self._progress = progress
        self._bars: dict[str, TaskID] = {
            name: progress.add_task(name, total=goal, note="") for name, goal in goals.items()
        }

    def placed(self, number: int) -> None:
        self._progress.update(self._bars[_PLACING], completed=number)

    def counts(self, counts: Counts) -> None:
        for step in steps():
            note = ", ".join(
                f"{counts[state]} {word}"
                for state, word in ((step.failed, "to retry"), (step.in_progress, "held"))
                if counts.get(state)
            )
            self._progress.update(self._bars[step.name], completed=done(step, counts), note=note)


class _Lines:
    """A line now and then."""

    def __init__(self, console: Console, goals: Mapping[str, int]) -> None:
        self._console = console
        self._goals = goals
        self._next = time.monotonic() + _LINE_EVERY
        self._said = ""

    def placed(self, number: int) -> None:
        self._say(f"{_PLACING} {number}/{self._goals[_PLACING]}", last=number == self._goals[_PLACING])

    def counts(self, counts: Counts) -> None:
        through = {step.name: done(step, counts) for step in steps()}
        said = ", ".join(f"{name} {number}/{self._goals[name]}" for name, number in through.items())
        self._say(said, last=all(number == self._goals[name] for name, number in through.items()))

    def _say(self, text: str, *, last: bool) -> None:
        now = time.monotonic()
        if text != self._said and (last or now >= self._next):
            say(self._console, text)
            self._next, self._said = now + _LINE_EVERY, text


@contextmanager
def screen_on(console: Console, goals: Mapping[str, int], orders: int) -> Iterator[Screen]:
    """Yield the screen that fits the console; `goals` are how many orders each step will be through with."""
    goals = {_PLACING: orders, **goals}
    if not console.is_interactive:
        yield _Lines(console, goals)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]:<24}"),
    )
    with Progress(*columns, console=console, expand=True) as progress:
        yield _Bars(progress, goals)
