"""`list` and `stuck`: the tasks of a state, and those that a dead worker left behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli.damaged import Unread, is_bare
from pynamodb_tracker.cli.exits import FOUND
from pynamodb_tracker.cli.lookup import check_window, name_of, state_named, step_named, steps_of, use_case
from pynamodb_tracker.cli.options import AppOption, JsonOption, SinceOption, UntilOption, UseCaseOption
from pynamodb_tracker.cli.task_rows import columns_of, is_abandoned, row_of, told
from pynamodb_tracker.cli.terminal.echo import console, count, say, say_json_array, warn
from pynamodb_tracker.cli.terminal.table import Cell, Column, Table
from pynamodb_tracker.cli.times import between
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.tolerant import leniently
from pynamodb_tracker.task.task import Task

__all__ = ["list_tasks", "stuck"]


def list_tasks(
    state: Annotated[str, typer.Argument(metavar="STEP.STATE", help="The state, as in ship.failed.")],
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    newest: Annotated[bool, typer.Option("--newest", metavar="", help="Begin with what is due last.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many at most.")] = 50,
    everything: Annotated[bool, typer.Option("--all", metavar="", help="All of them, instead of --limit.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the tasks of a state, those first that are due first.

    The states of a step are pending, in_progress, failed, ignored and succeeded. The age is the time in that state.
    """
    most = None if everything else limit
    with use_case(name, use_case_name) as model:
        check_window(since, until)
        of = state_named(model, state)
        asked = None if most is None else most + 1
        found, unread = leniently(of, since=since, until=until, latest_first=newest, limit=asked), Unread(own_too=True)
        shown = _Counted(unread.told(islice(found, most)))
        if as_json:
            say_json_array(map(told, shown))
        else:
            Table(console(), columns_of(of.status)).print(
                row_of(of.status, task) for task in shown if not is_bare(task)
            )
        if not (shown.number or as_json):
            say(f"no task of {model.__name__} is {name_of(of)}")
        if next(found, None) is not None:
            warn(f"the first {count(limit)}, and there are more: take --limit N, or --all")
        unread.exit()


class _Counted:
    """An iterable of tasks, and how many there were."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks = tasks
        self.number = 0

    def __iter__(self) -> Iterator[Task]:
        for task in self._tasks:
            self.number += 1
            yield task


def stuck(
    step: Annotated[str | None, typer.Argument(metavar="STEP", help="One step; without it, all of them.")] = None,
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tasks whose lock is over while they are in progress: their workers died, or lost them.

    Nothing needs to be put right: the next run of the step takes them over, or ignores them if their attempts are used.

    Exits with 1 if there are any.
    """
    unread = Unread(own_too=False)
    with use_case(name, use_case_name) as model:
        found = _stuck([step_named(model, step)] if step else steps_of(model), unread)
        first = next(found, None)
        rest = (each for tasks in ([] if first is None else [first], found) for each in tasks)
        if as_json:
            say_json_array(told(task) | {"max_attempts": of.declared.max_attempts} for of, task in rest)
        elif first is None:
            say(f"no task of {model.__name__} is stuck{f' in {step}' if step else ''}")
        else:
            titles = (Column("task"), Column("step"), Column("attempt", right=True), Column("lock ended"))
            Table(console(), (*titles, Column("next run"), Column("worker"))).print(map(_row, rest))
    if first is not None:
        raise typer.Exit(FOUND)
    unread.exit()


def _stuck(steps: list[BoundStep[Any]], unread: Unread) -> Iterator[tuple[BoundStep[Any], Task]]:
    """Yield what is abandoned, step by step."""
    for step in steps:
        over = clock.now() - step.model.tracker.margin
        for task in unread.told(leniently(step.in_progress, latest=over)):
            if is_abandoned(task) and not is_bare(task):
                yield step, task


def _row(found: tuple[BoundStep[Any], Task]) -> list[str | Cell]:
    step, task = found
    spent = (task.attempt or 0) >= step.declared.max_attempts
    return [
        Cell(task.task_id, "bold"),
        step.name,
        f"{task.attempt} of {step.declared.max_attempts}",
        between(task.lock_expire_time),
        Cell("ignores it", "magenta") if spent else "takes it over",
        task.worker or "",
    ]
