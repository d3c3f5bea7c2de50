"""`errors`: why tasks of a step failed or were ignored, by error."""

from __future__ import annotations

from typing import Annotated

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli.exits import FOUND
from pynamodb_tracker.cli.grouping import Group, Groups
from pynamodb_tracker.cli.options import AppOption, JsonOption, SinceOption, UntilOption, UseCaseOption
from pynamodb_tracker.cli.screen import console, say, say_json_array
from pynamodb_tracker.cli.table import Cell, Column, Table
from pynamodb_tracker.cli.target import check_window, name_of, step_named, steps_of, use_case
from pynamodb_tracker.cli.times import age, stamp

__all__ = ["errors"]


def errors(
    step: Annotated[str | None, typer.Argument(metavar="[STEP]", help="One step; without it, all of them.")] = None,
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    as_json: JsonOption = False,
) -> None:
    """Group the failed and the ignored tasks by their last error, the commonest first.

    Errors are one where only ids, times and numbers of four digits or more differ; those are shown as # and the id of
    the task as …, with the newest task as an example.

    Exits with 1 if there are any.
    """
    groups = Groups()
    with use_case(name, use_case_name) as model:
        check_window(since, until)
        for of in [step_named(model, step)] if step else steps_of(model):
            for state in (of.failed, of.ignored):
                for task in state.query(since=since, until=until, with_data=False):
                    groups.add(name_of(state), task.task_id, task.last_error or "no error is known", task.update_time)
        found = groups.sorted()
        if as_json:
            say_json_array(
                {
                    "state": state,
                    "tasks": group.tasks,
                    "error": group.error,
                    "newest": stamp(group.newest),
                    "example": group.example,
                }
                for state, group in found
            )
        elif not found:
            say(f"no task of {model.__name__} has failed or is ignored{f' in {step}' if step else ''}")
        else:
            titles = (Column("tasks", right=True), Column("state"), Column("newest", right=True), Column("example"))
            Table(console(), (*titles, Column("error"))).print(_row(state, group) for state, group in found)
    if found:
        raise typer.Exit(FOUND)


def _row(state: str, group: Group) -> list[str | Cell]:
    style = "magenta" if state.endswith("ignored") else "red"
    newest = age(clock.now() - group.newest)
    return [f"{group.tasks:,}", Cell(state, style), newest, Cell(group.example, "bold"), group.error]
