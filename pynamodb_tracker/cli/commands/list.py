"""`list`, `errors` and `stuck`: tables of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Annotated, Any

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli.exits import FOUND
from pynamodb_tracker.cli.lookup import check_window, name_of, state_named, step_named, steps_of, use_case
from pynamodb_tracker.cli.options import AppOption, JsonOption, SinceOption, UntilOption, UseCaseOption
from pynamodb_tracker.cli.tasks import (
    Damaged,
    ErrorGroup,
    ErrorGroups,
    columns_of,
    is_abandoned,
    is_hidden,
    row_of,
    task_as_json,
)
from pynamodb_tracker.cli.terminal import Cell, Column, count, print_table, say, say_json_array, styled, warn
from pynamodb_tracker.cli.times import age, between, stamp
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import due_until
from pynamodb_tracker.task.task import Task

StepOption = Annotated[str | None, typer.Argument(metavar="STEP", help="Only this step; all steps by default.")]


def list_tasks(
    state: Annotated[str, typer.Argument(metavar="STEP.STATE", help="The state, as in ship.failed.")],
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    newest: Annotated[bool, typer.Option("--newest", metavar="", help="Begin with the latest due time.")] = (False),
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show at most this many tasks.")] = 50,
    everything: Annotated[bool, typer.Option("--all", metavar="", help="Show all tasks, without a limit.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the tasks in a state, in the order of their due times.

    The states of a step are pending, in_progress, failed, ignored and succeeded. The column "age" shows how long a task
    has been in its state.
    """
    most = None if everything else limit
    with use_case(name, use_case_name) as model:
        check_window(since, until)
        of, damaged = state_named(model, state), Damaged(own_too=True)
        asked = None if most is None else most + 1
        found = of.query(since=since, until=until, latest_first=newest, limit=asked, with_data=False)
        shown = damaged.reported(islice(found, most))
        if as_json:
            say_json_array(map(task_as_json, shown))
        else:
            print_table(columns_of(of.status), (row_of(of.status, task) for task in shown if not is_hidden(task)))
        if not (damaged.read or as_json):
            say(f"no task of {model.__name__} is {name_of(of)}")
        if next(found, None) is not None:
            warn(f"these are the first {count(limit)}: use --limit N or --all to see more")
        damaged.exit()


def errors(
    step: StepOption = None,
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    as_json: JsonOption = False,
) -> None:
    """Group failed and ignored tasks by their last error, the most frequent error first.

    Errors that differ only in ids, times and numbers of four or more digits are in one group; these are shown as #, and
    the task's own id as …. The example is the newest task of the group.

    Exits with 1 if there are any.
    """
    groups, damaged = ErrorGroups(), Damaged(own_too=False)
    with use_case(name, use_case_name) as model:
        check_window(since, until)
        for of in [step_named(model, step)] if step else steps_of(model):
            for state in (of.failed, of.ignored):
                for task in damaged.reported(state.query(since=since, until=until, with_data=False)):
                    if not is_hidden(task):
                        error = task.last_error or "no error is recorded"
                        groups.add(name_of(state), task.task_id, error, task.update_time)
        found = groups.sorted()
        if as_json:
            say_json_array(_group_as_json(state_name, group) for state_name, group in found)
        elif not found:
            say(f"no task of {model.__name__} has failed or is ignored{f' in {step}' if step else ''}")
        else:
            titles = (Column("tasks", right=True), Column("state"), Column("newest", right=True), Column("example"))
            rows = (_group_row(state_name, group, with_step=not step) for state_name, group in found)
            print_table((*titles, Column("error")), rows)
    if found:
        raise typer.Exit(FOUND)
    damaged.exit()


def _group_as_json(state: str, group: ErrorGroup) -> dict[str, Any]:
    newest = stamp(group.newest)
    return {"state": state, "tasks": group.tasks, "error": group.error, "newest": newest, "example": group.example}


def _group_row(state: str, group: ErrorGroup, *, with_step: bool) -> list[Cell]:
    style = "magenta" if state.endswith("ignored") else "red"
    newest, shown = age(clock.now() - group.newest), state if with_step else state.rpartition(".")[2]
    return [f"{group.tasks:,}", styled(shown, style), newest, styled(group.example, "bold"), group.error]


def stuck(
    step: StepOption = None,
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List tasks that are in progress although their lock has expired, because their worker died or lost the lock.

    No action is needed: the next run of the step takes them over, or ignores them if they have no attempts left.

    Exits with 1 if there are any.
    """
    damaged = Damaged(own_too=False)
    with use_case(name, use_case_name) as model:
        found = _stuck([step_named(model, step)] if step else steps_of(model), damaged)
        first = next(found, None)
        all_found = [] if first is None else chain([first], found)
        if as_json:
            say_json_array(task_as_json(task) | {"max_attempts": of.declared.max_attempts} for of, task in all_found)
        elif first is None:
            say(f"no task of {model.__name__} is stuck{f' in {step}' if step else ''}")
        else:
            titles = (Column("task"), Column("step"), Column("attempt", right=True), Column("lock expired"))
            print_table((*titles, Column("next run"), Column("worker")), map(_stuck_row, all_found))
    if first is not None:
        raise typer.Exit(FOUND)
    damaged.exit()


def _stuck(steps: list[BoundStep[Any]], damaged: Damaged) -> Iterator[tuple[BoundStep[Any], Task]]:
    for step in steps:
        expired = clock.now() - step.model.tracker.margin
        for task in damaged.reported(due_until(step.in_progress, expired)):
            if is_abandoned(task) and not is_hidden(task):
                yield step, task


def _stuck_row(found: tuple[BoundStep[Any], Task]) -> list[Cell]:
    step, task = found
    is_spent = (task.attempt or 0) >= step.declared.max_attempts
    return [
        styled(task.task_id, "bold"),
        step.name,
        f"{task.attempt} of {step.declared.max_attempts}",
        between(task.lock_expire_time),
        styled("ignores it", "magenta") if is_spent else "takes it over",
        task.worker or "",
    ]
