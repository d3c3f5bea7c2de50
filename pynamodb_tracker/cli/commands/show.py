"""`show`: everything about one task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from pynamodb_tracker import clock
from pynamodb_tracker.arguments import check_task_id
from pynamodb_tracker.cli.exits import FOUND, CannotRunError
from pynamodb_tracker.cli.lookup import name_of, use_case
from pynamodb_tracker.cli.options import AppOption, JsonOption, UseCaseOption
from pynamodb_tracker.cli.tasks import is_abandoned, remove_unreadable, task_as_json
from pynamodb_tracker.cli.terminal import COLOURS, console, escaped, say, say_json
from pynamodb_tracker.cli.times import between, stamp
from pynamodb_tracker.exceptions import TaskNotFoundError
from pynamodb_tracker.model import hydration
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.task.task import Task

_LABEL = 12
"""Characters of the labels on the left."""


def show(
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="The id of the task.")],
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show everything about a task: its state, what happens next, its attributes, and its failures with tracebacks.

    Exits with 1 if the task does not exist.
    """
    with use_case(name, use_case_name) as model:
        task = _read(model, task_id)
        found = task_as_json(task, with_data=True)
        remove_unreadable(task)  # it is only shown; `found` lists what is missing
        if as_json:
            say_json({**found, "errors": [asdict(each) | {"time": stamp(each.time)} for each in task.errors]})
        else:
            on = console()
            for line in (*_facts(task), *_attributes(found), *_failures(task)):
                say(line, on)
        if "unread" in found:
            raise typer.Exit(FOUND)


def _read(model: type[Task], task_id: str) -> Task:
    """Return the task with all of it that can be read."""
    try:
        found = hydration.rows(model, [check_task_id(task_id)])
    except ValueError as error:
        raise CannotRunError(str(error)) from None
    found = hydration.fill(model, found)
    if task_id not in found:
        raise TaskNotFoundError(f"there is no {model.__name__} {task_id!r}", task_id=task_id)
    return found[task_id]


def _facts(task: Task) -> Iterator[Text]:
    state = task.state
    yield Text.assemble(
        (f"{type(task).__name__} {escaped(task.task_id)}", "bold"), ": ", (name_of(state), COLOURS[state.status])
    )
    step = getattr(type(task), state.step, None) if state.step else None
    if step is not None and not task.tracker.ends_at(state.code):
        yield _line("attempt", f"{task.attempt} of {step.declared.max_attempts}")
    yield _line("next", _next(task, step))
    yield _line("created", _time(task.create_time))
    yield _line("in its state", _time(task.update_time))
    if state.status in {Status.PENDING, Status.FAILED}:
        yield _line("due", _time(task.due_time))
    if state.status is Status.IN_PROGRESS:
        yield _line("lock expires", _time(task.lock_expire_time))
    if task.worker:
        yield _line("last worker", f"{escaped(task.worker)}, claim {task.fence} of this task")
    expires: datetime | None = task.expire_time
    if expires is not None:
        yield _line("kept until", _time(expires))


def _next(task: Task, step: BoundStep[Any] | None) -> str:
    """Return what happens to the task next."""
    if step is None:
        return "nothing: no step declares its state"
    match task.state.status:
        case Status.SUCCEEDED:
            return "nothing: it is done"
        case Status.IGNORED:
            return f"waits for someone to reopen it: pynamodb-tracker reopen {step.name} TASK"
        case Status.IN_PROGRESS if is_abandoned(task):
            is_spent = (task.attempt or 0) >= step.declared.max_attempts
            return f"its lock expired; the next run {'ignores it: no attempts left' if is_spent else 'takes it over'}"
        case Status.IN_PROGRESS:
            return "its worker is running it"
        case _:
            due: datetime | None = task.due_time
            when = "at a time that cannot be read" if due is None else between(due) if due > clock.now() else "now"
            return f"may start {when}"


def _time(time: datetime | None) -> str:
    if time is None:  # it cannot be read
        return "?"
    return f"{time:%Y-%m-%d %H:%M:%S} UTC, {between(time)}"


def _line(label: str, text: str) -> Text:
    return Text.assemble((f"  {label:{_LABEL}}", "dim"), "  ", text)


def _attributes(found: Mapping[str, Any]) -> Iterator[Text]:
    """Yield the user's attributes, dictionaries and lists on several lines, and what cannot be read."""
    unread = found.get("unread", {})
    if found["attributes"] or unread:
        yield Text()
    for name, why in unread.items():
        yield Text.assemble(_line(name, ""), (f"cannot be read: {escaped(why)}", "red"))
    for name, value in found["attributes"].items():
        if isinstance(value, dict | list):
            first, *more = map(escaped, json.dumps(value, indent=2, ensure_ascii=False).splitlines())
            yield _line(name, "\n".join([first, *(" " * (_LABEL + 4) + line for line in more)]))
        else:
            yield _line(name, escaped(value if isinstance(value, str) else json.dumps(value)))


def _failures(task: Task) -> Iterator[Text]:
    """Yield the failures, the oldest first."""
    for failure in task.errors:
        attempt = f", attempt {failure.attempt}" if failure.attempt else ""
        yield Text()
        yield Text.assemble(
            (f"{failure.step}{attempt}", "bold"), f": {_time(failure.time)}, by {escaped(failure.worker)}"
        )
        for line in failure.traceback.splitlines():
            yield Text(f"  {escaped(line)}", "dim")
        first, *more = failure.message.splitlines() or [""]
        yield Text.assemble("  ", (f"{failure.type}: {escaped(first)}".removesuffix(": "), "red"))
        for line in more:
            yield Text(f"  {escaped(line)}", "red")
