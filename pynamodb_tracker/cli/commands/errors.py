"""`errors`: why tasks of a step failed or were ignored, by error."""

from __future__ import annotations

from typing import Annotated

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli.damaged import Unread, is_bare
from pynamodb_tracker.cli.error_groups import Group, Groups
from pynamodb_tracker.cli.exits import FOUND
from pynamodb_tracker.cli.lookup import check_window, name_of, step_named, steps_of, use_case
from pynamodb_tracker.cli.options import AppOption, JsonOption, SinceOption, UntilOption, UseCaseOption
from pynamodb_tracker.cli.terminal.echo import console, say, say_json_array
from pynamodb_tracker.cli.terminal.table import Cell, Column, Table
from pynamodb_tracker.cli.times import age, stamp
from pynamodb_tracker.step.tolerant import leniently

__all__ = ["errors"]


def errors(
    step: Annotated[str | None, typer.Argument(metavar="STEP", help="One step; without it, all of them.")] = None,
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
    groups, unread = Groups(), Unread(own_too=False)
    with use_case(name, use_case_name) as model:
        check_window(since, until)
        for of in [step_named(model, step)] if step else steps_of(model):
            for state in (of.failed, of.ignored):
                for task in unread.told(leniently(state, since=since, until=until)):
                    if not is_bare(task):
                        error = task.last_error or "no error is known"
                        groups.add(name_of(state), task.task_id, error, task.update_time)
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
            lines = (_row(state, group, alone=step is not None) for state, group in found)
            Table(console(), (*titles, Column("error"))).print(lines)
    if found:
        raise typer.Exit(FOUND)
    unread.exit()


def _row(state: str, group: Group, *, alone: bool) -> list[str | Cell]:
    """Return the cells of a group; where the step is `alone`, everybody knows its name."""
    style = "magenta" if state.endswith("ignored") else "red"
    newest, shown = age(clock.now() - group.newest), state.rpartition(".")[2] if alone else state
    return [f"{group.tasks:,}", Cell(shown, style), newest, Cell(group.example, "bold"), group.error]
