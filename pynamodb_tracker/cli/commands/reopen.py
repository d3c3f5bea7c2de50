"""`reopen`, `ignore` and `delete`: what a person decides about single tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import typer

from pynamodb_tracker.arguments import check_task_id
from pynamodb_tracker.cli.exits import CANNOT_RUN, FOUND, INTERRUPTED, stdin
from pynamodb_tracker.cli.lookup import name_of, step_named, use_case
from pynamodb_tracker.cli.options import AppOption, StepArgument, TasksArgument, UseCaseOption
from pynamodb_tracker.cli.terminal.echo import count, escaped, say, warn
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.task.task import Task

__all__ = ["delete", "ignore", "reopen"]

_FOR_PROGRAMS = "; start takes "
"""Where advice begins that is for those who write programs."""

_NAMED = 5
"""Tasks that a question names."""


def reopen(step: StepArgument, tasks: TasksArgument, *, name: AppOption, use_case_name: UseCaseOption = None) -> None:
    """Give failed or ignored tasks a fresh set of attempts: they are pending again, and due.

    Exits with 1 if one of them was refused; the others are reopened.
    """
    with use_case(name, use_case_name) as model:
        of = step_named(model, step)
        _each(tasks, lambda task_id: say(f"{escaped(task_id)}: {name_of(of.reopen(task_id).state)}"))


def ignore(
    step: StepArgument,
    tasks: TasksArgument,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is kept with the errors of the task.")],
    name: AppOption,
    use_case_name: UseCaseOption = None,
) -> None:
    """Set tasks aside: nobody runs them until they are reopened.

    Exits with 1 if one of them was refused; the others are ignored.
    """
    with use_case(name, use_case_name) as model:
        if not reason.strip():
            raise typer.BadParameter("write why, for those who look at the task", param_hint="--reason")
        of = step_named(model, step)

        def ignore_one(task_id: str) -> None:
            was_ignored = _status(model, task_id) == of.codes.ignored
            told = name_of(of.ignore(task_id, reason=reason).state)
            say(f"{escaped(task_id)}: {told}{' as before; the reason is not changed' if was_ignored else ''}")

        _each(tasks, ignore_one)


def _status(model: type[Task], task_id: str) -> int | None:
    row = rows(model, [check_task_id(task_id)]).get(task_id)
    return None if row is None else row.status


def delete(
    tasks: TasksArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", metavar="", help="Do not ask.")] = False,
    name: AppOption,
    use_case_name: UseCaseOption = None,
) -> None:
    """Delete tasks for ever, and what lies beside their rows; a task in progress is refused.

    It asks first. Exits with 1 if the answer is no, or if one of them was refused; the others are deleted.
    """
    with use_case(name, use_case_name) as model:
        if not yes:
            _ask(model.__name__, tasks)

        def delete_one(task_id: str) -> None:
            model.delete_task(task_id)
            say(f"{escaped(task_id)}: deleted")

        _each(tasks, delete_one)


def _ask(what: str, tasks: Sequence[str]) -> None:
    """Ask whether these are to be deleted; exit if not, or if there is nobody to ask."""
    if "-" in tasks or not _is_terminal():
        warn("delete asks before it deletes, and cannot ask here: add --yes")
        raise typer.Exit(CANNOT_RUN)
    named = ", ".join(map(escaped, tasks[:_NAMED])) + (", ..." if len(tasks) > _NAMED else "")
    try:
        wanted, code = typer.confirm(f"Delete {count(len(tasks))} of {what} for ever ({named})?", err=True), FOUND
    except typer.Abort as error:
        warn("")
        wanted, code = False, FOUND if isinstance(error.__context__, EOFError) else INTERRUPTED
    if not wanted:
        warn("nothing was deleted")
        raise typer.Exit(code)


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _each(tasks: Sequence[str], order: Callable[[str], None]) -> None:
    """Give the order for each task; one that is refused is told, and the others go on."""
    refused = 0
    for task_id in _ids(tasks):
        try:
            order(task_id)
        except (TrackerError, ValueError) as error:
            warn(str(error).partition(_FOR_PROGRAMS)[0])
            refused += 1
    if refused:
        raise typer.Exit(FOUND)


def _ids(tasks: Sequence[str]) -> Iterator[str]:
    for task_id in tasks:
        if task_id == "-":
            yield from (line.rstrip("\r\n") for line in stdin() if line.strip())
        else:
            yield task_id
