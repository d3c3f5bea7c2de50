"""`status`: how many tasks each state has, as a table with bars."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.text import Text

from pynamodb_tracker.cli.exits import where
from pynamodb_tracker.cli.lookup import name_of, use_cases
from pynamodb_tracker.cli.options import AppOption, JsonOption, UseCaseOption
from pynamodb_tracker.cli.terminal.echo import console, count, say_json, write
from pynamodb_tracker.cli.terminal.styles import style_of
from pynamodb_tracker.cli.times import duration
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

__all__ = ["status"]

_WIDEST = 60
"""Characters of the longest bar, where the terminal has room."""

_PIPED = 40

_EVERY = timedelta(seconds=5)

_EIGHTHS = " ▏▎▍▌▋▊▉"

Counts = Mapping[State[Any], int]


def status(
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", metavar="", help="Go on, and count again now and then, until Ctrl-C.")
    ] = False,
    every: Annotated[
        timedelta | None,
        typer.Option(parser=duration, metavar="TIME", show_default="5s", help="How often --watch counts."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Count the tasks in each state, of one use case or of all that a table has.

    For each use case it reads the whole index of the table each time, which is about one read unit for 20 to 40 tasks.
    """
    pause = (every or _EVERY).total_seconds()
    with use_cases(name, use_case_name) as models:
        if as_json:
            _print_json(models, pause if watch else None)
        elif watch:
            _watch(models, pause)
        else:
            _print(models, console())


def _print(models: Sequence[type[Task]], on: Console) -> None:
    for line in _shown(models, on):
        on.print(line, soft_wrap=True)


def _print_json(models: Sequence[type[Task]], pause: float | None) -> None:
    """Print one document, or with a pause one a line, for ever."""
    while pause is not None:
        write(json.dumps(_told(models)) + "\n")
        sys.stdout.flush()
        time.sleep(pause)
    say_json(_told(models))


def _told(models: Sequence[type[Task]]) -> dict[str, Any]:
    return {"table": models[0].Meta.table_name, "use_cases": [_counted(model) for model in models]}


def _counted(model: type[Task]) -> dict[str, Any]:
    counts = model.counts()
    return {
        "use_case": model.tracker.use_case.name,
        "tasks": sum(counts.values()),
        "states": [
            {"step": state.step, "state": state.status, "code": state.code, "tasks": number}
            for state, number in counts.items()
        ],
    }


def _watch(models: Sequence[type[Task]], pause: float) -> None:
    """Count again and again: in place at a terminal, one below the other elsewhere."""
    from rich.live import Live  # noqa: PLC0415 - slow to import, and only needed here

    on = console()
    while not on.is_terminal:
        _print(models, on)
        time.sleep(pause)
    with Live(console=on, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(Group(*_shown(models, on), Text(time.strftime("%H:%M:%S"))), refresh=True)
            time.sleep(pause)


def _shown(models: Sequence[type[Task]], on: Console) -> Iterator[Text]:
    """Yield the lines of each use case, an empty one between two."""
    for number, model in enumerate(models):
        if number:
            yield Text()
        yield from _lines(model, model.counts(), on)


def _lines(model: type[Task], counts: Counts, on: Console) -> Iterator[Text]:
    """Yield a line for each state, the title first and the sum last."""
    total = sum(counts.values())
    yield Text.assemble((model.__name__, "bold"), f": {count(total)} in {where(model)}")
    names = [(state.step, str(state.status) if state.status else name_of(state)) for state in counts]
    steps, states = (max(len(each) for each in column) for column in zip(*names, strict=True))
    digits = len(f"{total:,}")
    room = (on.width if on.is_terminal else 2 * _PIPED) - steps - states - digits - 6
    widest = max(min(room, _WIDEST if on.is_terminal else _PIPED), 0)
    most, before = max(counts.values(), default=0), None
    for (step, name), (state, number) in zip(names, counts.items(), strict=True):
        style = style_of(state)
        bar = _bar(number, most, widest, blocks=on.encoding.startswith("utf"))
        line = Text(f"{'' if step == before else step:{steps}}  ")
        line.append(f"{name:{states}}", style if number else "dim").append("  ")
        line.append(f"{number:>{digits},}", "" if number else "dim").append("  ").append(bar, style)
        line.rstrip()
        yield line
        before = step


def _bar(number: int, most: int, widest: int, *, blocks: bool) -> str:
    """Return a bar in proportion; what is there has one, however little it is."""
    if not number or not widest:
        return ""
    if not blocks:
        return "#" * max(round(widest * number / most), 1)
    eighths = max(round(8 * widest * number / most), 1)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
