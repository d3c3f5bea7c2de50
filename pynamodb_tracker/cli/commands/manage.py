"""`reopen`, `ignore` and `delete`: decisions about single tasks."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import typer

from pynamodb_tracker.arguments import check_task_id
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import CANNOT_RUN, FOUND, INTERRUPTED, name_of, stdin, step_named, use_case
from pynamodb_tracker.cli.terminal import count, escaped, say, warn
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.hydration import rows

_FOR_PROGRAMS = "; start takes "
"""Where advice begins that is for programmers."""

_NAMED = 5
"""Tasks that a question names."""


def reopen(step: opt.Step, tasks: opt.Tasks, *, name: opt.App, use_case_name: opt.UseCase = None) -> None:
    """Make failed or ignored tasks pending again and due now, with all their attempts.

    Exits with 1 if a task was refused; the others are reopened.
    """
    with use_case(name, use_case_name) as model:
        of = step_named(model, step)

        def reopen_one(task_id: str) -> str:
            return name_of(of.reopen(task_id).state)

        _for_each(tasks, reopen_one)


def ignore(
    step: opt.Step,
    tasks: opt.Tasks,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is kept with the task's errors.")],
    name: opt.App,
    use_case_name: opt.UseCase = None,
) -> None:
    """Ignore tasks: they are not run until they are reopened.

    Exits with 1 if a task was refused; the others are ignored.
    """
    with use_case(name, use_case_name) as model:
        if not reason.strip():
            raise typer.BadParameter("give a reason, for people who look at the task later", param_hint="--reason")
        of = step_named(model, step)

        def ignore_one(task_id: str) -> str:
            row = rows(model, [check_task_id(task_id)]).get(task_id)
            was_ignored = row is not None and row.status == of._definition.codes.ignored
            state = name_of(of.ignore(task_id, reason=reason).state)
            return f"{state}, as before; its reason was not changed" if was_ignored else state

        _for_each(tasks, ignore_one)


def delete(
    tasks: opt.Tasks,
    *,
    yes: Annotated[bool, opt.flag("--yes", "Delete without asking.")] = False,
    name: opt.App,
    use_case_name: opt.UseCase = None,
) -> None:
    """Delete tasks permanently, with all their data. A task in progress is refused.

    Asks for confirmation first. Exits with 1 if the answer is no or a task was refused; the others are deleted.
    """
    with use_case(name, use_case_name) as model:
        if not yes:
            _confirm(model.__name__, tasks)

        def delete_one(task_id: str) -> str:
            model.delete_task(task_id)
            return "deleted"

        _for_each(tasks, delete_one)


def _confirm(what: str, tasks: Sequence[str]) -> None:
    """Ask for confirmation; exit if the answer is no, or if no terminal is there to ask at."""
    if "-" in tasks or not _is_terminal():
        warn("delete asks for confirmation, but stdin is not a terminal: add --yes")
        raise typer.Exit(CANNOT_RUN)
    named = ", ".join(map(escaped, tasks[:_NAMED])) + (", ..." if len(tasks) > _NAMED else "")
    try:
        confirmed, code = typer.confirm(f"Delete {count(len(tasks))} of {what} permanently ({named})?", err=True), FOUND
    except typer.Abort as error:
        warn("")
        confirmed, code = False, FOUND if isinstance(error.__context__, EOFError) else INTERRUPTED
    if not confirmed:
        warn("nothing was deleted")
        raise typer.Exit(code)


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _for_each(tasks: Sequence[str], change: Callable[[str], str]) -> None:
    """Change each task and print the result; a task that is refused is reported, and the others go on."""
    refused = 0
    for task_id in _ids(tasks):
        try:
            say(f"{escaped(task_id)}: {change(task_id)}")
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
